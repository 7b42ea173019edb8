"""A corpus of any size, made part by part by steps of datatrove, here or on a cluster.

| module | what it does |
|---|---|
| `plan` | cuts the sources into parts; the folder of the job |
| `steps` | reads, cleans and stores a part; gives back what is kept of it, as JSON lines by split |
| `decisions` | what is held out and what occurred before, over all parts |
| `job` | `lingraft data clean`: the pipelines of these steps, and who runs them |

The text does not depend on how the sources are cut, nor on the number of processes.
`lingraft.corpus.stage` runs the same steps.
"""
