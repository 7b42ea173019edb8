"""`lingraft corpus`: the command and the report of a corpus; the work is `lingraft.corpus`'s."""
