"""Train a few rows by AdamW on snippets of text.

A snippet is a stretch of real text in which a piece occurs that the source writes in several
tokens. Text is cut by the source's tokenizer; a piece occurs where its tokens stand in a row.

Shape letters: N rows, D width.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lingraft.corpus.readers.lines import batched
from lingraft.log import progress
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.shards import special_ids_around
from lingraft.tokenizer.statistics import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from transformers import PreTrainedTokenizerFast

    Loss = Callable[[torch.Tensor, Sequence["Snippet"]], torch.Tensor]


Array = np.ndarray[Any, Any]
Pattern = tuple[int, ...]


class Snippet(NamedTuple):
    """A snippet with its piece split, and as one token."""

    split: Array
    """The source's token ids."""
    kept: Array
    """Places in `split` that have a counterpart in `whole`: of a split piece its last token."""
    whole: Array
    """The same with every occurrence of the piece as one token."""


def find_snippets(
    patterns: Mapping[Pattern, int],
    sentences: Iterable[str],
    tokenizer: PreTrainedTokenizerFast,
    *,
    most: int,
    tokens: int,
) -> dict[int, list[Array]]:
    """Find the first snippets of each piece, at most one a sentence.

    Args:
        patterns: a piece's source tokens, and its number.
        sentences: text; it is read until every piece has enough.
        tokenizer: the source's.
        most: snippets a piece.
        tokens: source tokens a snippet, those included that stand around every text.

    Returns:
        By number, token ids of the snippets, as if each were a text. Pieces that do not occur are
        left out.
    """
    backend = plain_backend(tokenizer)
    before, after = special_ids_around(backend)
    room = tokens - len(before) - len(after)
    lengths: dict[int, list[int]] = defaultdict(list)
    for pattern in patterns:
        if len(pattern) not in lengths[pattern[0]] and len(pattern) <= room:
            lengths[pattern[0]].append(len(pattern))
    snippets: dict[int, list[Array]] = defaultdict(list)
    lacking = len(patterns)
    with progress("token distillation: finding snippets", None, "sentences") as ticker:
        for chunk in batched(sentences, CHUNK):
            for row in backend.encode_batch_fast(chunk, add_special_tokens=False):
                for number, start, length in _occurrences(row.ids, patterns, lengths):
                    if len(snippets[number]) < most:
                        text = _window(row.ids, start, length, room)
                        snippets[number].append(np.array([*before, *text, *after], np.int32))
                        lacking -= len(snippets[number]) == most
            ticker.advance(len(chunk))
            if not lacking:
                break
    return {number: snippets[number] for number in sorted(snippets)}


def _occurrences(
    ids: Sequence[int], patterns: Mapping[Pattern, int], lengths: Mapping[int, Sequence[int]]
) -> list[tuple[int, int, int]]:
    """Return the first place of each piece in a sentence: its number, start and length."""
    places: dict[int, tuple[int, int, int]] = {}
    for start, first in enumerate(ids):
        for length in lengths.get(first, ()):
            number = patterns.get(tuple(ids[start : start + length]))
            if number is not None:
                places.setdefault(number, (number, start, length))
    return list(places.values())


def _window(ids: Sequence[int], start: int, length: int, room: int) -> Sequence[int]:
    """Return at most `room` tokens with a piece in the middle, as far as the sentence goes."""
    free = room - length
    after = min(len(ids) - start - length, max(free - start, free // 2))
    begin = max(0, start - (free - after))
    return ids[begin : start + length + after]


def pair(ids: Array, pattern: Pattern, new_id: int) -> Snippet:
    """Return a snippet in both forms.

    Args:
        ids: as `find_snippets` gives them.
        pattern: the piece's source tokens.
        new_id: its id in the whole form.
    """
    text, whole, ends, place = ids.tolist(), list[int](), list[int](), 0
    while place < len(text):
        is_piece = tuple(text[place : place + len(pattern)]) == pattern
        whole.append(new_id if is_piece else text[place])
        place += len(pattern) if is_piece else 1
        ends.append(place - 1)
    return Snippet(ids.astype(np.int64), np.array(ends, np.int64), np.array(whole, np.int64))


@dataclass(frozen=True)
class RowTraining:
    """Training of new rows by AdamW; a step sees a function of the seed and its number."""

    what: str
    """Name in the progress bar."""
    seed: int
    learning_rate: float
    """Constant, without weight decay."""
    batch: int
    """Snippets that a step sees."""

    def run(self, start_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> torch.Tensor:
        """Train the rows on each example once, and return them ([N, D], on the CPU).

        Args:
            start_ND: where they start.
            examples: what they are trained on.
            loss: of the rows and some examples.
        """
        rows_ND = torch.nn.Parameter(start_ND.clone())
        optimizer = torch.optim.AdamW([rows_ND], lr=self.learning_rate, weight_decay=0.0)
        order = np.random.default_rng([self.seed, 0]).permutation(len(examples))
        starts = range(0, len(examples), self.batch)
        with progress(self.what, len(starts), "steps") as ticker:
            for step, start in enumerate(starts, 1):
                batch = [examples[index] for index in order[start : start + self.batch]]
                value = loss(rows_ND, batch)
                (rows_ND.grad,) = torch.autograd.grad(value, [rows_ND])
                optimizer.step()
                ticker.update(step, f"loss {float(value.detach()):.4g}")
        return rows_ND.detach().cpu()

    @torch.no_grad()
    def measure(self, rows_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> float:
        """Return the mean loss of examples, each batch weighed by how many it has."""
        starts = range(0, len(examples), self.batch)
        batches = [examples[start : start + self.batch] for start in starts]
        return sum(float(loss(rows_ND, some)) * len(some) for some in batches) / len(examples)
