"""Executors of a cell: a process of this machine, or a job of Slurm."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lingraft import threads
from lingraft.errors import DataError, RecipeError, explain
from lingraft.rundir import write_text
from lingraft.study import cell
from lingraft.workers import secrets_withheld

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = "log.txt"
"""In a cell's folder: what the process said."""
JOBS = "jobs"
"""In the study's folder: submitit's files."""


class Handle(Protocol):
    """Work that was started, wherever it runs."""

    def poll(self) -> int | None:
        """Return its exit status; None while it waits or runs."""

    def terminate(self) -> None:
        """Ask it to stop with a checkpoint."""

    def kill(self) -> None:
        """End it now."""


Start = Callable[[Path, int, int], Handle]
"""Starts a cell: in which folder, in which of how many slots."""


def start_of(executor: str, options: Mapping[str, Any], out: Path) -> Start:
    """Return how cells are started.

    Args:
        executor: local, slurm, or debug for submitit's own processes.
        options: of submitit's jobs, such as timeout_min and slurm_partition.
        out: the study's folder, where submitit keeps its files.

    Raises:
        RecipeError: there is no such executor, it has no such option, or submitit is missing.
    """
    if executor == "local":
        if options:
            raise RecipeError(f"{next(iter(options))}=…: is for jobs; add --executor slurm")
        return start_process
    if executor not in ("slurm", "submitit-local"):
        raise RecipeError(f"--executor: must be local or slurm; got {executor}")
    try:
        import submitit
    except ImportError:
        install = "pip install 'lingraft[slurm]'"
        raise RecipeError(f"--executor {executor}: needs submitit ({install})") from None
    threads.leave_to_jobs()
    cluster = executor.removeprefix("submitit-")
    try:
        jobs = submitit.AutoExecutor(folder=out / JOBS / "%j", cluster=cluster)
        jobs.update_parameters(**{"name": "lingraft", **options})
    except (ValueError, TypeError, RuntimeError, NameError) as error:
        raise RecipeError(f"--executor {executor}: {error}") from None

    def start(folder: Path, _slot: int, _jobs: int) -> Handle:
        try:
            with secrets_withheld():
                return Job(jobs.submit(Work(), folder.absolute()), folder)
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            raise DataError(f"{folder.name}: was not taken by {executor}: {error}") from None

    return start


class Work:
    """A cell as a job; one whose time is over is handed in again and goes on."""

    def __call__(self, folder: Path) -> int:
        return cell.work(folder)

    def checkpoint(self, *arguments: Any) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


class Job:
    """A job of submitit."""

    def __init__(self, job: Any, folder: Path) -> None:
        self.job, self.folder = job, folder

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        try:
            return int(self.job.result())
        except Exception as error:  # submitit's own, and whatever a job raised
            last = str(error).strip().rpartition("\n")[2]
            message = f"job {self.job.job_id} ended ({self.job.state}): {last}"
            write_text(self.folder / cell.FAILURE, message + "\n")
            return 1

    def terminate(self) -> None:
        self.job.cancel()

    kill = terminate


def start_process(folder: Path, slot: int, jobs: int) -> Handle:
    """Start a cell in a process of its own.

    It is in a process group of its own, so that Ctrl-C reaches it through us and only once; its
    standard input is a pipe whose end tells it that we are gone.
    """
    share = {}
    if threads.COUNT not in os.environ or threads.limited:
        share[threads.COUNT] = str(max(1, threads.cores() // jobs))
    if len(gpus := visible_gpus()) > 1:
        share["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "lingraft.study.cell", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | share,
            process_group=0,
        )


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """Return CUDA devices as CUDA_VISIBLE_DEVICES names them, found without loading torch."""
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is not None:
        return [name.strip() for name in variable.split(",") if name.strip() not in ("", "-1")]
    files = [path for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(index) for index in range(len(files))]


def failure(folder: Path, status: int) -> str:
    """Return why a cell ended with an error, on one line."""
    reason, log = folder / cell.FAILURE, folder / LOG
    if reason.is_file():
        return reason.read_text(encoding="utf-8").strip()
    if status == cell.NO_ROOM:
        return explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    last = next((line.strip()[:300] for line in reversed(lines) if line.strip()), "nothing")
    if status < 0:
        memory = " (out of memory?)" if -status == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-status).name}{memory}; it said: {last}"
    return f"exit status {status}; it said: {last}"
