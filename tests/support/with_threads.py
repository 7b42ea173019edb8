"""Makes batches and checkpoints beside training on a CPU too, in threads as with a GPU."""

from lingraft.training import beside


def install():
    beside.has_time = lambda _: True
