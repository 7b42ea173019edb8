"""How many times more data a baseline needs to reach a method's quality (Lee et al. 2021, §5).

The baseline's mean metric is joined by straight lines over log(sentences). Its curve reaches a
quality at the smallest size where it is at least as good; that it goes on getting better is not
assumed. Nothing is extrapolated: a quality better than all of the baseline's is "not reached", one
that its smallest size beats is reached with less. `factors` is the figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report import numbers
from lingraft.stats import interval
from lingraft.study.analysis import BELOW, NOT_REACHED, reached_at
from studies import drawing as figure, panels
from studies.analysis import checked, incomparable, replicates, shared_blocks
from studies.drawing import FAINT, Figure, colour
from studies.metrics import LOSS, TASK, metric_named
from studies.plots import HEIGHT, log_axis, sizes_axis
from studies.results import EXAMPLES, SENTENCES, Results
from studies.small_multiples import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from lingraft.stats import Resampling
    from studies.results import Group, TaskShown


SIZED = "@"
"""In a task's name, before the number of training examples of a learning curve: `korsts@100`."""


def unsized(task: str) -> str:
    """Return the name of a task without the size of its training set."""
    return task.partition(SIZED)[0]


@dataclass(frozen=True)
class Factor:
    """Sizes are in sentences; `factor` and the bounds are n* / n.

    NOT_REACHED stands for more than `most`, BELOW for less than `least`.
    """

    size: int
    """n, of the method."""
    value: float
    """NaN where a mean is not finite: a model that broke reaches nothing, and is not reached."""
    low: float | None
    """Bounds of the 95 % interval; None where a cell has no blocks, or few."""
    high: float | None
    unreached: float | None
    """Share of the resamples in which the baseline does not reach the method's quality."""
    least: float
    """Smallest size of the baseline / n."""
    most: float
    """Largest size of the baseline / n."""

    def shown(self) -> tuple[str, str]:
        """The factor and its interval: `4.1`, `[3.2, 5.0]`; or `not reached (> 8)`, ``."""
        if math.isnan(self.value):
            return numbers.ABSENT, ""
        value = self._text(self.value)
        if self.value == NOT_REACHED:
            value = f"not reached ({value})"
        if self.low is None or self.high is None:
            return value, ""
        if self.low == self.high and self.value in (NOT_REACHED, BELOW):
            return value, ""
        share = f" {100 * self.unreached:.0f} % not reached" if self.unreached else ""
        return value, f"[{self._text(self.low)}, {self._text(self.high)}]{share}"

    def _text(self, value: float) -> str:
        if value == NOT_REACHED:
            return f"> {_short(self.most)}"
        return f"< {_short(self.least)}" if value == BELOW else _short(value)


def _short(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def factor(method: Group, baseline: Sequence[Group], metric: str, resampling: Resampling) -> Factor:
    """How many times more data the baseline needs to be as good as the method.

    Blocks of the test text are drawn for all cells together; seeds for each size of each method by
    themselves, since their numbers may differ.

    Args:
        method: at one size.
        baseline: the baseline's groups from small to large, all with a size.
        metric: its name.
        resampling: of the interval.

    Raises:
        DataError: the groups do not compare.
    """
    groups = (method, *baseline)
    checked(groups, metric)
    size = method.sentences
    assert size is not None
    sizes = [float(group.sentences or 0) for group in baseline]
    assert sizes == sorted(sizes)
    lower = metric_named(metric).lower
    means = np.array([group.mean(metric) for group in groups], dtype=np.float64)
    least, most = sizes[0] / size, sizes[-1] / size
    if not np.isfinite(means).all():
        return Factor(size, math.nan, None, None, None, least, most)
    value = float(reached_at(sizes, means[None, 1:], means[:1], lower=lower)[0]) / size
    rows = [group.rows(metric) for group in groups]
    used_B = shared_blocks([row for of_group in rows for row in of_group.values()])
    if used_B is None:
        return Factor(size, value, None, None, None, least, most)
    means_RG = np.stack(
        [
            resampling.mean(
                replicates(list(group_rows.values()), metric, used_B, resampling),
                list(group_rows),
                f"{group.label} {group.sentences}",
            )
            for group, group_rows in zip(groups, rows, strict=True)
        ],
        axis=1,
    )
    factors_R = reached_at(sizes, means_RG[:, 1:], means_RG[:, 0], lower=lower) / size
    # bounds that some resample has, so that what is not reached is never averaged
    low, high = interval(factors_R, "inverted_cdf")
    return Factor(size, value, low, high, float(np.isinf(factors_R).mean()), least, most)


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
    figure.line(axes, sizes, values, index, linewidth=1.5)
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


def _clipped(point: Factor, value: float) -> float:
    """A factor as it can be drawn: a bound where the size is outside the baseline's."""
    return min(max(value, point.least), point.most)


def by_training_set(results: Results) -> Results | None:
    """The tasks with several training sets, of the largest text that has some.

    A learning curve is read like a curve over sentences of text: what a study says of sizes of text
    it says of sizes of the training set. So the same figure and the same data-efficiency factor
    tell how many examples a method is worth.

    Returns:
        Groups for each size of the training set in the place of sentences, floors among them;
        None where no task has several.
    """
    sized: dict[str, dict[int, TaskShown]] = {}
    for task in results.tasks:
        if SIZED in task.name:
            sized.setdefault(unsized(task.name), {})[task.train_examples] = task
    curves = {name: points for name, points in sized.items() if len(points) > 1}
    names = {task.name for points in curves.values() for task in points.values()}
    examples = sorted({size for points in curves.values() for size in points})

    def points_of(groups: Sequence[Group]) -> list[Group]:
        pairs = ((group, size) for size in examples for group in groups)
        return [point for group, size in pairs if (point := _point(group, size, names)) is not None]

    def reach(text: int | None) -> int:
        """2 of a text that has a curve, 1 with a point: larger ones may be under way."""
        return min(2, len({point.sentences for point in points_of(results.at(text))}))

    if not results.sizes:
        return None
    text = max(reversed(results.sizes), key=reach)  # of equals the largest
    groups = points_of((*results.floors, *results.at(text)))
    if not groups:
        return None
    tasks = tuple(
        replace(first, name=name, metrics=tuple(map(_plain, first.metrics)))
        for name, points in curves.items()
        for first in [points[min(points)]]
    )
    return Results(tuple(groups), results.labels, (), tasks, counted=EXAMPLES)


def _point(group: Group, size: int, names: set[str]) -> Group | None:
    """A group with the scores of one size of training set, without it in the metrics' names."""
    cells = []
    for cell in group.cells:
        own = {
            _plain(metric): rows
            for metric, rows in cell.tasks.items()
            if (task := metric.split("/")[1]) in names and task.endswith(f"{SIZED}{size}")
        }
        if own:
            cells.append(replace(cell, tasks=own))
    return replace(group, sentences=size, cells=tuple(cells)) if cells else None


def _plain(metric: str) -> str:
    """`task/korsts/spearman`, of `task/korsts@100/spearman`."""
    task, rest = metric.removeprefix(TASK).split("/", 1)
    return f"{TASK}{unsized(task)}/{rest}"
