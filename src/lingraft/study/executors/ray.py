"""A study's cells as tasks of Ray: each starts the cell's process where Ray finds room.

A task's worker holds the pipe by which a cell notices that its study is gone: when Ray, the worker
or the study dies, the cell writes a checkpoint and ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError
from lingraft.rundir import write_text
from lingraft.study.cell import FAILURE
from lingraft.study.processes import LOG

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOURCES = ("num_cpus", "num_gpus", "memory")
LOOKING_SECONDS = 0.2
"""Between two looks at whether a cell has ended, or is to stop."""
STOP, WAITING = "stop", "waiting"
"""In the folder: the study wants the cell to stop; no worker has taken it yet. Ray's own wish to
stop is an interrupt, which a process that was started in the background does not hear."""
PASSED = ("HF_", "LINGRAFT_", "OMP_", "PYTHONPATH", "TOKENIZERS_", "XDG_")
"""Beginnings of environment variables that a cell has from the study; the rest is the worker's."""


def take(folder: str, python: str, where: str, passed: dict[str, str]) -> int:
    """Run a cell in a process of this node; returns its exit status.

    Args:
        folder: the cell's.
        python: the study's interpreter.
        where: the study's working folder: paths in recipes start there.
        passed: environment variables.
    """
    stop = Path(folder) / STOP
    (Path(folder) / WAITING).unlink(missing_ok=True)
    with (Path(folder) / LOG).open("ab") as log:
        child = subprocess.Popen(
            [python, "-m", "lingraft.study.cell", folder],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=where,
            env=os.environ | passed,
            process_group=0,
        )
    try:
        while child.poll() is None and not stop.exists():
            time.sleep(LOOKING_SECONDS)
    except KeyboardInterrupt:  # ray.cancel, which came as the task began
        stop.touch()
    if stop.exists():
        child.terminate()
    return child.wait()


class RayTask:
    """One task, as the study's runner sees it."""

    def __init__(self, ray: Any, folder: Path, reference: Any) -> None:
        self.ray, self.folder, self.reference = ray, folder, reference
        self.status: int | None = None
        self.asked = False

    def poll(self) -> int | None:
        """Its exit status; None while it waits or runs."""
        if self.status is None and self.ray.wait([self.reference], timeout=0)[0]:
            self.status = self._result()
        return self.status

    def _result(self) -> int:
        try:
            return int(self.ray.get(self.reference))
        except self.ray.exceptions.TaskCancelledError:
            return -signal.SIGTERM
        except self.ray.exceptions.RayError as error:
            message = " ".join(str(error).split())[:300]
            write_text(self.folder / FAILURE, f"Ray ended it: {message}\n")
            return 1

    def terminate_once(self) -> None:
        """Ask it to stop with a checkpoint, or not to begin."""
        if not self.asked:
            self.asked = True
            (self.folder / STOP).touch()
            if (self.folder / WAITING).exists():
                self.ray.cancel(self.reference)

    def kill(self) -> None:
        """End its worker now; the cell notices."""
        self.ray.cancel(self.reference, force=True)

    def wait(self) -> int:
        """Its exit status as far as it is known."""
        return -signal.SIGKILL if self.status is None else self.status


class Ray:
    """Hands a folder to Ray as a task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Connect: to `address`, to the cluster that RAY_ADDRESS names, or to one made here.

        Before the study listens to signals: Ray sets a handler of its own.

        Raises:
            RecipeError: an option is not known, or no number.
            DataError: ray is not installed, or there is no cluster at the address.
        """
        resources = {key: _number(key, value) for key, value in options.items() if key != "address"}
        self.ray = require("ray", "--executor ray", "ray")
        if not self.ray.is_initialized():
            os.environ.setdefault("RAY_worker_niceness", "0")  # else cells yield to all other work
            # else cells are killed with their worker, before they can write a checkpoint
            os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")
            passed = {key: value for key, value in os.environ.items() if key.startswith(PASSED)}
            try:
                self.ray.init(
                    address=options.get("address"),
                    log_to_driver=False,
                    include_dashboard=False,
                    runtime_env={"env_vars": passed},
                )
            except (ConnectionError, ValueError) as error:
                raise DataError(
                    f"--executor ray: no cluster at {options.get('address', 'RAY_ADDRESS')} "
                    f"({' '.join(str(error).split())[:200]}); start one (ray start --head)"
                ) from None
        own = {key: value for key, value in resources.items() if key not in RESOURCES}
        usual = {key: value for key, value in resources.items() if key in RESOURCES}
        if self.ray.cluster_resources().get("GPU"):
            usual.setdefault("num_gpus", 1)
        self.task = self.ray.remote(max_retries=0, resources=own or None, **usual)(take)

    def __call__(self, folder: Path, slot: int, jobs: int, /) -> RayTask:
        """Hand over what the folder's steps.json asks for."""
        for name in (FAILURE, STOP):
            (folder / name).unlink(missing_ok=True)
        (folder / WAITING).touch()
        passed = {key: value for key, value in os.environ.items() if key.startswith(PASSED)}
        place, where = str(folder.absolute()), str(Path.cwd())
        reference = self.task.remote(place, sys.executable, where, passed)
        return RayTask(self.ray, folder, reference)


def _number(key: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise RecipeError(
            f"--executor-option {key}={value}: write a number of {', '.join(RESOURCES)} or of a "
            "resource that your cluster names, or address=HOST:PORT"
        ) from None
