"""Curves of one run's training, or of several runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, MaxNLocator

from lingraft.report import numbers
from lingraft.report.figure import DASHES, INK, Plot, colour, dash_of, plot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from lingraft.report.rows import PhaseRecord, Variant

MAX_POINTS = 300
FLAT = 0.6
"""Height of the learning-rate figure, as a share."""


@dataclass(frozen=True)
class Curve:
    """Points of one model over all its phases; x in tokens since its start."""

    x: tuple[float, ...]
    y: tuple[float, ...]


def curve(phases: Sequence[PhaseRecord], kind: str, field: str, most: int = MAX_POINTS) -> Curve:
    """Join the rows of all phases; more than `most` points are averaged in runs of equal length.

    Args:
        phases: in order; a phase's tokens are added to those before it.
        kind: 'train' or 'valid'.
        field: which number of the row.
        most: points at most.
    """
    x: list[float] = []
    y: list[float] = []
    before = 0
    for phase in phases:
        for row in phase.train if kind == "train" else phase.valid:
            x.append(before + row["tokens"])
            y.append(row[field])
        before += phase.tokens or 0
    run = -(-len(x) // most) if x else 1
    starts = range(0, len(x), run)
    return Curve(
        tuple(_mean(x[at : at + run]) for at in starts),
        tuple(_mean(y[at : at + run]) for at in starts),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def boundaries(phases: Sequence[PhaseRecord]) -> list[tuple[float, float, str]]:
    """Where each phase that has begun starts and ends, in tokens, and its name."""
    spans = []
    before = 0.0
    for phase in phases:
        if phase.tokens is not None:
            spans.append((before, before + phase.tokens, phase.name))
            before += phase.tokens
    return spans


def losses(found: Sequence[Variant]) -> Plot | None:
    """Loss against tokens: training faint, validation strong; None where nothing is logged yet."""
    curves = [(curve(v.phases, "train", "loss"), curve(v.phases, "valid", "loss")) for v in found]
    if not any(train.x or valid.x for train, valid in curves):
        return None
    evaluations = [evaluation for v in found if (evaluation := v.result("evaluation")) is not None]
    unigrams = sorted({float(evaluation["unigram_entropy"]) for evaluation in evaluations})

    def draw(axes: Axes) -> None:
        for index, (train, valid) in enumerate(curves):
            line, dash = colour(index), DASHES[dash_of(index)]
            axes.plot(train.x, train.y, color=line, alpha=0.4, linewidth=0.8)
            marker = "o" if len(valid.x) < 30 else ""
            axes.plot(
                valid.x,
                valid.y,
                color=line,
                linewidth=1.9,
                linestyle=dash,
                marker=marker,
                markersize=3,
            )
        for entropy in unigrams:
            unigram_line(axes, entropy)
        axes.set_ylabel("loss (nats per masked token)")

    ends = [
        f"{variant.label}: validation loss {numbers.fixed(valid.y[-1], 2)}"
        f" after {numbers.short(valid.x[-1])} tokens"
        for variant, (_, valid) in zip(found, curves, strict=True)
        if valid.x
    ]
    return _plot(found, draw, "Loss against tokens. " + "; ".join(ends), "loss", 1.0)


def learning_rates(found: Sequence[Variant]) -> Plot | None:
    """Learning rate against tokens; None where nothing is logged yet."""
    curves = [curve(variant.phases, "train", "learning_rate") for variant in found]
    if not any(points.x for points in curves):
        return None

    def draw(axes: Axes) -> None:
        for index, points in enumerate(curves):
            axes.plot(
                points.x,
                points.y,
                color=colour(index),
                linewidth=1.6,
                linestyle=DASHES[dash_of(index)],
            )
        axes.set_ylim(bottom=0)
        axes.set_ylabel("learning rate")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    peaks = [
        f"{variant.label}: peak {max(points.y):.2g}"
        for variant, points in zip(found, curves, strict=True)
        if points.x
    ]
    return _plot(found, draw, "Learning rate against tokens. " + "; ".join(peaks), "rate", FLAT)


def _plot(
    found: Sequence[Variant],
    draw: Callable[[Axes], None],
    description: str,
    name: str,
    height: float,
) -> Plot:
    def over_tokens(axes: Axes, form: str) -> None:
        draw(axes)
        tokens_axis(axes, form)
        _mark_phases(axes, found)

    return plot(over_tokens, description, name, height)


def tokens_axis(axes: Axes, form: str) -> None:
    """Tokens along the foot, from 0."""
    axes.set_xlabel("tokens")
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(5 if form == "narrow" else 8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(value)))


def unigram_line(axes: Axes, value: float, text: str = "unigram entropy") -> None:
    """What a model that knows nothing but token frequencies reaches."""
    axes.axhline(value, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.annotate(
        text, (1, value), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", fontsize=8,
    )  # fmt: skip


def _mark_phases(axes: Axes, found: Sequence[Variant]) -> None:
    """A line where a phase ends and the next begins; the first model's phases are named."""
    for index, variant in enumerate(found):
        for start, end, name in boundaries(variant.phases):
            if start:
                axes.axvline(start, color=colour(index), linewidth=0.9, linestyle=(0, (2, 2)))
            if index == 0 and len(variant.phases) > 1:
                axes.annotate(
                    name, ((start + end) / 2, 1), (0, 2), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", fontsize=8,
                )  # fmt: skip
