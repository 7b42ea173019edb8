"""From similarities of pieces to links between pieces; no torch here.

Shape letters: L layers, M pieces of the source, N pieces of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

SMALLEST = 1e-6
"""What stands in place of similarities that are not positive."""
ITERATIONS = 2
ONCE_LINKED = 0.9
"""Itermax: the weight of a pair of which one piece is linked already."""
SHARE = 1e-3
"""awesome-align: what the softmax must exceed in both directions."""


@dataclass(frozen=True)
class Method:
    """How links are found."""

    links: Callable[[Array], Array]
    """Similarities [L, M, N] to links [L, M, N], true and false."""
    joint: bool
    """One sequence `<s> source </s> target </s>`, in which the sides see each other; else each
    sentence by itself."""
    cosine: bool
    """Similarities are (cosine + 1) / 2; else plain dot products."""
    title: str
    """For tables."""


def mutual(row_scores_LMN: Array, column_scores_LMN: Array) -> Array:
    """[L, M, N] Where the best of a row is also the best of its column; the first of equals."""
    best_LM = row_scores_LMN.argmax(-1)
    best_LN = column_scores_LMN.argmax(-2)
    rows_M, columns_N = np.arange(best_LM.shape[-1]), np.arange(best_LN.shape[-1])
    return (best_LM[..., :, None] == columns_N) & (best_LN[..., None, :] == rows_M[:, None])


def optimal_transport(S_LMN: Array, *, clamp: bool = True, iterations: int = ITERATIONS) -> Array:
    """Links by optimal transport: columns and rows are scaled to sum to one, in turn.

    Where it stops after a row, the best of each row and the best of each column are compared. It is
    not symmetric: with the sides swapped it begins with the other one, and two iterations are too
    few for that not to matter.

    Source: Chi et al. 2021, "Improving pretrained cross-lingual language models via self-labeled
    word alignment", §3.1.

    Args:
        S_LMN: dot products.
        clamp: put `SMALLEST` where they are not positive, as in training. The released aligner
            means to and does not: False gives its links.
        iterations: of a column's and a row's scaling; 0 leaves the similarities.
    """
    pi_LMN = np.where(S_LMN <= 0, np.asarray(SMALLEST, S_LMN.dtype), S_LMN) if clamp else S_LMN
    xi_LMN = pi_LMN
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # sums of 0 without clamp
        for _ in range(iterations):
            xi_LMN = pi_LMN / pi_LMN.sum(-2, keepdims=True)
            pi_LMN = xi_LMN / xi_LMN.sum(-1, keepdims=True)
    return mutual(pi_LMN, xi_LMN)


def released(S_LMN: Array) -> Array:
    """`optimal_transport` without clamp."""
    return optimal_transport(S_LMN, clamp=False)


def intersection(S_LMN: Array) -> Array:
    """Pairs that are each other's best.

    Source: Jalili Sabet et al. 2020, "SimAlign", §3 (Argmax).
    """
    return mutual(S_LMN, S_LMN)


def itermax(S_LMN: Array) -> Array:
    """`intersection`, then once more among what is left.

    In the second round pairs of two linked pieces are out, and those of one weigh `ONCE_LINKED`.
    There is none where a side has at most two pieces or no free one.

    Source: Jalili Sabet et al. 2020, "SimAlign", §3 (Itermax), with its n_max of 2.

    Args:
        S_LMN: similarities, none negative.
    """
    first_LMN = intersection(S_LMN)
    if min(S_LMN.shape[-2:]) <= 2:
        return first_LMN
    free_LM: Array = np.logical_not(first_LMN.any(-1))
    free_LN: Array = np.logical_not(first_LMN.any(-2))
    both_LMN = free_LM[..., :, None] & free_LN[..., None, :]
    either_LMN = free_LM[..., :, None] | free_LN[..., None, :]
    weights_LMN = np.where(both_LMN, 1.0, np.where(either_LMN, ONCE_LINKED, 0.0))
    weighted_LMN = S_LMN * weights_LMN
    some_L: Array = np.logical_and(free_LM.any(-1), free_LN.any(-1))
    second_LMN = mutual(weighted_LMN, weighted_LMN) & either_LMN & some_L[..., None, None]
    return first_LMN | second_LMN


def both_likely(S_LMN: Array) -> Array:
    """Pairs whose softmax exceeds `SHARE` in both directions.

    Source: Dou and Neubig 2021, "Word alignment by fine-tuning embeddings on parallel corpora",
    §2.2 (softmax).
    """
    return np.asarray((softmax(S_LMN, -1) > SHARE) & (softmax(S_LMN, -2) > SHARE))


METHODS = {
    "ot": Method(optimal_transport, joint=True, cosine=False, title="optimal transport"),
    "simalign-inter": Method(intersection, joint=False, cosine=True, title="SimAlign, Argmax"),
    "itermax": Method(itermax, joint=False, cosine=True, title="SimAlign, Itermax"),
    "awesome": Method(both_likely, joint=False, cosine=False, title="awesome-align, softmax"),
}
RELEASED = Method(released, joint=True, cosine=False, title="optimal transport without clamp")
"""`ot` as the released aligner computes it."""
