"""Trains jobs in two processes that talk over gloo (`invariants/worker.py`)."""

import pickle
import socket
from pathlib import Path

from forking import forked
from safetensors.torch import load_file
from stopping import assert_same_bits

WORKER = Path(__file__).parents[1] / "invariants" / "worker.py"


def train_together(folder, model, jobs, resumed=None, wait=300, setup="", precision="no"):
    """Train jobs one after the other, each from the same model, in two processes.

    Each rank leaves its final weights in `JOB/rank-RANK.safetensors`. All else that the second
    process writes is in the folder `second` of the job's, where nothing should be.

    Args:
        folder: for what the processes are given.
        model: what they start from.
        jobs: what to train.
        wait: seconds after which the processes say where they hang, and end.
        setup: a module of the tests that the processes install first.
        precision: as accelerate takes it.
        resumed: for the name of a job's folder, that of the job whose checkpoint it goes on from.
    """
    model.save_pretrained(folder / "model")
    (folder / "jobs.pickle").write_bytes(pickle.dumps((jobs, resumed or {})))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"WAIT": str(wait), "SETUP": setup, "PRECISION": precision}
    ranks = [common | {"RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    processes = [forked(WORKER, folder, rank) for rank in ranks]
    for process in processes:
        process.join(wait + 60)
    output = [path.read_text() for path in sorted(folder.glob("output-*"))]
    assert [process.exitcode for process in processes] == [0, 0], "\n".join(output)


def weights_of_ranks(job):
    """The final weights that `train_together` left, the same on both ranks."""
    first, second = (load_file(job.folder / f"rank-{rank}.safetensors") for rank in (0, 1))
    assert_same_bits(second, first)
    return first
