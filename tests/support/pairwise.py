"""A few cases for all combinations: every value of a factor meets every value of another."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def pairs(row: Sequence[Any]) -> Iterator[tuple[tuple[int, Any], tuple[int, Any]]]:
    """The pairs of (place, value) of a row."""
    return itertools.combinations(enumerate(row), 2)


def pairwise(*factors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows of a product in which every pair of values stands; greedy, the same at every call."""
    product = list(itertools.product(*factors))
    left = {pair for row in product for pair in pairs(row)}
    chosen = []
    while left:
        best = max(product, key=lambda row: sum(pair in left for pair in pairs(row)))
        left.difference_update(pairs(best))
        chosen.append(best)
    return chosen
