"""The figure of data-efficiency factors against the size of the text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lingraft.report import figure, points
from lingraft.report.figure import FAINT, Figure, colour
from lingraft.report.panels import look
from lingraft.study import panels
from lingraft.study.analysis import incomparable
from lingraft.study.factor import BELOW, NOT_REACHED, factor
from lingraft.study.metrics import LOSS, metric_named
from lingraft.study.plots import HEIGHT, log_axis, sizes_axis
from lingraft.study.results import EXAMPLES, SENTENCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from lingraft.stats import Resampling
    from lingraft.study.factor import Factor
    from lingraft.study.results import Results


def factors(results: Results, metric: str, resampling: Resampling) -> Figure | None:
    """The data-efficiency factor against sentences; None where it cannot be told."""
    reference = results.reference()
    baseline = [g for g in results.of(reference or "") if g.sentences and g.rows(metric)]
    if len(baseline) < 2:
        return None
    lines: dict[str, list[Factor]] = {}
    for label in results.plain:
        groups = [g for g in results.of(label) if g.sentences and g.rows(metric)]
        if label != reference and groups and not incomparable((*groups, *baseline), metric):
            lines[label] = [factor(group, baseline, metric, resampling) for group in groups]
    if not lines:
        return None
    indices = {label: results.labels.index(label) for label in lines}
    sizes = sorted({point.size for of_label in lines.values() for point in of_label})

    kind, data = ("factor", "data") if results.counted == SENTENCES else ("curve-factor", EXAMPLES)

    def draw(axes: Axes, form: str) -> None:
        for label, of_label in lines.items():
            _factor_line(axes, of_label, indices[label])
        axes.axhline(1, color=FAINT, linewidth=1)
        log_axis(axes)
        axes.set_ylabel(f"× {data} for {reference}")
        sizes_axis(axes, sizes, results.counted, form)
        axes.margins(x=0.05)

    title = "PPL" if metric == LOSS else metric_named(metric).title
    texts = [f"{label}: {', '.join(f.shown()[0] for f in of)}" for label, of in lines.items()]
    return Figure(
        name=f"{kind}-{title.lower().replace('/', '-').replace('@', '').replace(' ', '-')}",
        draw=draw,
        height=HEIGHT,
        names=tuple(indices.items()),
        panels=panels.of(results, indices),
        description=f"Data-efficiency factor by {title} against {results.counted}. "
        + "; ".join(texts),
        caption=f"How many times more {results.counted} {reference} needs for the same {title}, "
        f"with 95 % intervals. ▲: not reached with all that {reference} had, which is a lower "
        f"bound; ▼: {reference}'s smallest size is already better.",
    )


def _factor_line(axes: Axes, factors: Sequence[Factor], index: int) -> None:
    """Reached factors joined by a line; bounds of those not reached stand alone."""
    values = [point.value if BELOW < point.value < NOT_REACHED else math.nan for point in factors]
    sizes = [point.size for point in factors]
    figure.line(axes, sizes, values, index, series=None, linewidth=1.5)
    own = look(axes, index)
    ink: dict[str, Any] = {"color": FAINT, "zorder": 1} if own is None else {"color": colour(own)}
    for point in factors:
        marker = "^" if point.value == NOT_REACHED else "v" if point.value == BELOW else "o"
        at = _clipped(point, point.value)
        axes.plot([point.size], [at], marker, markersize=2 if own is None else 5, **ink)
        if point.low is not None and point.high is not None:
            bounds = [_clipped(point, point.low), _clipped(point, point.high)]
            width, alpha = (1.1, 0.7) if own is not None else (0.6, None)
            axes.plot([point.size] * 2, bounds, linewidth=width, alpha=alpha, **ink)
        if own is not None:
            value, interval = point.shown()
            cells: dict[str, Any] = {"x": point.size, "y": value, "95 % interval": interval}
            points.note(axes, (point.size, at), index, **cells)


def _clipped(point: Factor, value: float) -> float:
    """A factor as it can be drawn: a bound where the size is outside the baseline's."""
    return min(max(value, point.least), point.most)
