"""From the folder of a finished step of a cell to its rows of results.jsonl."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lingraft.evaluation import records
from lingraft.finetuning import outcomes
from lingraft.finetuning.scored import rows_of
from lingraft.report import variants
from lingraft.report.row import Blocks, Score
from lingraft.rundir import read_json
from lingraft.study.analysis import BITS, CURVE, LEARNT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.row import Value
    from lingraft.report.variants import PhaseRecord, Variant
    from lingraft.rundir import Run

Points = list[tuple[float, float]]
LONGEST_CURVE = 100
"""Points of a phase; a longer curve is averaged over neighbours."""
MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")


def machine_of(environment: dict[str, Any]) -> dict[str, Value]:
    """Return what a row tells of the machine."""
    return {
        "device": ", ".join(dict.fromkeys(map(str, environment.get("devices", ())))),
        **{key: environment[key] for key in MACHINE_KEYS if key in environment},
    }


def training(common: dict[str, Any], run: Run) -> list[Score]:
    """Return the rows of a cell that was trained and evaluated.

    Args:
        common: model, inputs and axes of every row.
        run: the cell's folder.
    """
    (variant, *_) = variants.variants(run)
    environment = variant.environment or {}
    stages = ("graft", *(phase.name for phase in variant.phases), "evaluation")
    facts: dict[str, Value] = {
        "tokens": variant.tokens or 0,
        "seconds": round(sum(run.stage(name).done()["seconds"] for name in stages), 2),
        "training_seconds": variant.seconds or 0.0,
        "parameters": int(run.stage("graft").result()["parameters"]["total"]),
        **machine_of(environment),
        **{key: str(environment[key]) for key in variants.VERSION_KEYS if key in environment},
    }
    own = common | {"facts": facts}
    prefix = variant.recipe.texts[0].prefix
    rows = [
        score.model_copy(
            update=own | ({"words": _words(run, prefix)} if score.metric == BITS else {})
        )
        for score in variants.scores(variant)
    ]
    return [*rows, *(row.model_copy(update=own) for row in _curves(variant))]


def _words(run: Run, prefix: str) -> Blocks:
    words = records.read(run.stage("evaluation").path / f"{prefix}{records.WORDS_FILE}")
    return tuple(
        (records.rounded(word.nats / math.log(2)), float(word.characters if word.scored else 0))
        for word in words
    )


def _curves(variant: Variant) -> list[Score]:
    """Return the validation loss over tokens; of a causal model bits per byte over characters too.

    All phases are joined; the value is the lowest of the last one, whose weights were evaluated.
    """
    losses, bits, before, characters = Points(), Points(), 0.0, 0.0
    last = Points()
    for phase in variant.phases:
        loss, sizes = _target_loss(variant, phase), _sizes(variant, phase)
        points = [(before + int(row["tokens"]), float(row[loss])) for row in phase.valid]
        if points:
            last = _thinned(points)
            losses += last
            if sizes is not None:
                per_token, n_bytes = sizes
                for tokens, nats in last:
                    at = characters + (tokens - before) * per_token
                    bits.append((at, nats / math.log(2) / n_bytes))
                characters = bits[-1][0]
        before += phase.tokens or 0
    finite = [loss for _, loss in last if math.isfinite(loss)]
    found = []
    for metric, curve in ((CURVE, losses), (LEARNT, bits)):
        if curve:
            value = min(finite, default=math.inf) if metric == CURVE else curve[-1][1]
            found.append(
                Score(model="", metric=metric, value=value, n=len(curve), seed=variant.recipe.seed,
                      reported=False, points=tuple(curve))
            )  # fmt: skip
    return found


def _is_causal(variant: Variant) -> bool:
    return variants.kind_of(variant.result("evaluation")) == "causal"


def _target_loss(variant: Variant, phase: PhaseRecord) -> str:
    """Return the column of a phase's looks; of a causal model of several texts its first one's.

    The others, which may be replayed text of the source's language, are no part of what the model
    is judged by.
    """
    first = variant.recipe.texts[0].name
    labels = [label for label in (phase.result or {}).get("streams") or {} if _is_causal(variant)]
    return next((f"loss/{label}" for label in labels if label.split("/")[0] == first), "loss")


def _sizes(variant: Variant, phase: PhaseRecord) -> tuple[float, float] | None:
    """Return how long a token of a causal model is; None of others, whose loss is of masks.

    In characters a token of what the phase read, of all streams as they were drawn; in bytes one of
    the first stream's held-out text. None of a run so old that it has not counted what it drew.
    """
    if not _is_causal(variant):
        return None
    result = variant.result("tokenizer") or {}
    streams = (phase.result or {}).get("streams") or {}
    if any("tokens" not in stream for stream in streams.values()):
        return None
    tokens = {label.split("/")[0]: stream["tokens"] for label, stream in streams.items()}
    texts = {name: result["streams"][name] for name in tokens} if tokens else {"": result}
    total = sum(tokens.values())
    characters = sum(
        float(text["statistics"]["train"]["characters_per_token"])
        * (tokens[name] / total if total else 1.0)
        for name, text in texts.items()
    )
    return characters, float(result["statistics"]["test"]["bytes_per_token"])


def _thinned(points: Sequence[tuple[float, float]]) -> Points:
    """Return at most LONGEST_CURVE points, six digits each; first and last stay as they are."""
    first, *middle = points
    last = [middle.pop()] if middle else []
    size = -(-len(middle) // (LONGEST_CURVE - 2)) or 1
    groups = [middle[start : start + size] for start in range(0, len(middle), size)]
    means = [
        (round(sum(t for t, _ in group) / len(group)), sum(y for _, y in group) / len(group))
        for group in groups
    ]
    return [(t, float(f"{y:.6g}")) for t, y in (first, *means, *last)]


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
            outcome = outcomes.Outcome(folder, read_json(folder / outcomes.SCORES))
            found += [row.model_copy(update=own) for row in rows_of(outcome)]
    return found
