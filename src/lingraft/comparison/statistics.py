"""Weighted statistics of many draws at once.

Shape letters: R draws, N examples, U distinct values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

CONSTANT = 1e-20
"""Share of the mean square below which a variance is rounding."""


def ratio(above: Array, below: Array) -> Array:
    """Quotients, 0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros(np.shape(above)), where=np.asarray(below) > 0)


def area(weights_NR: Array, said_N: Array, positive_N: Array) -> tuple[Array, Array]:
    """[R] Area under precision and recall by trapezoids, and whether there are positives.

    Recall grows only at thresholds that let a positive in, so only those and the points right
    before them are worked out (sklearn's `precision_recall_curve` and `auc`).

    Args:
        weights_NR: contiguous, draws last: rows are taken as a whole.
        said_N: the score of every example.
        positive_N: whether it is one; at least one is.
    """
    order = np.argsort(-said_N, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(said_N[order]) != 0))  # of the thresholds
    ends = np.append(starts[1:], len(order))
    kept = np.add.reduceat(positive_N[order].astype(int), starts) > 0
    starts, ends = starts[kept], ends[kept]
    edges = np.unique(np.concatenate([[0], starts, ends]))
    inside = edges[edges < len(order)]
    all_UR = np.add.reduceat(weights_NR[order], inside, axis=0).cumsum(0)
    all_UR = np.concatenate([np.zeros((1, all_UR.shape[1])), all_UR])  # weight before an edge
    before_UR = all_UR[np.searchsorted(inside, starts)]
    after_UR = all_UR[np.searchsorted(inside, ends)]
    positives = order[positive_N[order]]
    first = np.searchsorted(np.flatnonzero(positive_N[order]), starts)
    true_UR = np.add.reduceat(weights_NR[positives], first, axis=0)
    found_UR = true_UR.cumsum(0)
    high_UR = ratio(found_UR, after_UR)
    low_UR = np.where(before_UR > 0, ratio(found_UR - true_UR, before_UR), 1.0)
    area_R = (true_UR * (low_UR + high_UR) / 2).sum(0)
    return ratio(area_R, found_UR[-1]), found_UR[-1] > 0


def ranks(weights_RN: Array, values_N: Array) -> Array:
    """[R, N] The rank of every value among the drawn ones, ties at their mean."""
    distinct, place_N = np.unique(values_N, return_inverse=True)
    drawn_RU = np.stack(
        [np.bincount(place_N, weights_N, minlength=len(distinct)) for weights_N in weights_RN]
    )
    ranks_RU = drawn_RU.cumsum(1) - (drawn_RU - 1) / 2
    ranks_RN: Array = ranks_RU[:, place_N]
    return ranks_RN


def correlation(weights_RN: Array, first_RN: Array, second_RN: Array) -> Array:
    """[R] Pearson's, in percent; 0 where a side is constant."""
    n_R1 = weights_RN.sum(1, keepdims=True)
    first, second = (
        one - (weights_RN * one).sum(1, keepdims=True) / n_R1 for one in (first_RN, second_RN)
    )
    above = (weights_RN * first * second).sum(1)
    squares = [(weights_RN * one**2).sum(1) for one in (first, second)]
    first_varies, second_varies = (
        square > CONSTANT * (weights_RN * one**2).sum(1)
        for square, one in zip(squares, (first_RN, second_RN), strict=True)
    )
    varies = first_varies & second_varies
    return 100 * np.where(varies, ratio(above, np.sqrt(squares[0] * squares[1])), 0.0)
