"""Pairs over tokenised text: a sentence and its translation, or two neighbouring stretches of text.

And blocks: as many whole sentences as fit, in the order of the text, `<s> s1 </s> s2 </s> …`, over
the ends of documents (fairseq's `--sample-break-mode complete`, with which MetaXLM's authors
train). Nothing is written: they are ranges of rows of `shards.Tokens`, whose text is joined as it
is read.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.tokenizer.shards import special_ids_around

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerFast

    from lingraft.tokenizer.shards import Tokens

Array = np.ndarray[Any, Any]


class Edges(NamedTuple):
    """Numbers of special tokens around a row."""

    before: int
    after: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Edges:
        """Count the special tokens that a tokenizer puts around a row."""
        return cls(*map(len, special_ids_around(tokenizer.backend_tokenizer)))


def translations(tokens: Tokens) -> Array:
    """Return each side's first row and the one behind its last, [pairs, 2, 2]: 2 lines a document.

    A pair of which a side is more than a row, or has no tokens, is left out: which rows are whose
    is not known.
    """
    assert tokens.starts is not None, "the text of pairs was written with its documents"
    starts = np.asarray(tokens.starts)
    first = starts[np.diff(np.append(starts, len(tokens))) == 2]
    return np.stack([[first, first + 1], [first + 1, first + 2]]).transpose(2, 0, 1)


def neighbours(tokens: Tokens, edges: Edges, limit: int) -> Array:
    """Pair stretches 1 and 2, 3 and 4 … of each document: [pairs, 2, 2] as `translations`.

    A stretch is as many whole rows as fit into `limit`, one at least. Of an odd number
    the last makes a pair with the one before it; a document of one stretch has none.

    Args:
        tokens: the text; it must say where its documents begin.
        edges: special tokens around a row.
        limit: tokens of a stretch, special ones included.
    """
    filled = _filled(tokens, sum(edges))
    pairs: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for rows in tokens.documents():
        if len(rows) < 2:
            continue
        stretches = _stretches(filled, limit - sum(edges), int(rows[0]), int(rows[-1]) + 1)
        number = len(stretches)
        firsts = [*range(0, number - 1, 2), *([number - 2] if number % 2 and number > 1 else [])]
        pairs += [(stretches[i], stretches[i + 1]) for i in firsts]
    return np.array(pairs, np.int64).reshape(-1, 2, 2)


def _filled(tokens: Tokens, special: int) -> Array:
    """Return the tokens up to each row, [rows + 1], without so many special ones of each."""
    return np.concatenate([[0], np.cumsum(tokens.lengths - special, dtype=np.int64)])


def _stretches(filled: Array, room: int, at: int, end: int) -> list[tuple[int, int]]:
    """Fill stretches of rows one after the other; a row that is longer is one by itself."""
    stretches = []
    while at < end:
        fits = int(np.searchsorted(filled, filled[at] + room, side="right")) - 1
        behind = min(max(fits, at + 1), end)
        stretches.append((at, behind))
        at = behind
    return stretches


@dataclass(frozen=True)
class TokenPairs:
    """The pairs of one split; in place of `Tokens` where an objective reads pairs."""

    tokens: Tokens
    """All rows of the split, one after the other."""
    sides: Array
    """[pairs, 2, 2] of each side its first row and the one behind its last."""
    edges: Edges
    limit: int
    """Tokens of a side, special ones included; what is more is cut off."""
    longest: int | None = None
    """Tokens of a joined pair (TLM); None keeps the sides apart. Of a longer one the longer side is
    cut until it fits."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.sides)

    @property
    def _specials(self) -> int:
        return sum(self.edges) + self.edges.after + (self.edges.before if not self.longest else 0)

    @property
    def lengths(self) -> Array:
        """Return the tokens of both sides together, as they are read ([pairs] int32)."""
        return (self._texts().sum(1) + self._specials).astype(np.int32)

    def _texts(self) -> Array:
        """Return the tokens of text of each side that are read, [pairs, 2]."""
        begins = self.tokens.offsets[self.sides].astype(np.int64)
        special = np.diff(self.sides)[..., 0] * sum(self.edges)
        whole = np.diff(begins)[..., 0] - special
        texts_P2: Array = np.minimum(whole, self.limit - sum(self.edges))
        return texts_P2 if not self.longest else fitted(texts_P2, self.longest - self._specials)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Return both sides of each pair one behind the other, or joined: ids with special ones."""
        before, after = self.edges
        subset = self.subset(indices)
        rows: list[Array] = []
        for sides, texts in zip(subset.sides, subset._texts(), strict=True):
            for (start, stop), text in zip(sides, texts, strict=True):
                parts = self.tokens.rows(np.arange(start, stop))
                text_ids = np.concatenate([part[before : len(part) - after] for part in parts])
                end = parts[0][len(parts[0]) - after :]
                rows.append(np.concatenate([parts[0][:before], text_ids[:text], end]))
        if not self.longest:
            return rows
        pairs = zip(rows[::2], rows[1::2], strict=True)
        return [np.concatenate([first, second[before:]]) for first, second in pairs]

    def subset(self, indices: Sequence[int] | Array) -> TokenPairs:
        """Return some of the pairs, in the order that is given."""
        return dataclasses.replace(self, sides=self.sides[indices])


def fitted(texts_P2: Array, room: int) -> Array:
    """Return the lengths [pairs, 2] of two texts cut to `room` together, the longer one first."""
    over = np.maximum(texts_P2.sum(1) - room, 0)
    total = texts_P2.sum(1) - over
    first = np.minimum(texts_P2[:, 0], np.maximum(total - texts_P2[:, 1], (total + 1) // 2))
    return np.stack([first, total - first], 1)


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
        bounds = _stretches(filled, limit - edges.before, 0, len(tokens))
        return cls(tokens, np.array(bounds, np.int64).reshape(-1, 2), edges.before)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.bounds)

    @property
    def lengths(self) -> Array:
        """Return the tokens in each block, special ones included ([blocks] int32)."""
        filled = _filled(self.tokens, self.before)
        return (np.diff(filled[self.bounds])[:, 0] + self.before).astype(np.int32)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Return blocks by index: token ids with special ones."""
        rows: list[Array] = []
        for start, stop in self.bounds[indices]:
            first, *following = self.tokens.rows(np.arange(start, stop))
            rows.append(np.concatenate([first, *(row[self.before :] for row in following)]))
        return rows

    def subset(self, indices: Array) -> Blocks:
        """Return some of the blocks, in the order that is given."""
        return dataclasses.replace(self, bounds=self.bounds[indices])
