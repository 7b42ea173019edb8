"""Processes of cells: a share of the machine for each, one wish to stop, a reason at the end."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lingraft import threads
from lingraft.errors import explain
from lingraft.study.cell import FAILURE, NO_ROOM

LOG = "log.txt"
"""In the folder: what the process said."""


class Child(subprocess.Popen[bytes]):
    """A process that is asked to stop at most once: a second signal would skip its checkpoint."""

    asked = False

    def poll(self) -> int | None:
        """Its exit status, None while it runs; the pipe is closed once it has ended."""
        status = super().poll()
        if status is not None and self.stdin is not None:
            self.stdin.close()
        return status

    def terminate_once(self) -> None:
        """Ask it to stop; asking again changes nothing."""
        if not self.asked:
            self.asked = True
            self.terminate()


class Handle(Protocol):
    """Work that was started, wherever it runs: a process, or a job of a cluster."""

    def poll(self) -> int | None:
        """Its exit status, None while it waits or runs."""

    def terminate_once(self) -> None:
        """Ask it to stop with a checkpoint; asking again changes nothing."""

    def kill(self) -> None:
        """End it now."""

    def wait(self) -> int:
        """Its exit status, once it was ended."""


Start = Callable[[Path, int, int], Handle]
"""Starts what a folder's steps.json asks for: in which folder, in which of how many slots."""


def start(folder: Path, slot: int, jobs: int, /) -> Child:
    """Start `lingraft.study.cell` in a process of its own.

    It is in a process group of its own, so that Ctrl-C reaches it through us and only once; its
    standard input is a pipe whose end tells it that we are gone.
    """
    (folder / FAILURE).unlink(missing_ok=True)  # why an earlier attempt failed
    with (folder / LOG).open("ab") as log:
        return Child(
            [sys.executable, "-m", "lingraft.study.cell", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=os.environ | machine_share(slot, jobs),
            process_group=0,
        )


def machine_share(slot: int, jobs: int) -> dict[str, str]:
    """Environment variables that give a slot its share of the cores, and a GPU in turn."""
    share = {}
    if threads.COUNT not in os.environ or threads.limited:
        share[threads.COUNT] = str(max(1, threads.cores() // jobs))
    gpus = visible_gpus()
    if len(gpus) > 1:
        share["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return share


def visible_gpus(devices: Path = Path("/dev")) -> list[str]:
    """CUDA devices as CUDA_VISIBLE_DEVICES names them, found without loading torch."""
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    if variable is not None:
        return [name.strip() for name in variable.split(",") if name.strip() not in ("", "-1")]
    files = [path for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(index) for index in range(len(files))]


def failure(folder: Path, status: int) -> str:
    """Why a process ended with an error, on one line."""
    reason = folder / FAILURE
    if reason.is_file():
        return reason.read_text(encoding="utf-8").strip()
    if status == NO_ROOM:
        return explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder)
    if status < 0:
        name = signal.Signals(-status).name
        memory = " (out of memory?)" if -status == signal.SIGKILL else ""
        return f"killed by {name}{memory}; it said: {last_line(folder / LOG)}"
    return f"exit status {status}; it said: {last_line(folder / LOG)}"


def last_line(path: Path) -> str:
    """The last line of a log that says something, 'nothing' where there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "nothing")
