"""A study's cells as jobs of Slurm: a script for each, handed to `sbatch`.

A job outlives the study's process. One that still runs when the study is started again is found by
the number in its folder, and waited for instead of being started twice. How a job ended it writes
into its folder; one that Slurm killed leaves nothing there, and is known by its absence from the
queue.
"""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError
from lingraft.rundir import read_json, write_json, write_text
from lingraft.study.cell import FAILURE
from lingraft.study.processes import LOG, last_line
from lingraft.study.studydir import EXIT, JOB
from lingraft.workers import secrets_withheld

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS = ("sbatch", "squeue", "scancel")
OURS = ("job-name", "chdir", "output", "open-mode", "signal", "no-requeue", "requeue", "array")
"""Options that the script needs for itself."""
NOTICE = 120
"""Seconds before its time is over, or it is preempted, at which a cell writes its checkpoint."""
ASKING_SECONDS = 10.0
"""Between two looks at the queue."""
PATIENCE = 30.0
"""Seconds for which a job may be missing from the queue before its files must tell of its end: a
network's file system may show them late."""


def option_lines(options: Mapping[str, str]) -> list[str]:
    """Options of sbatch as lines of a script; one without a value is a flag.

    Raises:
        RecipeError: the script needs the option for itself, or it cannot stand on a line.
    """
    lines = []
    for key, value in options.items():
        name = key.replace("_", "-").lstrip("-")
        if name in OURS:
            raise RecipeError(f"--executor-option {key}: is set by lingraft; leave it out")
        if name == "clusters":  # squeue would not show its jobs, which would count as ended
            raise RecipeError(
                f"--executor-option {key}: jobs of another cluster are not found again; start the "
                "study where jobs go to that cluster"
            )
        if name == "wait":
            raise RecipeError(
                f"--executor-option {key}: sbatch would come back only when its job has ended, and "
                "the study waits for its jobs by itself; leave it out"
            )
        if not re.fullmatch(r"[a-z][a-z-]*", name) or "\n" in value:
            raise RecipeError(
                f"--executor-option {key}: write a long option of sbatch without its dashes, "
                "say partition=gpu, time=08:00:00 or gres=gpu:1"
            )
        lines.append(f"#SBATCH --{name}={escaped(value)}" if value else f"#SBATCH --{name}")
    return lines


def escaped(value: str) -> str:
    """For a line of options, which sbatch reads as a shell does: spaces, quotes, `#`."""
    return re.sub(r"([\s'\"#\\])", r"\\\1", value)


def script(folder: Path, options: Mapping[str, str]) -> str:
    """What is handed to sbatch for a folder: the shell becomes the cell, so signals reach it."""
    place = folder.absolute()
    log = str(place / LOG).replace("%", "%%")
    command = shlex.join([sys.executable, "-m", "lingraft.study.cell", str(place), "--job"])
    lines = [
        "#!/bin/sh",
        f"#SBATCH --job-name={escaped('lingraft-' + place.name)}",
        f"#SBATCH --chdir={escaped(str(Path.cwd()))}",
        f"#SBATCH --output={escaped(log)}",
        "#SBATCH --open-mode=append",
        f"#SBATCH --signal=B:TERM@{NOTICE}",
        "#SBATCH --no-requeue",
        *option_lines(options),
        'export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"',
        f"exec {command}",
    ]
    return "\n".join(lines) + "\n"


class Queue:
    """The user's jobs that wait or run, asked for seldom."""

    def __init__(self) -> None:
        self.asked_at, self.jobs = float("-inf"), frozenset[str]()

    def holds(self, job: str, *, now: bool = False) -> bool:
        """Whether a job waits or runs, as far as is known."""
        if now or time.monotonic() - self.asked_at > ASKING_SECONDS:
            output = _said(["squeue", "--noheader", "--format=%A", "--user", getpass.getuser()])
            self.asked_at = time.monotonic()
            if output is None:  # a controller that is busy does not mean that jobs are gone
                return True
            self.jobs = frozenset(output.split())
        return job in self.jobs


class SlurmJob:
    """One job, as the study's runner sees it."""

    def __init__(self, folder: Path, job: str, queue: Queue) -> None:
        self.folder, self.job, self.queue = folder, job, queue
        self.status: int | None = None
        self.missing_since: float | None = None
        self.asked = False

    def poll(self) -> int | None:
        """Its exit status; None while it waits or runs."""
        if self.status is None:
            self.status = self._ended()
            if self.status is not None:
                (self.folder / JOB).unlink(missing_ok=True)
        return self.status

    def _ended(self) -> int | None:
        exit_file = self.folder / EXIT
        if exit_file.is_file():
            return int(read_json(exit_file)["status"])
        if self.queue.holds(self.job):
            self.missing_since = None
            return None
        if self.asked:
            return -signal.SIGTERM
        now = time.monotonic()
        self.missing_since = self.missing_since or now
        if now - self.missing_since < PATIENCE:
            return None
        line = last_line(self.folder / LOG)
        message = f"Slurm ended job {self.job} ({reason(self.job)}); it said: {line}"
        write_text(self.folder / FAILURE, message + "\n")
        return 1

    def terminate_once(self) -> None:
        """Ask it to stop with a checkpoint, or not to begin."""
        if not self.asked:
            self.asked = True
            _said(["scancel", "--batch", "--signal=TERM", self.job])
            _said(["scancel", "--state=PENDING", self.job])

    def kill(self) -> None:
        """End it now."""
        _said(["scancel", self.job])

    def wait(self) -> int:
        """Its exit status as far as it is known: Slurm ends jobs by itself."""
        return -signal.SIGKILL if self.status is None else self.status


class Slurm:
    """Starts a job for a folder; of one that still runs, goes on waiting for it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        option_lines(options)
        self.options, self.queue = options, Queue()

    def script(self, folder: Path) -> str:
        """What would be handed to sbatch."""
        return script(folder, self.options)

    def __call__(self, folder: Path, slot: int, jobs: int, /) -> SlurmJob:
        """Submit what the folder's steps.json asks for.

        Raises:
            DataError: Slurm is not here, or refuses the job.
        """
        check_installed()
        if (folder / JOB).is_file():
            job = str(read_json(folder / JOB)["job"])
            if not (folder / EXIT).is_file() and self.queue.holds(job, now=True):
                return SlurmJob(folder, job, self.queue)
        for name in (EXIT, FAILURE):
            (folder / name).unlink(missing_ok=True)
        with secrets_withheld():
            done = subprocess.run(
                ["sbatch", "--parsable"],
                input=self.script(folder),
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise DataError(f"sbatch refused {folder.name}: {' '.join(done.stderr.split())[-300:]}")
        numbers = re.findall(r"^(\d+)(?:;.*)?$", done.stdout, re.MULTILINE)
        if not numbers:
            said = " ".join(done.stdout.split())[-300:]
            raise DataError(f"sbatch gave no number of a job for {folder.name}; it said: {said}")
        job = str(numbers[-1])  # a site's own sbatch may greet first
        write_json(folder / JOB, {"executor": "slurm", "job": job})
        self.queue.asked_at = float("-inf")
        return SlurmJob(folder, job, self.queue)


def check_installed() -> None:
    """Refuse to start where Slurm's commands are missing.

    Raises:
        DataError: they are.
    """
    for name in COMMANDS:
        if shutil.which(name) is None:
            raise DataError(
                f"--executor slurm: {name} is not here; run the study on a node that can submit "
                "jobs, or leave --executor out"
            )


def reason(job: str) -> str:
    """Why Slurm ended a job, where its accounting tells."""
    if shutil.which("sacct") is None:
        return "no accounting here tells why"
    output = _said(["sacct", "--noheader", "--parsable2", "-X", "--format=State", "-j", job])
    return (output or "").strip().partition("\n")[0] or "its state is not known"


def _said(command: list[str]) -> str | None:
    """What a command printed; None where it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout
