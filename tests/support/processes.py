"""Trains jobs in two processes that talk over gloo (`invariants/worker.py`)."""

import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).parents[1] / "invariants" / "worker.py"


def train_together(folder, model, jobs, resumed=None, wait=300):
    """Train jobs one after the other, each from the same model, in two processes.

    Each rank leaves its final weights in `JOB/rank-RANK.safetensors`. All else that the second
    process writes is in the folder `second` of the job's, where nothing should be.

    Args:
        folder: for what the processes are given.
        model: what they start from.
        jobs: what to train.
        wait: seconds after which the processes say where they hang, and end.
        resumed: for the name of a job's folder, that of the job whose checkpoint it goes on from.
    """
    model.save_pretrained(folder / "model")
    (folder / "jobs.pickle").write_bytes(pickle.dumps((jobs, resumed or {})))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    common |= {"WAIT": str(wait)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(folder)],
            env=os.environ | common | {"RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    output = [process.communicate(timeout=wait + 60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(output)
