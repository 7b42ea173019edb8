"""Scores as functions of how often each example counts, so that thousands of draws take seconds.

A bootstrap's draw gives every example a whole number of copies, a part of the test set 0 or 1, and
the whole test set 1: one definition serves them all. scikit-learn's metrics with `sample_weight`
say the same (the tests hold these equal to them) and take a hundred times as long.

Shape letters: R draws, N examples, C classes (labels, tags, relations, heads), U distinct values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Score = Callable[[Array], Array]
"""[R, N] weights → [R] scores in percent."""
Scores = dict[str, Score]
Units = Iterable[Iterable[tuple[Hashable, Hashable]]]
"""Gold and predicted class of each unit of every example; None is no class."""
CONSTANT = 1e-20
"""Share of the mean square below which a variance is rounding."""


def on_all(scores: Mapping[str, Score], number: int) -> dict[str, float]:
    """Return the scores of a whole test set of so many examples."""
    return {key: float(score(np.ones((1, number)))[0]) for key, score in scores.items()}


def ratio(above: Array, below: Array) -> Array:
    """Quotients, 0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=np.asarray(below) > 0)


def mean(values: Sequence[float], counts: Sequence[float] | None = None) -> Score:
    """Return the mean of what examples have; or the sum of it over the sum of `counts`."""
    values_N = np.asarray(values, dtype=float)
    counts_N = np.ones(len(values_N)) if counts is None else np.asarray(counts, dtype=float)
    return lambda weights_RN: ratio(100 * (weights_RN @ values_N), weights_RN @ counts_N)


def share(right: Sequence[Sequence[bool]]) -> Score:
    """Return the share of units, of all examples together, that are right."""
    return mean([sum(units) for units in right], [len(units) for units in right])


class Tally:
    """Units of every example by class: rightly predicted, in gold, and predicted.

    Args:
        units: of every example.
        classes: known beforehand.
    """

    def __init__(self, units: Units, classes: Iterable[Hashable] = ()) -> None:
        pairs = [list(of_example) for of_example in units]
        names = dict.fromkeys(classes)
        names |= dict.fromkeys(name for rows in pairs for pair in rows for name in pair)
        names.pop(None, None)
        self.classes = list(names)
        place = {name: index for index, name in enumerate(names)}
        self.right_NC, self.gold_NC, self.said_NC = np.zeros((3, len(pairs), len(names)))
        for row, of_example in enumerate(pairs):
            for gold, prediction in of_example:
                if gold is not None:
                    self.gold_NC[row, place[gold]] += 1
                    self.right_NC[row, place[gold]] += gold == prediction
                if prediction is not None:
                    self.said_NC[row, place[prediction]] += 1

    def totals(self, weights_RN: Array) -> tuple[Array, Array, Array]:
        """[R, C] Right, in gold and predicted, summed over the examples."""
        return weights_RN @ self.right_NC, weights_RN @ self.gold_NC, weights_RN @ self.said_NC

    def f1(
        self,
        average: Literal["micro", "macro"],
        *,
        only: Iterable[Hashable] | None = None,
        without: Sequence[Hashable] = (),
        by_gold: bool = False,
        absent: float | None = None,
    ) -> Score:
        """F1 of classes.

        Args:
            average: 'macro' is over the classes that occur in gold or predictions.
            only: the classes that count; None: all.
            without: classes that do not count.
            by_gold: macro over the classes that occur in gold.
            absent: F1 of classes that occur nowhere, which then count too.
        """
        names = set(self.classes if only is None else only) - set(without)
        columns = [index for index, name in enumerate(self.classes) if name in names]

        def score(weights_RN: Array) -> Any:
            right_RC, gold_RC, predictions_RC = (
                total_RC[:, columns] for total_RC in self.totals(weights_RN)
            )
            both_RC = gold_RC + predictions_RC
            if average == "micro":
                return 100 * ratio(2 * right_RC.sum(1), both_RC.sum(1))
            f1_RC = ratio(2 * right_RC, both_RC)
            if absent is not None:
                return 100 * np.where(both_RC > 0, f1_RC, absent).mean(1)
            present_RC = (gold_RC if by_gold else both_RC) > 0
            return 100 * ratio((f1_RC * present_RC).sum(1), present_RC.sum(1))

        return score

    def matthews(self, weights_RN: Array) -> Array:
        """[R] Gorodkin 2004, in percent, of examples with one unit; 0 where a side is constant."""
        right_RC, gold_RC, predictions_RC = self.totals(weights_RN)
        n_R = weights_RN.sum(1)
        above = right_RC.sum(1) * n_R - (gold_RC * predictions_RC).sum(1)
        below = (n_R**2 - (gold_RC**2).sum(1)) * (n_R**2 - (predictions_RC**2).sum(1))
        return np.asarray(100 * ratio(above, np.sqrt(np.maximum(below, 0))))


def area(weights_NR: Array, scores_N: Array, positive_N: Array) -> tuple[Array, Array]:
    """[R] Area under precision and recall by trapezoids, and whether there are positives.

    Recall grows only at thresholds that let a positive in, so only those and the points right
    before them are worked out (sklearn's `precision_recall_curve` and `auc`).

    Args:
        weights_NR: contiguous, draws last: rows are taken as a whole.
        scores_N: the score of every example.
        positive_N: whether it is one; at least one is.
    """
    order = np.argsort(-scores_N, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(scores_N[order]) != 0))  # of the thresholds
    ends = np.append(starts[1:], len(order))
    mask = np.add.reduceat(positive_N[order].astype(int), starts) > 0
    starts, ends = starts[mask], ends[mask]
    edges = np.unique(np.concatenate([[0], starts, ends]))
    inside = edges[edges < len(order)]
    all_UR = np.add.reduceat(weights_NR[order], inside, axis=0).cumsum(0)
    all_UR = np.concatenate([np.zeros((1, all_UR.shape[1])), all_UR])  # weight before an edge
    before_UR = all_UR[np.searchsorted(inside, starts)]
    after_UR = all_UR[np.searchsorted(inside, ends)]
    positives = order[positive_N[order]]
    first = np.searchsorted(np.flatnonzero(positive_N[order]), starts)
    true_UR = np.add.reduceat(weights_NR[positives], first, axis=0)
    hits_UR = true_UR.cumsum(0)
    high_UR = ratio(hits_UR, after_UR)
    low_UR = np.where(before_UR > 0, ratio(hits_UR - true_UR, before_UR), 1.0)
    area_R = (true_UR * (low_UR + high_UR) / 2).sum(0)
    return ratio(area_R, hits_UR[-1]), hits_UR[-1] > 0


def pearson(gold_N: Array, predictions_N: Array) -> Score:
    """Pearson's correlation; 0 where a side is constant (it is not defined there)."""
    return lambda weights_RN: _correlation(weights_RN, gold_N, predictions_N)


def spearman(gold_N: Array, predictions_N: Array) -> Score:
    """Spearman's rank correlation; 0 where a side is constant."""
    return lambda weights_RN: _correlation(
        weights_RN, _ranks(weights_RN, gold_N), _ranks(weights_RN, predictions_N)
    )


def _ranks(weights_RN: Array, values_N: Array) -> Array:
    """[R, N] The rank of every value among the drawn ones, ties at their mean."""
    distinct, place_N = np.unique(values_N, return_inverse=True)
    counts_RU = np.stack(
        [np.bincount(place_N, weights_N, minlength=len(distinct)) for weights_N in weights_RN]
    )
    ranks_RU = counts_RU.cumsum(1) - (counts_RU - 1) / 2
    return np.asarray(ranks_RU[:, place_N])


def _correlation(weights_RN: Array, first: Array, second: Array) -> Array:
    """[R] Pearson's, in percent, of values [N] or [R, N]; 0 where a side is constant."""
    n_R1 = weights_RN.sum(1, keepdims=True)
    sides = [side - (weights_RN * side).sum(1, keepdims=True) / n_R1 for side in (first, second)]
    squares = [(weights_RN * side**2).sum(1) for side in sides]
    varies = [
        square > CONSTANT * (weights_RN * side**2).sum(1)
        for square, side in zip(squares, (first, second), strict=True)
    ]
    above = (weights_RN * sides[0] * sides[1]).sum(1)
    quotient = ratio(above, np.sqrt(squares[0] * squares[1]))
    return 100 * np.where(varies[0] & varies[1], quotient, 0.0)
