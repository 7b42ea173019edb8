"""Runs the passes of a job: here, or on a cluster by Slurm or Ray.

Here, the tasks of datatrove's local executor are handed to a pool of our own: datatrove's waits for
ever when a worker is killed (for want of memory, say), since `multiprocess.Pool` never notices.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import time
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft import workers
from lingraft.corpus.engine import blocks
from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError
from lingraft.log import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future, ProcessPoolExecutor

    from lingraft.corpus.engine.plan import Folder, Plan
    from lingraft.log import Ticker

logger = logging.getLogger(__name__)

Kind = Literal["local", "slurm", "ray"]
MINIMUM = {"slurm": ("partition", "time"), "ray": ()}
TITLES = {"clean": "corpus: cleaning", "write": "corpus: writing"}


@dataclass(frozen=True)
class Cluster:
    """Who runs the tasks.

    Attributes:
        kind: this machine, or a scheduler.
        processes: how many tasks at a time; None is one here, and no limit on a cluster.
        options: further arguments of datatrove's executor, say partition and time of Slurm.
    """

    kind: Kind = "local"
    processes: int | None = None
    options: dict[str, str | int | float] = field(default_factory=dict)


def build(folder: Folder, plan: Plan, cluster: Cluster) -> dict[str, Any]:
    """The executor of every pass, by its name; on a cluster each waits for the one before.

    Raises:
        RecipeError: an option that the executor does not have, or one that it needs is missing.
    """
    made: dict[str, Any] = {}
    before = None
    kind = _class(cluster.kind)
    _check_options(kind, cluster)
    for name, (pipeline, tasks) in blocks.passes(folder, plan).items():
        common = {
            "pipeline": pipeline,
            "tasks": tasks,
            "logging_dir": str(folder.logs(name).absolute()),
            "depends": None if cluster.kind == "local" else before,
            **cluster.options,
        }
        if cluster.kind == "slurm":
            common["job_name"] = f"lingraft-{name}"
        workers = cluster.processes or (1 if cluster.kind == "local" else -1)
        before = made[name] = kind(workers=workers, **common)
    return made


def check_installed(kind: Kind) -> None:
    """Refuse a scheduler whose package is not there; Slurm's commands are looked for by datatrove.

    Raises:
        DataError: Ray is asked for and not installed.
    """
    if kind == "ray" and importlib.util.find_spec("ray") is None:
        raise DataError("--executor ray: needs the package ray; run: pip install ray")


def _class(kind: Kind) -> Any:
    name = {"local": "Local", "slurm": "Slurm", "ray": "Ray"}[kind]
    module = require(f"datatrove.executor.{kind}", f"--executor {kind}", "corpus")
    return getattr(module, f"{name}PipelineExecutor")


def _check_options(kind: Any, cluster: Cluster) -> None:
    ours = {"self", "pipeline", "tasks", "workers", "logging_dir", "depends", "job_name"}
    allowed = sorted(set(inspect.signature(kind.__init__).parameters) - ours)
    for name in cluster.options:
        if name not in allowed:
            raise RecipeError(
                f"--executor-option {name}: the {cluster.kind} executor has no such option; "
                f"allowed: {', '.join(allowed)}"
            )
    for name in MINIMUM.get(cluster.kind, ()):
        if name not in cluster.options:
            raise RecipeError(
                f"--executor {cluster.kind}: needs --executor-option {name}=…, "
                "as the cluster's manual gives it"
            )


def run_here(executors: dict[str, Any], plan: Plan, processes: int) -> None:
    """Run every pass on this machine, a task at a time or several.

    When a task fails, those that run at the same time are finished, so that their work is kept.

    Raises:
        DataError: the first task that failed; or a worker was killed.
    """
    require("loguru", "lingraft corpus", "corpus").logger.disable("datatrove")
    if processes == 1:
        for name, executor in executors.items():
            with _told(name, plan) as ticker:
                for rank in range(executor.world_size):
                    executor._run_for_rank(rank)
                    ticker.advance(_megabytes(name, plan, rank))
        return
    with workers.pool(processes) as pool:
        for name, executor in executors.items():
            with _told(name, plan) as ticker:
                _run_pass(pool, name, executor, plan, ticker)


@contextlib.contextmanager
def _told(name: str, plan: Plan) -> Iterator[Ticker]:
    """Show the progress of a pass, and tell at its end how long it took."""
    total = sum(_megabytes(name, plan, rank) for rank in range(len(plan.parts)))
    begin = time.monotonic()
    with progress(TITLES.get(name, f"corpus: {name}"), total or None, "MB") as ticker:
        yield ticker
    logger.info("corpus: pass %s took %.1f s", name, time.monotonic() - begin)


def _megabytes(name: str, plan: Plan, rank: int) -> float:
    return plan.parts[rank].bytes / 1e6 if name in TITLES else 0.0


def _run_pass(
    pool: ProcessPoolExecutor, name: str, executor: Any, plan: Plan, ticker: Ticker
) -> None:
    futures = {pool.submit(run_task, executor, rank): rank for rank in range(executor.world_size)}
    waiting: set[Future[None]] = set(futures)
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=futures.__getitem__):
                future.result()
                ticker.advance(_megabytes(name, plan, futures[future]))
    except BrokenProcessPool:
        raise DataError(
            "corpus: a worker process was killed, most likely for want of memory; "
            "the parts that are done are kept: run the same command with fewer --processes"
        ) from None
    finally:
        _cancel(waiting)


def _cancel(futures: Iterable[Future[None]]) -> None:
    for future in futures:
        future.cancel()


def run_task(executor: Any, rank: int) -> None:
    """Run one task, in a worker process."""
    require("loguru", "lingraft corpus", "corpus").logger.disable("datatrove")
    executor._run_for_rank(rank)
