"""The figures of a study: metrics against data, losses against tokens, data-efficiency factors.

After Lee et al. 2021, Figure 3 (metrics against the number of training examples, log axis), and Son
et al. 2022, Figure 3 (losses of several methods).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from lingraft.report import numbers
from studies import drawing as figure, panels
from studies.analysis import incomparable
from studies.drawing import Figure
from studies.metrics import BITS, PERPLEXITY, TASK, UNIGRAMS, metric_named
from studies.notes import asked
from studies.results import SENTENCES, Array, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from studies.results import Group, Results
    from studies.rows import CurveRow

AGAINST_DATA = (PERPLEXITY, BITS, "mask-only/hits@1", "mask-only/mrr")
HEIGHT = 0.85
STEPS = (1, 1.5, 2, 3, 5, 7)
"""Leading digits of the labels on a log axis."""


def against_data(results: Results, metric: str) -> Figure | None:
    """A metric against the number of sentences; None with fewer than two sizes that have it.

    Where the masks of some labels differ from the first one's, they are left out of metrics on
    masked tokens.
    """
    record = metric_named(metric)
    lines: dict[str, list[Group]] = {}
    for label in results.plain:
        sized = [g for g in results.of(label) if g.sentences is not None]
        groups = [g for g in sized if g.sound(metric) is not None]
        first = next(iter(lines.values()), groups)
        if groups and incomparable((*first, *groups), metric) is None:
            lines[label] = groups
    sizes = sorted({g.sentences or 0 for groups in lines.values() for g in groups})
    if len(sizes) < 2:
        return None
    indices = {label: results.labels.index(label) for label in lines}
    floors = [v for groups in lines.values() for g in groups for v in g.values(UNIGRAMS)]
    below = {g.label: g.mean(metric) for g in results.floors if metric.startswith(TASK)}

    def draw(axes: Axes, form: str) -> None:
        for label, groups in lines.items():
            _line(axes, groups, metric, indices[label])
        if metric == PERPLEXITY:
            log_axis(axes)
            if floors:
                figure.level(axes, sum(floors) / len(floors), "unigrams")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        for label, mean in below.items():
            if mean is not None:
                figure.level(axes, mean, label)
        axes.set_ylabel(_quantity(metric))
        sizes_axis(axes, sizes, results.counted, form)

    direction = "lower" if record.lower else "higher"
    return Figure(
        name=f"{'data' if results.counted == SENTENCES else 'curve'}-{_file_name(metric)}",
        draw=draw,
        height=HEIGHT,
        names=tuple(indices.items()),
        panels=panels.of(results, indices),
        description=_described(lines, metric, results.counted),
        caption=f"{record.title} against {results.counted_text} ({direction} is better). "
        f"Points: mean over the seeds; bands: lowest to highest seed.{_other_words(lines, metric)}",
    )


def _other_words(lines: dict[str, list[Group]], metric: str) -> str:
    sets = {asked(group, metric) for groups in lines.values() for group in groups}
    apart = metric == BITS and len(sets - {frozenset()}) > 1  # empty: not a finite number
    return " Not all over the same words, so lines compare only roughly." if apart else ""


def _file_name(metric: str) -> str:
    """Of a task with its name, which alone says too little."""
    own = metric.replace("/", "-") if metric.startswith(TASK) else metric.rpartition("/")[2]
    return own.replace("@", "").replace("_", "-")


def _quantity(metric: str) -> str:
    units = {PERPLEXITY: "perplexity", BITS: "bits per character", "mask-only/mrr": "MRR"}
    return units.get(metric, f"{metric_named(metric).title} (%)")


def _described(lines: dict[str, list[Group]], metric: str, counted: str) -> str:
    record = metric_named(metric)
    ends = [
        f"{label}: "
        + ", ".join(
            f"{record.show(group.mean(metric))} with {group.sentences:,} {counted}"
            for group in groups[:: max(1, len(groups) - 1)]
        )
        for label, groups in lines.items()
    ]
    return f"{record.title} against {counted}. " + "; ".join(ends)


def _line(axes: Axes, groups: Sequence[Group], metric: str, index: int) -> None:
    x = [group.sentences or 0 for group in groups]
    values = [group.values(metric) for group in groups]
    means = [mean for group in groups if (mean := group.mean(metric)) is not None]
    several = any(len(of_seeds) > 1 for of_seeds in values)
    spread = ([min(v) for v in values], [max(v) for v in values]) if several else None
    figure.line(axes, x, means, index, spread=spread, marker="o", markersize=3.5)


def sizes_axis(axes: Axes, sizes: Sequence[int], counted: str, form: str) -> None:
    """Sizes along the foot, as labels where they do not touch."""
    axes.set_xscale("log")
    axes.set_xlabel(counted)
    apart = math.log(sizes[-1] / sizes[0]) / (6 if form == "narrow" else 14)
    ticks: list[int] = []
    for size in sizes:
        if not ticks or math.log(size / ticks[-1]) >= apart:
            ticks.append(size)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(round(value))))


def log_axis(axes: Axes) -> None:
    """A log axis upwards with round numbers, also where it spans less than a decade."""
    axes.set_yscale("log")
    axis = axes.yaxis
    low, high = axis.get_view_interval()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in STEPS]
    inside = [tick for tick in ticks if low <= tick <= high]
    axis.set_major_locator(FixedLocator(inside[:: -(-len(inside) // 7) or 1] or [low, high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}" if value < 1e3
                                           else f"{value:,.0f}"))  # fmt: skip


@dataclass(frozen=True)
class Learning:
    """A quantity of the validation text while models train, and how a figure of it reads."""

    name: str
    title: str
    over: str
    """What stands along the foot."""
    axis: str
    decimals: int
    by_text: bool
    """Over the text that was seen, not its tokens."""
    meaning: str
    """For the caption."""


LOSSES = Learning(
    "losses", "Validation loss", "tokens", "validation loss (nats)", 2, by_text=False,
    meaning="Lines: mean over the seeds; bands: lowest to highest seed; uprights: a method's "
    "second phase begins. Dotted: knowing only how often each token occurs.",
)  # fmt: skip
BITS_SEEN = Learning(
    "bits", "Bits per byte", "characters seen", "bits per byte (validation text)", 3, by_text=True,
    meaning="The validation loss in bits over the bytes that a token of held-out text has, the end "
    "of each document included. Characters are of all that was read, replayed text too. Lines: "
    "mean over the seeds; bands: lowest to highest seed; uprights: a phase begins.",
)  # fmt: skip
"""Of causal models. Characters, not tokens: a model that cuts its text into fewer tokens sees more
text in as many."""


IN_PANELS = (
    " Behind each name: its last value; grey: the lines of the other panels. The axis ends above "
    "the second half of every line."
)


def learning(
    results: Results,
    sentences: int | None,
    *,
    initializers: bool = False,
    names: Mapping[str, str] | None = None,
) -> Figure | None:
    """How models learn at one size; None where nothing tells.

    Of causal models bits per byte against characters seen, which compare, else the validation loss
    against tokens, of the labels that name a method alone.

    Args:
        results: the study's results.
        sentences: the size.
        initializers: of the labels that name an initializer, and what they are measured against.
        names: of these labels: what the figure calls each, in the order of the legend.
    """
    groups = results.initialised(sentences) if initializers else results.at(sentences)
    own_name = "initializers" if initializers else None
    if names is not None:
        groups = tuple(group for label in names for group in groups if group.label == label)
        own_name = "chosen"
    for quantity in (BITS_SEEN, LOSSES):
        every = quantity.by_text or own_name
        lines = [group for group in groups if every or group.label in results.plain]
        own = replace(quantity, name=own_name or quantity.name)
        drawing = _learning(results, sentences, lines, own, 1 + initializers, names)
        if drawing is not None:
            return drawing
    return None


def _learning(
    results: Results,
    sentences: int | None,
    groups: Sequence[Group],
    quantity: Learning,
    least: int,
    names: Mapping[str, str] | None,
) -> Figure | None:
    """A line a group that has such curves; None with fewer than `least` of them.

    With `names` models have colours by their place in it, else by that in the results.
    """
    curves = {group.label: seeds for group in groups if (seeds := _curves(group, quantity))}
    lines = [group for group in groups if group.label in curves]
    if len(lines) < least:
        return None
    called = names or {label: label for label in results.labels}
    indices = {label: list(called).index(label) for label in curves}
    entropies = sorted({round(math.log(v), 4) for group in lines for v in group.values(UNIGRAMS)})
    close = bool(entropies) and entropies[-1] - entropies[0] < 0.05
    entropy = entropies[0] if close and not quantity.by_text else None

    def draw(axes: Axes, form: str) -> None:
        for group in lines:
            _learning_line(axes, group, curves[group.label], indices[group.label], quantity)
        if entropy is not None:
            figure.level(axes, entropy)
        axes.set_ylabel(quantity.axis)
        figure.tokens_axis(axes, form)
        axes.set_xlabel(quantity.over)
        if parts:
            axes.set_ylim(*_late(curves.values(), entropy))

    ends = {
        label: f"{fmean(seed[-1][1] for seed in seeds):.{quantity.decimals}f}"
        for label, seeds in curves.items()
    }
    last = "; ".join(f"{called[label]}: {end}" for label, end in ends.items())
    parts = panels.of(results, indices, ends) if names is None else ()
    title = f"{quantity.title} against {quantity.over}, {size_text(sentences)}."
    return Figure(
        name=f"{quantity.name}-{sentences or 'all'}",
        draw=draw,
        height=HEIGHT,
        names=tuple((called[label], index) for label, index in indices.items()),
        panels=parts,
        description=f"{title} Last values: {last}",
        caption=f"{title} {quantity.meaning}{IN_PANELS if parts else ''}",
    )


def _late(
    curves: Iterable[Sequence[Sequence[tuple[float, float]]]], level: float | None
) -> tuple[float, float]:
    """Limits that hold the second half of every line: how it began would leave no room for that."""
    late = [
        value for seeds in curves for seed in seeds for x, value in seed if 2 * x >= seed[-1][0]
    ]
    low, top = min(late), max([*late, level or 0.0])
    return low - 0.05 * (top - low), top + 0.1 * (top - low)


def _curves(group: Group, quantity: Learning) -> list[list[tuple[float, float]]]:
    """The points of each seed that has some, all phases joined."""
    return [points for cell in group.cells if (points := _points(cell.curves, quantity))]


def _points(curves: Sequence[CurveRow], quantity: Learning) -> list[tuple[float, float]]:
    """The validation losses of all phases, joined; by text bits per byte over characters."""
    valid = [curve for curve in curves if curve.split == "valid"]
    if not quantity.by_text:
        return [point for curve in valid for point in curve.points]
    points, tokens_before, characters_before = list[tuple[float, float]](), 0.0, 0.0
    for curve in valid:
        if not curve.characters_per_token or not curve.bytes_per_token:
            continue
        for tokens, nats in curve.points:
            characters = characters_before + (tokens - tokens_before) * curve.characters_per_token
            points.append((characters, nats / math.log(2) / curve.bytes_per_token))
        tokens_before, characters_before = curve.points[-1][0], points[-1][0]
    return points


def _learning_line(
    axes: Axes,
    group: Group,
    curves: Sequence[Sequence[tuple[float, float]]],
    index: int,
    quantity: Learning,
) -> None:
    x: Array = np.array([position for position, _ in curves[0]], dtype=np.float64)
    values = np.array([np.interp(x, *np.array(seed, dtype=np.float64).T) for seed in curves])
    spread = (values.min(0), values.max(0)) if len(curves) > 1 else None
    figure.line(axes, x, values.mean(0), index, spread=spread)
    for start in _boundaries(group, quantity):
        figure.upright(axes, start, index)


def _boundaries(group: Group, quantity: Learning) -> list[float]:
    """Tokens at which the later phases of the first seed begin: where the one before ends.

    By text characters, at the last look of the phase before.
    """
    curves = group.cells[0].curves
    if quantity.by_text:
        valid = [curve for curve in curves if curve.split == "valid"]
        return [_points(valid[:n], quantity)[-1][0] for n in range(1, len(valid))]
    ends: dict[str, float] = {}
    for curve in curves:
        ends[curve.phase] = max(ends.get(curve.phase, 0.0), curve.points[-1][0])
    return sorted(ends.values())[:-1]
