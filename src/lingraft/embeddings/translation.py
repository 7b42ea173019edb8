"""Translation probabilities of pieces out of sentence pairs: IBM model 1.

Shape letters: P kinds of links (a target piece and a source piece of one sentence pair), L links,
R readers (source pieces of a sentence pair, each read from one target piece), T pieces of a target
sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

LINKS_AT_ONCE = 2_000_000
Pair: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32]]"
"""The ids of a target sentence and of its translation."""


@dataclass(frozen=True)
class Translations:
    """p(source piece | target piece) for all pairs of pieces that stand in one sentence pair."""

    target_ids: NDArray[np.int64]
    """[P] ascending."""
    source_ids: NDArray[np.int64]
    """[P] ascending for each target id."""
    probabilities: NDArray[np.float64]
    """[P] they sum to one for each target id."""


def learn(pairs: Sequence[Pair], *, nothing: int, iterations: int = 5) -> Translations:
    """Learn p(source piece | target piece) by expectation maximisation, from equal probabilities.

    Each source piece of a sentence comes from one target piece of its translation, or from nothing.

    Source: IBM model 1 (Brown et al. 1993, §4.2, eq. 11-18).

    Args:
        pairs: the ids of a target sentence and of its translation; neither is empty.
        nothing: a target id that no piece has, added to every target sentence.
        iterations: rounds of expectation and maximisation.

    Returns:
        The probabilities; those given `nothing` are among them.
    """
    width = 1 + max(int(source.max()) for _, source in pairs)
    parts = list(_parts(pairs))
    kinds_P = np.unique(
        np.concatenate([np.unique(_numbers(part, nothing, width)) for part in parts])
    )
    links = [
        np.searchsorted(kinds_P, _numbers(part, nothing, width)).astype(np.int32) for part in parts
    ]
    readers = [_readers(part) for part in parts]
    target_ids, source_ids = np.divmod(kinds_P, width)
    _, groups_P = np.unique(target_ids, return_inverse=True)
    probabilities_P = np.ones(len(kinds_P))
    for _ in range(iterations):
        counts_P = np.zeros(len(kinds_P))
        for kinds_L, sizes_R in zip(links, readers, strict=True):
            shares_L = probabilities_P[kinds_L]
            sums_R = np.add.reduceat(shares_L, np.cumsum(sizes_R) - sizes_R)
            shares_L /= np.repeat(sums_R, sizes_R)
            counts_P += np.bincount(kinds_L, shares_L, minlength=len(kinds_P))
        probabilities_P = counts_P / np.bincount(groups_P, counts_P)[groups_P]
    return Translations(target_ids, source_ids, probabilities_P)


def _parts(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs in parts of about `LINKS_AT_ONCE` links."""
    part: list[Pair] = []
    links = 0
    for pair in pairs:
        part.append(pair)
        links += (len(pair[0]) + 1) * len(pair[1])
        if links >= LINKS_AT_ONCE:
            yield part
            part, links = [], 0
    if part:
        yield part


def _numbers(part: list[Pair], nothing: int, width: int) -> NDArray[np.int64]:
    """Return `target id * width + source id` of each link; those of one reader in a row."""
    keys = []
    for target, source in part:
        targets_T = np.append(target.astype(np.int64), nothing)
        keys.append((targets_T[None, :] * width + source[:, None]).ravel())
    return np.concatenate(keys)


def _readers(part: list[Pair]) -> NDArray[np.int64]:
    """Return how many links each source piece has: the target sentence's pieces, and nothing."""
    target_sizes = np.array([len(target) + 1 for target, _ in part])
    return np.repeat(target_sizes, [len(source) for _, source in part])
