"""Has Slurm or Ray run the passes of a job, by datatrove's executors."""

from __future__ import annotations

import importlib.util
import inspect
from typing import TYPE_CHECKING, Any

from lingraft.corpus.engine import passes
from lingraft.corpus.extras import require
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from lingraft.corpus.engine.job import Cluster, Kind
    from lingraft.corpus.engine.plan import Folder, Plan

MINIMUM = {"slurm": ("partition", "time"), "ray": ()}


def build(folder: Folder, plan: Plan, cluster: Cluster) -> dict[str, Any]:
    """The executor of every pass, by its name; each waits for the one before.

    Raises:
        RecipeError: an option that the executor does not have, or one that it needs is missing.
        DataError: datatrove is not installed.
    """
    module = require(f"datatrove.executor.{cluster.kind}", f"--executor {cluster.kind}", "corpus")
    kind = getattr(module, f"{cluster.kind.title()}PipelineExecutor")
    _check_options(kind, cluster)
    from lingraft.corpus.engine import blocks

    made: dict[str, Any] = {}
    before = None
    for name, (_, tasks) in passes.passes(plan).items():
        job = {"job_name": f"lingraft-{name}"} if cluster.kind == "slurm" else {}
        before = made[name] = kind(
            pipeline=[blocks.Pass(str(folder.out.absolute()), name)],
            tasks=tasks,
            workers=cluster.processes or -1,
            logging_dir=str(folder.logs(name).absolute()),
            depends=before,
            **job,
            **cluster.options,
        )
    return made


def check_installed(kind: Kind) -> None:
    """Refuse a scheduler whose package is not there; Slurm's commands are looked for by datatrove.

    Raises:
        DataError: Ray is asked for and not installed.
    """
    if kind == "ray" and importlib.util.find_spec("ray") is None:
        raise DataError("--executor ray: needs the package ray; run: pip install ray")


def _check_options(kind: Any, cluster: Cluster) -> None:
    ours = {"self", "pipeline", "tasks", "workers", "logging_dir", "depends", "job_name"}
    allowed = sorted(set(inspect.signature(kind.__init__).parameters) - ours)
    for name in cluster.options:
        if name not in allowed:
            raise RecipeError(
                f"--executor-option {name}: the {cluster.kind} executor has no such option; "
                f"allowed: {', '.join(allowed)}"
            )
    for name in MINIMUM[cluster.kind]:
        if name not in cluster.options:
            raise RecipeError(
                f"--executor {cluster.kind}: needs --executor-option {name}=…, "
                "as the cluster's manual gives it"
            )
