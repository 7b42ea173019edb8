"""A corpus of any size, made part by part, in any number of processes or on a cluster.

| module | what it does |
|---|---|
| `cutting` | cuts the sources into parts |
| `plan` | what the job is made from, and its folder |
| `parts` | pass 1: a part cleaned, and the hashes that duplicates are found by |
| `duplicates` | pass 2: which documents and sentences occurred before, over all parts |
| `shards` | pass 3: what is kept, as JSON lines by split, with its statistics |
| `executors` | has Slurm or Ray run them, by datatrove |
| `job` | puts it together: the passes as functions, and the processes that go through them |

The text does not depend on how the sources are cut, nor on the number of processes.
`lingraft.corpus.stage` runs the same passes.
"""
