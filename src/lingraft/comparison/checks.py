"""How translators got better: their score on the development set at every check (metrics.jsonl)."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.finetuning.outcomes import metric_name
from lingraft.report import figure
from lingraft.report.figure import Figure
from lingraft.report.panels import in_order
from lingraft.rundir import Run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from lingraft.comparison.collect import Comparison, Part

Points = dict[int, list[float]]
"""Step → the score of every seed."""


def at_checks(folders: Sequence[Path], key: str) -> Points:
    """A score at the checks of some seeds; steps that not all of them checked are left out."""
    scores: Points = {}
    for folder in folders:
        for row in Run(folder).metrics():
            if row["kind"] == "valid" and row.get(key) is not None:
                scores.setdefault(row["step"], []).append(row[key])
    return {step: values for step, values in scores.items() if len(values) == len(folders)}


def curves(comparison: Comparison) -> Iterator[Figure]:
    """A figure a translation task: the score that chooses against updates, a line a model."""
    families: set[str] = set()
    for part in comparison.parts:
        if part.task.kind == "translation" and part.family not in families:
            families.add(part.family)
            curve = _curve(part, comparison.labels, len(families))
            if curve is not None:
                yield curve


def _curve(part: Part, labels: Sequence[str], number: int) -> Figure | None:
    key = part.task.selection
    lines = {
        label: at_checks([run.outcome.folder for run in runs], key)
        for label, runs in part.runs.items()
    }
    lines = {label: points for label, points in lines.items() if len(points) > 1}
    if not lines:
        return None
    indices = {label: list(labels).index(label) for label in lines}

    def draw(axes: Axes, form: str) -> None:
        for label, points in lines.items():
            steps = sorted(points)
            means = [fmean(points[step]) for step in steps]
            ends = tuple([end(points[step]) for step in steps] for end in (min, max))
            figure.line(axes, steps, means, indices[label], spread=(ends[0], ends[1]))
        axes.set_xlabel("updates")
        axes.set_ylabel(f"{metric_name(key)} on dev")

    summaries = (
        f"{label}: {fmean(points[max(points)]):.1f} after {max(points):,} updates"
        for label, points in lines.items()
    )
    return Figure(
        name=f"checks-{number}",
        draw=draw,
        names=tuple(indices.items()),
        panels=in_order(tuple(indices.items())),
        description=f"{part.family}, {metric_name(key)} on dev: " + "; ".join(summaries),
        caption=f"{part.family}: {metric_name(key)} on the development set against updates, "
        "translated greedily at every check. Lines: mean over the seeds; bands: lowest to highest.",
    )
