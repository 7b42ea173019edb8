"""From the folder of a finished step of a cell to its rows of results.jsonl."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lingraft.evaluation import records
from lingraft.finetuning import outcomes
from lingraft.report import plots, variants
from lingraft.report.row import Blocks, Score
from lingraft.study.analysis import BITS, CURVE

if TYPE_CHECKING:
    from lingraft.report.row import Value
    from lingraft.report.variants import PhaseRecord, TrainedModel
    from lingraft.rundir import Run

MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")


def training(common: dict[str, Any], run: Run) -> list[Score]:
    """Return the rows of a cell that was trained and evaluated.

    Args:
        common: model, inputs and axes of every row.
        run: the cell's folder.
    """
    (model, *_) = variants.models_of(run)
    environment = model.environment or {}
    stages = ("graft", *(phase.name for phase in model.phases), "evaluation")
    facts: dict[str, Value] = {
        "tokens": model.tokens or 0,
        "seconds": round(sum(run.stage(name).done()["seconds"] for name in stages), 2),
        "training_seconds": model.seconds or 0.0,
        "parameters": int(run.stage("graft").result()["parameters"]["total"]),
        "device": ", ".join(dict.fromkeys(map(str, environment.get("devices", ())))),
        **{key: environment[key] for key in MACHINE_KEYS if key in environment},
        **{key: str(environment[key]) for key in variants.VERSION_KEYS if key in environment},
    }
    own = common | {"facts": facts}
    rows = []
    for row in (*variants.scores(model), *_curve(model)):
        told = {"words": _words(run, model.recipe.texts[0].prefix)} if row.metric == BITS else {}
        rows.append(row.model_copy(update=own | told))
    return rows


def _words(run: Run, prefix: str) -> Blocks:
    words = records.read(run.stage("evaluation").path / f"{prefix}{records.WORDS_FILE}")
    return tuple(
        (records.rounded(word.nats / math.log(2)), float(word.characters if word.scored else 0))
        for word in words
    )


def _curve(model: TrainedModel) -> list[Score]:
    """Return the validation loss over tokens of all phases.

    The value is the lowest of the last one, whose weights were evaluated.
    """
    points: list[tuple[float, float]] = []
    last, before = [], 0
    for phase in model.phases:
        loss = _target_loss(model, phase)
        last = [(before + row["tokens"], float(f"{row[loss]:.6g}")) for row in phase.valid]
        points += last
        before += phase.tokens or 0
    curve = tuple(zip(*plots.thinned(points), strict=True))
    if not curve:
        return []
    value = min((loss for _, loss in last if math.isfinite(loss)), default=math.inf)
    return [
        Score(
            model="", metric=CURVE, value=value, n=len(curve), seed=model.recipe.seed,
            reported=False, points=curve,
        )
    ]  # fmt: skip


def _target_loss(model: TrainedModel, phase: PhaseRecord) -> str:
    """Return the column of a phase's losses; of a causal model of several texts its first one's.

    The others, which may be replayed text of the source's language, are no part of what the model
    is judged by.
    """
    first = model.recipe.texts[0].name
    is_causal = variants.kind_of(model.result("evaluation")) == "causal"
    labels = [label for label in (phase.result or {}).get("streams") or {} if is_causal]
    return next((f"loss/{label}" for label in labels if label.split("/")[0] == first), "loss")


def fine_tunings(common: dict[str, Any], run: Run, job: dict[str, Any]) -> list[Score]:
    """Return the rows of a task's fine-tunings that are done.

    Args:
        common: model and axes of every row.
        run: the cell's folder.
        job: what was asked for: the place of its results, its seeds, its inputs and axes.
    """
    own = common | {"inputs": job["inputs"], "axes": common["axes"] | job["axes"]}
    found = []
    for seed in job["seeds"]:
        folder = run.path / job["place"] / "cell" / job["name"] / f"seed-{seed}"
        if (folder / outcomes.SCORES).is_file():
            outcome = outcomes.read_outcome(folder)
            found += [row.model_copy(update=own) for row in outcomes.rows_of(outcome)]
    return found
