"""A corpus of any size, made part by part, here or as jobs of a cluster.

| module | subject |
|---|---|
| `plan` | the sources cut into parts; the folder of the job |
| `passes` | clean a part; decide over all; write what is kept of a part |
| `decisions` | what is held out and what occurred before, over all parts |
| `job` | `lingraft data clean`: the passes in their order, and who runs them |

The text does not depend on how the sources are cut, nor on the number of processes.
`lingraft.corpus.stage` runs the same passes.
"""
