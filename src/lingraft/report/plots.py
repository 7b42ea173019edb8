"""Curves of one run's training, or of several runs side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.figure import Figure, Line
from lingraft.report.variants import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.variants import PhaseRecord, Variant

MAX_POINTS = 300
FLAT = 0.6
"""Height of the learning-rate figure, as a share."""
Curve = tuple[list[float], list[float]]
"""Tokens since the model's start, and values."""


def curve(phases: Sequence[PhaseRecord], kind: str, field: str) -> Curve:
    """Join the rows of all phases; of very many points each is the mean of neighbours.

    Args:
        phases: in order; a phase's tokens are added to those before it.
        kind: 'train' or 'valid'.
        field: which number of the row.
    """
    points: list[tuple[float, float]] = []
    before = 0
    for phase in phases:
        rows = phase.train if kind == "train" else phase.valid
        points += [(before + row["tokens"], row[field]) for row in rows]
        before += phase.tokens or 0
    step = max(1, -(-len(points) // MAX_POINTS))
    groups = (points[at : at + step] for at in range(0, len(points), step))
    means = [[sum(values) / len(values) for values in zip(*g, strict=True)] for g in groups]
    return [x for x, _ in means], [y for _, y in means]


def losses(variants: Sequence[Variant]) -> Figure | None:
    """Draw loss against tokens: training faint, validation strong; None where none is logged."""
    lines: list[Line] = []
    for index, variant in enumerate(variants):
        for kind, series in (("train", "training"), ("valid", "validation")):
            x, y = curve(variant.phases, kind, "loss")
            if x:
                lines.append(Line(variant.label, x, y, index, series, faint=kind == "train"))
    evaluations = results_of(variants, "evaluation")
    unigrams = sorted({float(evaluation["unigram_entropy"]) for _, evaluation in evaluations})
    ends = [
        f"{line.name}: validation loss {numbers.fixed(line.y[-1], 2)}"
        f" after {numbers.short(line.x[-1])} tokens"
        for line in lines
        if not line.faint
    ]
    return _figure(
        "loss",
        "loss (nats per predicted token)",
        lines,
        variants,
        "Loss against tokens seen. Faint: training; strong: validation. Uprights: a new phase of "
        f"{variants[0].label}. Dotted: the loss of knowing only how often each token occurs.",
        ends,
        levels=[("" if at else "unigram entropy", entropy) for at, entropy in enumerate(unigrams)],
    )


def learning_rates(variants: Sequence[Variant]) -> Figure | None:
    """Draw learning rate against tokens; None where none is logged."""
    lines = []
    for index, variant in enumerate(variants):
        x, y = curve(variant.phases, "train", "learning_rate")
        if x:
            lines.append(Line(variant.label, x, y, index))
    plans = [phase.plan for variant in variants for phase in variant.phases if phase.plan]
    caption = "Learning rate against tokens seen."
    if any(plan.optimizer.rates for plan in plans):
        caption += " Parts that have their own (Phases, peak rate) rise and fall alike."
    peaks = [f"{line.name}: peak {max(line.y):.2g}" for line in lines]
    return _figure("rate", "learning rate", lines, variants, caption, peaks, height=FLAT)


def stream_losses(variants: Sequence[Variant]) -> Figure | None:
    """Draw the validation loss of each stream against tokens; None where the run has one text."""
    labels = list(dict.fromkeys(label for v in variants for label in _streams(v)))
    streams = [label.partition("/")[0] for label in labels]
    lines = []
    for place, variant in enumerate(variants):
        own = _streams(variant)
        for index, (label, stream) in enumerate(zip(labels, streams, strict=True)):
            if label in own:
                name = label if streams.count(stream) > 1 else stream
                x, y = curve(variant.phases, "valid", f"loss/{label}")
                lines.append(Line(name, x, y, index, variant.label, faint=place > 0))
    ends = [f"{line.name} of {line.series}: {numbers.fixed(line.y[-1], 2)}" for line in lines]
    beside = "; faint: the other models" if len(variants) > 1 else ""
    return _figure(
        "streams",
        "validation loss (nats)",
        lines,
        variants,
        f"Validation loss of each stream. Strong: {variants[0].label}{beside}. The levels of two "
        "streams do not compare: each has other text.",
        ends,
    )


def _streams(variant: Variant) -> list[str]:
    """Return the streams, with their objectives, that have a loss in every validation."""
    rows = [row for phase in variant.phases for row in phase.valid]
    keys = (key for key in (rows[0] if rows else {}) if key.startswith("loss/"))
    return [k[5:] for k in keys if k.count("/") == 2 and all(k in row for row in rows)]


def _figure(
    name: str,
    side: str,
    lines: Sequence[Line],
    variants: Sequence[Variant],
    caption: str,
    ends: Sequence[str],
    *,
    levels: Sequence[tuple[str, float]] = (),
    height: float = 1.0,
) -> Figure | None:
    """Draw over tokens up to the end of all training, which the last logged step need not reach."""
    if not lines:
        return None
    phases = [phase for phase in variants[0].phases if phase.tokens is not None]
    starts = [0]
    for phase in phases:
        starts.append(starts[-1] + (phase.tokens or 0))
    spans = [(*span, phase.name) for span, phase in zip(pairwise(starts), phases, strict=True)]
    end = max((v.tokens or 0 for v in variants), default=0) * 1.01 or None
    return Figure(
        name, ("tokens", side), lines, caption, f"{caption} {'; '.join(ends)}", levels,
        spans if len(variants[0].phases) > 1 else (), end, from_nothing=name == "rate",
        height=height,
    )  # fmt: skip
