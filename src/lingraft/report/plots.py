"""Curves of one run's training, or of several runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from lingraft.report import figure, numbers, panels
from lingraft.report.figure import Figure
from lingraft.report.variants import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from lingraft.report.variants import PhaseRecord, Variant

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


def losses(variants: Sequence[Variant]) -> Figure | None:
    """Loss against tokens: training faint, validation strong; None where nothing is logged yet."""
    curves = [
        (curve(v.phases, "train", "loss"), curve(v.phases, "valid", "loss")) for v in variants
    ]
    if not any(train.x or valid.x for train, valid in curves):
        return None
    evaluations = results_of(variants, "evaluation")
    unigrams = sorted({float(evaluation["unigram_entropy"]) for _, evaluation in evaluations})

    def draw(axes: Axes, form: str) -> None:
        for index, (train, valid) in enumerate(curves):
            faint: dict[str, Any] = {"alpha": 0.4, "linewidth": 0.8, "linestyle": "-"}
            figure.line(axes, train.x, train.y, index, series="training", **faint)
            strong: dict[str, Any] = {"linewidth": 1.9, "markersize": 3}
            strong["marker"] = "o" if len(valid.x) < 30 else ""
            figure.line(axes, valid.x, valid.y, index, series="validation", **strong)
        for entropy in unigrams:
            figure.level(axes, entropy)
        axes.set_ylabel("loss (nats per predicted token)")
        figure.tokens_axis(axes, form)
        _mark_phases(axes, variants)

    ends = [
        f"{variant.label}: validation loss {numbers.fixed(valid.y[-1], 2)}"
        f" after {numbers.short(valid.x[-1])} tokens"
        for variant, (_, valid) in zip(variants, curves, strict=True)
        if valid.x
    ]
    names = _names(variants)
    return Figure(
        name="loss",
        draw=draw,
        names=names,
        panels=panels.in_order(names),
        description="Loss against tokens. " + "; ".join(ends),
        caption="Loss against tokens seen. Faint: training; strong: validation. Uprights: a new "
        "phase begins. Dotted: the loss of knowing only how often each token occurs.",
    )


def learning_rates(variants: Sequence[Variant]) -> Figure | None:
    """Learning rate against tokens; None where nothing is logged yet."""
    curves = [curve(variant.phases, "train", "learning_rate") for variant in variants]
    if not any(points.x for points in curves):
        return None
    apart = panels.in_order(_names(variants))

    def draw(axes: Axes, form: str) -> None:
        for index, points in enumerate(curves):
            name = variants[index].label
            series = "" if apart else name
            figure.line(axes, points.x, points.y, index, series=series, linewidth=1.6)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("learning rate")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        figure.tokens_axis(axes, form)
        _mark_phases(axes, variants)

    peaks = [
        f"{variant.label}: peak {max(points.y):.2g}"
        for variant, points in zip(variants, curves, strict=True)
        if points.x
    ]
    description = "Learning rate against tokens. " + "; ".join(peaks)
    names = _names(variants) if apart else ()  # else the legend of the losses, above it, is enough
    plans = [phase.plan for variant in variants for phase in variant.phases if phase.plan]
    caption = "Learning rate against tokens seen."
    if any(plan.optimizer.rates for plan in plans):
        caption += " Parts that have their own (Phases, peak rate) rise and fall alike."
    return Figure("rate", draw, names, description, caption, FLAT, apart)


def _names(variants: Sequence[Variant]) -> tuple[tuple[str, int], ...]:
    return tuple((variant.label, index) for index, variant in enumerate(variants))


def _mark_phases(axes: Axes, variants: Sequence[Variant]) -> None:
    """A line where a phase ends and the next begins; the first model's phases are named.

    The axis goes to the end of all training, which the last logged step need not reach.
    """
    axes.set_xlim(right=max((v.tokens or 0 for v in variants), default=0) * 1.01 or None)
    for index, variant in enumerate(variants):
        for start, end, name in boundaries(variant.phases):
            if start:
                figure.upright(axes, start, index)
            if index == 0 and len(variant.phases) > 1:
                axes.annotate(
                    name, ((start + end) / 2, 1), (0, 2), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", fontsize=8,
                )  # fmt: skip
