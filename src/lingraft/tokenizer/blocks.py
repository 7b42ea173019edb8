"""Sentences joined to blocks: as many whole ones as fit, in the order of the text.

Nothing is written: a block is a range of rows of `shards.Tokens`, whose text is joined as it is
read, `<s> s1 </s> s2 </s> …`, over the ends of documents (fairseq's `--sample-break-mode complete`,
with which MetaXLM's authors train; SPEC G.3).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tokenizer.pairs import Edges
    from lingraft.tokenizer.shards import Tokens

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Blocks:
    """The blocks of one split; in place of `Tokens` where sentences are read together."""

    tokens: Tokens
    bounds: Array
    """[blocks, 2] of each its first row and the one behind its last."""
    before: int
    """Special tokens at the head of a row, which a block has once."""

    @classmethod
    def of(cls, tokens: Tokens, edges: Edges, limit: int) -> Blocks:
        """Fill blocks one after the other; a row that is longer is one by itself.

        Args:
            tokens: the text.
            edges: special tokens around a row.
            limit: tokens of a block, special ones included.
        """
        filled = _filled(tokens, edges.before)
        bounds, at = [], 0
        while at < len(tokens):
            room = filled[at] + limit - edges.before
            behind = max(int(np.searchsorted(filled, room, side="right")) - 1, at + 1)
            bounds.append((at, behind))
            at = behind
        return cls(tokens, np.array(bounds, np.int64).reshape(-1, 2), edges.before)

    def __len__(self) -> int:
        """How many blocks."""
        return len(self.bounds)

    @property
    def lengths(self) -> Array:
        """[blocks] tokens in each, special ones included (int32)."""
        filled = _filled(self.tokens, self.before)
        return (filled[self.bounds[:, 1]] - filled[self.bounds[:, 0]] + self.before).astype(
            np.int32
        )

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Blocks by index: token ids with special ones."""
        rows: list[Array] = []
        for start, stop in self.bounds[indices]:
            first, *following = self.tokens.rows(np.arange(start, stop))
            rows.append(np.concatenate([first, *(row[self.before :] for row in following)]))
        return rows

    def subset(self, indices: Array) -> Blocks:
        """Some of the blocks, in the order that is given."""
        return dataclasses.replace(self, bounds=self.bounds[indices])


def _filled(tokens: Tokens, before: int) -> Array:
    """[rows + 1] tokens up to each row, without the special ones at its head."""
    return np.concatenate([[0], np.cumsum(tokens.lengths - before, dtype=np.int64)])
