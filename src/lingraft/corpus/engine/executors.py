"""Runs the passes of a job: here, or on a cluster by Slurm or Ray.

Here, the tasks of datatrove's local executor are handed to a pool of our own: datatrove's waits for
ever when a worker is killed (for want of memory, say), since `multiprocess.Pool` never notices.
"""

from __future__ import annotations

import importlib.util
import inspect
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft import workers
from lingraft.corpus.engine import blocks, passes
from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

    from lingraft.corpus.engine.plan import Folder, Plan
    from lingraft.log import Ticker

Kind = Literal["local", "slurm", "ray"]
MINIMUM = {"slurm": ("partition", "time"), "ray": ()}


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
    out = str(folder.out.absolute())
    kind = _class(cluster.kind)
    _check_options(kind, cluster)
    for name, (_, tasks) in passes.passes(plan).items():
        common = {
            "pipeline": [blocks.Pass(out, name)],
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
            with passes.told(name, plan) as ticker:
                for rank in range(executor.world_size):
                    executor._run_for_rank(rank)
                    ticker.advance(passes.megabytes(name, plan, rank))
        return
    with workers.pool(processes) as pool:
        for name, executor in executors.items():
            with passes.told(name, plan) as ticker:
                _run_pass(pool, name, executor, plan, ticker)


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
                ticker.advance(passes.megabytes(name, plan, futures[future]))
    except BrokenProcessPool:
        raise DataError(
            "corpus: a worker process was killed, most likely for want of memory; "
            "the parts that are done are kept: run the same command with fewer --processes"
        ) from None
    finally:
        for future in waiting:
            future.cancel()


def run_task(executor: Any, rank: int) -> None:
    """Run one task, in a worker process."""
    require("loguru", "lingraft corpus", "corpus").logger.disable("datatrove")
    executor._run_for_rank(rank)
