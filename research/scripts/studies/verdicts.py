"""Who wins in a study, and the figures that its results allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.report import numbers
from studies import factor, plots
from studies.analysis import difference
from studies.metrics import BITS, BYTES, LOSS, PERPLEXITY, UNIGRAMS, metric_named
from studies.notes import alike
from studies.results import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.stats import Resampling
    from studies.drawing import Figure
    from studies.results import Group, Results

TITLES = {PERPLEXITY: "perplexity", BITS: "bits per character", BYTES: "bits per byte"}
"""What a verdict is by: what compares most of the models, the first of equals."""
ALPHA = 0.05
"""A larger p separates nothing."""
LONG_NAME = 30
"""Characters; a longer label is not said twice."""


def figures(results: Results, resampling: Resampling) -> dict[str, list[Figure]]:
    """All figures that the results allow, by section of the page."""
    curve = factor.by_training_set(results)
    of_curve = [(curve, metric) for metric in curve.task_metrics] if curve else []
    candidates = {
        "curve_figures": [plots.against_data(*pair) for pair in of_curve],
        "curve_factor_figures": [factor.factors(*pair, resampling) for pair in of_curve],
        "data_figures": [plots.against_data(results, metric) for metric in plots.AGAINST_DATA],
        "factor_figures": [factor.factors(results, metric, resampling) for metric in (LOSS, BITS)],
        "task_figures": [plots.against_data(results, metric) for metric in results.task_metrics],
        "task_factor_figures": [
            factor.factors(results, metric, resampling) for metric in results.task_metrics
        ],
        "loss_figures": [plots.learning(results, size) for size in results.sizes],
        "initializer_figures": [
            plots.learning(results, size, initializers=True) for size in results.sizes
        ],
    }
    sections = {
        section: [drawing for drawing in drawings if drawing is not None]
        for section, drawings in candidates.items()
    }
    lines = {drawing.caption: drawing.names for drawing in sections["loss_figures"]}
    sections["initializer_figures"] = [
        drawing
        for drawing in sections["initializer_figures"]
        if lines.get(drawing.caption) != drawing.names
    ]
    return sections


def leaders(results: Results) -> tuple[str, list[Group]]:
    """The metric that the largest size is judged by, and its groups, the best one first.

    The one of `TITLES` that most groups have which were asked for the same as the reference: bits
    per character where some have another vocabulary. Without two such groups there are none.
    """
    groups = results.at(results.sizes[-1]) if results.groups else ()
    reference = next((g for g in groups if g.label == results.reference()), None)
    best: tuple[str, list[Group]] = ("", [])
    for metric in TITLES:
        rivals = [
            (mean, group)
            for group in groups
            if (mean := group.sound(metric)) is not None
            and alike(group, reference or groups[0], metric)
        ]
        if len(rivals) > max(1, len(best[1])):
            best = metric, [group for _, group in sorted(rivals, key=lambda pair: pair[0])]
    return best


def verdict(results: Results, resampling: Resampling) -> str:
    """Who wins at the largest size, whether that is more than luck, and who is left out."""
    if not results.groups:
        return "No verdict yet: no cell has ended."
    metric, groups = leaders(results)
    if not groups:
        ended = "1 cell has" if len(results.cells) == 1 else f"{len(results.cells)} cells have"
        return f"{ended} ended; at the largest size there is nothing to compare."
    first, second = groups[:2]
    show = metric_named(metric).show
    best = f"With {size_text(results.sizes[-1])}, {first.label} is best of {len(groups)}"
    reached = f"{TITLES[metric]} {show(first.mean(metric))}"
    reference = {g.label: g for g in (second, *groups) if g.label == results.reference()}
    beside = {second.label: second} | reference
    beside.pop(first.label, None)
    scores = ", ".join(f"{label} {show(g.mean(metric))}" for label, g in beside.items())
    luck = _luck(first, second, metric, resampling) + _learnt(first)
    return f"{best}: {reached}, {scores}. {luck}{_left_out(results, groups, metric)}"


def _learnt(first: Group) -> str:
    """That even the best has learnt nothing, where that is so."""
    reached, floor = first.mean(PERPLEXITY), first.mean(UNIGRAMS)
    if reached is None or floor is None or reached < floor:
        return ""
    guessing = f"guessing by token frequency alone (perplexity {numbers.significant(floor)})"
    return f" But {first.label} is no better than {guessing}."


def _left_out(results: Results, groups: Sequence[Group], metric: str) -> str:
    """Whom the verdict passes over, and why."""
    others = [group for group in results.at(results.sizes[-1]) if group not in groups]
    reasons = {
        f"measured on other {'words' if metric == BITS else 'tokens or text'}": [
            group.label for group in others if group.sound(metric) is not None
        ],
        f"without a finite {metric_named(metric).title}": [
            group.label for group in others if group.sound(metric) is None
        ],
    }
    said = [f"{', '.join(labels)} ({why})" for why, labels in reasons.items() if labels]
    return f" Not compared: {'; '.join(said)}." if said else ""


def _luck(first: Group, second: Group, metric: str, resampling: Resampling) -> str:
    """Whether the lead of one group over another is more than luck, as far as is known."""
    name = second.label if len(second.label) < LONG_NAME else "the second"
    if not first.rows(metric).keys() & second.rows(metric).keys():
        return f"It shares no seed with {name}, so nothing is known of luck."
    gap = difference(first, second, metric, resampling)
    p = gap.larger_p
    if p is None:
        return f"Whether its lead over {name} is luck is not known: the rows have too few blocks."
    probability = numbers.probability(p)
    if gap.value > 0:  # all that judge are the better the lower they are
        return f"With the seeds that both have, {name} is ahead ({probability}): run equal seeds."
    clause = f"nothing separates it from {name} ({probability})"
    if p < ALPHA:
        clause = f"its lead over {name} is more than luck ({probability})"
    if gap.trained > 1:
        return f"{clause[0].upper()}{clause[1:]}."
    return f"On this test text {clause}; one seed tells nothing of others."
