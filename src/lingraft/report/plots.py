"""Curves of one run's training, or of several runs side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from lingraft.report.figure import Figure, Line
from lingraft.report.variants import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.variants import PhaseRecord, TrainedModel

MAX_POINTS = 300
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
    return thinned(points)


def thinned(points: Sequence[tuple[float, float]]) -> Curve:
    """Return places and values of points; of very many each is the mean of neighbours."""
    step = max(1, -(-len(points) // MAX_POINTS))
    groups = (points[at : at + step] for at in range(0, len(points), step))
    means = [[sum(values) / len(values) for values in zip(*g, strict=True)] for g in groups]
    return [x for x, _ in means], [y for _, y in means]


def losses(models: Sequence[TrainedModel]) -> Figure | None:
    """Draw loss against tokens: training faint, validation strong; None where none is logged.

    The foot reaches to the end of all training, which the last logged step need not reach.
    """
    lines: list[Line] = []
    for index, model in enumerate(models):
        for kind, series in (("train", "training"), ("valid", "validation")):
            x, y = curve(model.phases, kind, "loss")
            if x:
                lines.append(Line(model.label, x, y, index, series, faint=kind == "train"))
    evaluations = results_of(models, "evaluation")
    unigrams = sorted({float(evaluation["unigram_entropy"]) for _, evaluation in evaluations})
    caption = (
        "Loss against tokens seen. Faint: training; strong: validation. Uprights: a new phase of "
        f"{models[0].label}. Dotted: the loss of knowing only how often each token occurs."
    )
    levels = [("" if at else "unigram entropy", entropy) for at, entropy in enumerate(unigrams)]
    if not lines:
        return None
    phases = [phase for phase in models[0].phases if phase.tokens is not None]
    starts = [0]
    for phase in phases:
        starts.append(starts[-1] + (phase.tokens or 0))
    spans = [(*span, phase.name) for span, phase in zip(pairwise(starts), phases, strict=True)]
    end = max((model.tokens or 0 for model in models), default=0) * 1.01 or None
    return Figure(
        "loss", ("tokens", "loss (nats per predicted token)"), lines, caption, levels=levels,
        spans=spans if len(models[0].phases) > 1 else (), end=end,
    )  # fmt: skip
