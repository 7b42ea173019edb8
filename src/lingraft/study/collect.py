"""From the folder of a finished cell to its rows of results.jsonl."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lingraft.evaluation import records
from lingraft.report.variants import VERSION_KEYS, scores, variants
from lingraft.rundir import read_json
from lingraft.study.results import BITS
from lingraft.study.rows import AnyRow, CurveRow, EndRow, MetricRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.report.row import Blocks
    from lingraft.report.variants import Variant
    from lingraft.rundir import Run
    from lingraft.study.grid import Cell
    from lingraft.study.rows import Value

Rows = list[AnyRow]
LONGEST_CURVE = 100
"""Points; a longer curve is averaged over neighbours."""
INITIAL = "initial.json"
"""In a cell: the validation loss before the first step."""
MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")
BLOCK_NAMES = {"perplexity": "loss"}
"""Metrics whose blocks stand under another name."""


def start_of(study: str, cell: Cell, fingerprint: str) -> dict[str, Any]:
    """What all rows of a cell have in common."""
    return {"study": study, "cell": cell.id, "fingerprint": fingerprint, "axes": cell.axes}


def failed(common: dict[str, Any], message: str, seconds: float) -> Rows:
    """The row of a cell that failed."""
    return [EndRow(**common, status="failed", message=message, seconds=round(seconds, 2))]


def done(common: dict[str, Any], run: Run, seconds: float) -> Rows:
    """The rows of a cell that was trained and evaluated.

    Args:
        common: fields of every row.
        run: the cell's folder.
        seconds: wall-clock time of the process.
    """
    (variant, *_) = variants(run)
    evaluation = run.stage("evaluation").result()
    blocks = evaluation.get("blocks", {})
    trained = {phase.name: phase.result or {} for phase in variant.phases}
    metrics = [
        MetricRow(
            **common,
            **score.model_dump(exclude={"blocks"}),
            blocks=_blocks(blocks, score.metric),
            seed=variant.recipe.seed,
            tokens=variant.tokens or 0,
            seconds=variant.seconds or 0.0,
            words=_words(run) if score.metric == BITS else None,
        )
        for score in scores(variant)
    ]
    curves = _curves(common, variant, run.path / INITIAL)
    environment = variant.environment or {}
    machine: dict[str, Value] = {
        "device": ", ".join(dict.fromkeys(map(str, environment.get("devices", ())))),
        **{key: environment[key] for key in MACHINE_KEYS if key in environment},
        "evaluation": f"form {evaluation.get('form', 2)}",
    }
    stages = ["graft", *trained, "evaluation"]
    least = sum(float(run.stage(name).done()["seconds"]) for name in stages)
    end = EndRow(
        **common,
        status="done",
        seconds=round(max(seconds, least), 2),  # after a kill, the process saw only the rest
        tokens=variant.tokens or 0,
        parameters=int(run.stage("graft").result()["parameters"]["total"]),
        trained_parameters={
            name: int(result["trainable_parameters"]) for name, result in trained.items()
        },
        machine=machine,
        versions={key: str(environment[key]) for key in VERSION_KEYS if key in environment},
    )
    return [*metrics, *curves, end]


def _blocks(blocks: dict[str, Any], metric: str) -> Blocks | None:
    scheme, slash, name = metric.rpartition("/")
    by_name = blocks.get(scheme if slash else "words", {})
    found = by_name.get(BLOCK_NAMES.get(name, name))
    return None if found is None else tuple((float(total), float(n)) for total, n in found)


def _words(run: Run) -> Blocks:
    found = records.read(run.stage("evaluation").path / records.WORDS_FILE)
    return tuple(
        (records.rounded(word.nats / math.log(2)), float(word.characters if word.scored else 0))
        for word in found
    )


def _curves(common: dict[str, Any], variant: Variant, initial: Path) -> list[CurveRow]:
    """Losses by phase over the tokens since the start of the first phase."""
    found = []
    before = 0
    for index, phase in enumerate(variant.phases):
        for split, series in (("train", phase.train), ("valid", phase.valid)):
            points = [(before + int(row["tokens"]), float(row["loss"])) for row in series]
            if split == "valid" and index == 0 and initial.is_file():
                points.insert(0, (0, float(read_json(initial)["loss"])))
            if points:
                found.append(
                    CurveRow(
                        **common,
                        phase=phase.name,
                        split="train" if split == "train" else "valid",
                        points=_thinned(points),
                    )
                )
        before += phase.tokens or 0
    return found


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """At most LONGEST_CURVE points, six digits each; first and last stay as they are."""
    first, *middle = points
    last = [middle.pop()] if middle else []
    size = -(-len(middle) // (LONGEST_CURVE - 2)) or 1
    groups = [middle[start : start + size] for start in range(0, len(middle), size)]
    means = [
        (round(sum(t for t, _ in group) / len(group)), sum(y for _, y in group) / len(group))
        for group in groups
    ]
    return tuple((t, float(f"{y:.6g}")) for t, y in (first, *means, *last))
