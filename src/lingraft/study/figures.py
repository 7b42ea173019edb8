"""The figures of a study: lines of methods over data and over tokens.

After Lee et al. 2021, Figure 3 (metrics against the number of training examples, log axis), and Son
et al. 2022, Figure 3 (losses of several methods).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report.figure import Figure, Line
from lingraft.study.analysis import CURVE, LEARNT, UNIGRAMS, metric_named

if TYPE_CHECKING:
    from lingraft.study.results import Cell, Results

Points = list[tuple[float, float, float, float]]
"""Points of a line: place along the foot, value, and the ends of its band."""


def against_data(results: Results, metric: str) -> Figure | None:
    """Return a metric against the amount of data; None with fewer than two sizes that have it."""
    lines: dict[str, Points] = {}
    for label in results.labels:
        groups = results.of(label)
        values = [(float(g.sentences or 0), g.mean(metric), g.values(metric)) for g in groups]
        points = [(x, y, min(all_), max(all_)) for x, y, all_ in values if y and math.isfinite(y)]
        if len(points) > 1:
            lines[label] = points
    record = metric_named(metric)
    if record is None or not lines:
        return None
    direction = "lower" if record.lower else "higher"
    caption = (
        f"{record.title} against {results.counted} ({direction} is better): mean over the seeds; "
        "bands: lowest to highest seed."
    )
    return _figure(results, f"data-{metric}", caption, lines, (results.counted, record.title))


def learning(results: Results, size: int | None) -> Figure | None:
    """Return how models learn at one size: the validation loss, of causal models bits per byte."""
    lines: dict[str, Points] = {}
    groups = [group for group in results.at(size) if any(map(_curve, group.cells))]
    for group in groups:
        curves = [curve for cell in group.cells if (curve := _curve(cell))]
        x = [at for at, _ in curves[0]]
        y = np.array([np.interp(x, *np.array(curve, dtype=np.float64).T) for curve in curves])
        ends = zip(x, y.mean(0).tolist(), y.min(0).tolist(), y.max(0).tolist(), strict=True)
        lines[group.label] = list(ends)
    if not lines:
        return None
    by_text = any(LEARNT in cell.metrics for group in groups for cell in group.cells)
    floors = {round(math.log(v), 3) for group in groups for v in group.values(UNIGRAMS)}
    level = floors.pop() if len(floors) == 1 and not by_text else None
    what = ("characters seen", "bits per byte") if by_text else ("tokens", "validation loss (nats)")
    caption = f"{what[1]} of the validation text against {what[0]}, {size_text(size)}."
    return _figure(results, f"learning-{size}", caption, lines, what, level=level)


def size_text(size: int | None) -> str:
    """Return a size as a heading says it."""
    return "all sentences" if size is None else f"{size:,} sentences"


def _curve(cell: Cell) -> list[tuple[float, float]]:
    """Return the validation losses of all phases; of a causal model bits per byte."""
    row = cell.metrics.get(LEARNT) or cell.metrics.get(CURVE)
    return list(row.points or ()) if row else []


def _figure(
    results: Results,
    name: str,
    caption: str,
    lines: dict[str, Points],
    axis_names: tuple[str, str],
    *,
    level: float | None = None,
) -> Figure:
    """Draw a line a label; sizes stand on a log axis."""
    drawn = []
    for label, points in lines.items():
        x, y, low, high = zip(*points, strict=True)
        band = None if low == high else (low, high)
        drawn.append(Line(label, x, y, results.labels.index(label), band=band))
    last = "; ".join(f"{label}: {points[-1][1]:,.4g}" for label, points in lines.items())
    return Figure(
        name.replace("/", "-").replace("@", "").replace("_", "-"),
        axis_names,
        drawn,
        caption,
        f"{caption} Last: {last}",
        [] if level is None else [("unigram entropy", level)],
        over_sizes=axis_names[0] == results.counted,
    )
