"""Heads of words that need no model (SPEC B.7)."""

from __future__ import annotations

from typing import Literal

Side = Literal["left", "right"]


def neighbour_heads(n_words: int, side: Side) -> tuple[int, ...]:
    """The baseline that takes the word beside it for every word's head; the outermost is the root.

    Korean is head-final: the right neighbour is the harder baseline.
    """
    if side == "left":
        return tuple(range(n_words))
    return (*range(2, n_words + 1), 0)
