"""TensorBoard, W&B and MLflow: a run has one run of theirs, however often it was stopped."""

from __future__ import annotations

import math
import re
import uuid
from typing import TYPE_CHECKING, Any

from lingraft.files import write_json
from lingraft.rundir import Run, fingerprint, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accelerate import Accelerator

    from lingraft.recipe import Recipe
    from lingraft.report.row import Score

RUNS = "trackers.json"
"""File of a run that says which runs of W&B and MLflow are its own."""
TRACKED = ("loss", "learning_rate", "gradient_norm", "tokens_per_second", "mfu")


def start(accelerator: Accelerator, recipe: Recipe, run: Run) -> None:
    """Begin to log, or go on in the trackers' runs of an earlier call."""
    path, trackers = run.path / RUNS, recipe.hardware.trackers
    goes_on = path.is_file()
    known = read_json(path) if goes_on else {"wandb": uuid.uuid4().hex}
    text, method = recipe.model_dump_json(), recipe.training.method
    config = {"recipe": text, "recipe_fingerprint": fingerprint(recipe), "method": method}
    named = {"name": recipe.name, "tags": [method, *recipe.languages], "dir": str(run.path)}
    options: dict[str, dict[str, Any]] = {
        "wandb": named | {"id": known["wandb"], "resume": "allow"},
        "mlflow": {"run_name": recipe.name, "run_id": known.get("mlflow")},
    }
    chosen = {name: options.get(name, {}) for name in trackers}
    accelerator.init_trackers("lingraft", None if goes_on else config, chosen)
    if accelerator.is_main_process:
        if "mlflow" in trackers:
            known["mlflow"] = accelerator.get_tracker("mlflow", unwrap=True).info.run_id
        write_json(path, known)


def log_row(accelerator: Accelerator, run: Run, row: Mapping[str, Any], before: int) -> None:
    """Log a row of metrics.jsonl; of a baseline under its method.

    Args:
        accelerator: of the run.
        run: or a baseline's.
        row: what is logged.
        before: steps that other phases have taken; W&B drops what goes back.
    """
    name = f"{run.path.name}/" * (run.path.parent.name == "baselines")
    name += f"{row['phase']}/{row['kind']}"
    values = {f"{name}_{key}": row[key] for key in TRACKED if row.get(key) is not None}
    accelerator.log(values, step=before + row["step"])


def steps(run: Run, but: tuple[Run, str] | None = None) -> int:
    """Count the steps of a run and its baselines, but for a phase of one of them."""
    last: dict[tuple[str, str], int] = {}
    for one in (run, *map(Run, sorted(run.path.glob("baselines/*")))):
        for row in one.metrics():
            last[str(one.path), row["phase"]] = row["step"]
    if but is not None:
        last.pop((str(but[0].path), but[1]), None)
    return sum(last.values())


def log_scores(accelerator: Accelerator, run: Run, scores: Iterable[Score]) -> None:
    """Log the numbers of the run's tables."""
    values = {
        re.sub(r"[^\w./ -]", "_", "/".join((one.model, one.data or "test", one.metric))): one.value
        for one in scores
        if math.isfinite(one.value)
    }
    accelerator.log(values, step=steps(run))
