"""Has Slurm or Ray run the passes of a job, by datatrove's executors.

datatrove has blocks of its own for repetition, near-duplicates and language, which need a word
tokenizer or a model for each language from further packages, and its executors know no order of
parts, so that which of two duplicates stays depends on the cut. So only its executors are used.
"""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datatrove.pipeline.base import PipelineStep

from lingraft.corpus.engine import job
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.extras import require
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.corpus.engine.job import Cluster
    from lingraft.corpus.engine.plan import Plan

MINIMUM = {"slurm": ("partition", "time"), "ray": ()}


class Pass(PipelineStep):
    """One pass; the task's number is that of a part, or of a bucket of hashes.

    It reads the plan from the folder, so that it can be sent to another machine as it is.
    """

    type = "corpus"

    def __init__(self, out: str, name: str) -> None:
        self.name = name
        super().__init__()
        self.folder = Folder(Path(out))

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        job.run_task(self.folder, self.name, rank)
        yield from ()


def build(folder: Folder, plan: Plan, cluster: Cluster) -> dict[str, Any]:
    """The executor of every pass, by its name; each waits for the one before.

    Raises:
        RecipeError: an option that the executor does not have, or one that it needs is missing.
    """
    module = importlib.import_module(f"datatrove.executor.{cluster.kind}")
    kind = getattr(module, f"{cluster.kind.title()}PipelineExecutor")
    _check_options(kind, cluster)
    executors: dict[str, Any] = {}
    before = None
    for name, (_, tasks) in job.passes(plan).items():
        title = {"job_name": f"lingraft-{name}"} if cluster.kind == "slurm" else {}
        before = executors[name] = kind(
            pipeline=[Pass(str(folder.out.absolute()), name)],
            tasks=tasks,
            workers=cluster.processes or -1,
            logging_dir=str(folder.logs(name).absolute()),
            depends=before,
            **title,
            **cluster.options,
        )
    return executors


def start_ray() -> None:
    """Start Ray, or reach the cluster that RAY_ADDRESS names; one that starts listens here alone.

    Raises:
        DataError: the package ray is not installed.
    """
    # Ray takes 127.0.0.1 by this alone: it makes another address of one that it is given
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = require("ray", "--executor ray", "ray")
    if not ray.is_initialized():
        ray.init(include_dashboard=None if "RAY_ADDRESS" in os.environ else False)


def _check_options(kind: Any, cluster: Cluster) -> None:
    own_options = {"self", "pipeline", "tasks", "workers", "logging_dir", "depends", "job_name"}
    allowed = sorted(set(inspect.signature(kind.__init__).parameters) - own_options)
    for name in cluster.options:
        if name not in allowed:
            raise RecipeError(
                f"executor.{name}: the {cluster.kind} executor has no such option; "
                f"allowed: {', '.join(allowed)}"
            )
    for name in MINIMUM[cluster.kind]:
        if name not in cluster.options:
            raise RecipeError(
                f"--executor {cluster.kind}: needs executor.{name}=…, "
                "as the cluster's manual gives it"
            )
