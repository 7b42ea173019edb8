"""Training a few rows by AdamW on snippets of text, a killed one going on from where it was.

A snippet is a stretch of real text in which a piece occurs that the source writes in several
tokens. Text is cut by the source's tokenizer; a piece occurs where its tokens stand in a row.

Shape letters: N rows, D width.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from lingraft.corpus.readers.lines import batched
from lingraft.log import progress
from lingraft.pretrained import checksums
from lingraft.rundir import fingerprint, replacing
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.shards import special_ids_around
from lingraft.tokenizer.statistics import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft.recipe import TokenDistillation

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


CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True)
class Training:
    """Training of new rows; what a step sees is a function of the seed and its number."""

    what: str
    """For the progress bar."""
    settings: TokenDistillation
    seed: int
    file: Path | None
    """A checkpoint now and then; None keeps none."""

    def run(self, start_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> torch.Tensor:
        """Train the rows, and return them ([N, D], on the CPU) after all epochs.

        Args:
            start_ND: where they start.
            examples: what they are trained on.
            loss: of the rows and some examples.
        """
        settings, rows_ND = self.settings, torch.nn.Parameter(start_ND.clone())
        optimizer = torch.optim.AdamW([rows_ND], lr=settings.learning_rate, weight_decay=0.0)
        per_epoch = -(-len(examples) // settings.batch)
        total = settings.epochs * per_epoch
        mark = self.mark(start_ND, examples)
        done, saved = self.resumed(mark, rows_ND, optimizer), time.monotonic()
        order = np.zeros(0, np.int64)
        with progress(self.what, total, "steps") as ticker:
            ticker.start_at(done)
            for step in range(done, total):
                epoch, place = divmod(step, per_epoch)
                if not (place and len(order)):
                    order = np.random.default_rng([self.seed, epoch]).permutation(len(examples))
                batch = order[place * settings.batch : (place + 1) * settings.batch]
                value = loss(rows_ND, [examples[index] for index in batch])
                (rows_ND.grad,) = torch.autograd.grad(value, [rows_ND])
                optimizer.step()
                ticker.update(step + 1, f"loss {float(value.detach()):.4g}")
                if self.file and time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    self.save(mark, step + 1, rows_ND, optimizer)
                    saved = time.monotonic()
        if self.file:
            self.save(mark, total, rows_ND, optimizer)
        return rows_ND.detach().cpu()

    @torch.no_grad()
    def measure(self, rows_ND: torch.Tensor, examples: Sequence[Snippet], loss: Loss) -> float:
        """Return the mean loss of examples, each batch weighed by how many it has."""
        size, total = self.settings.batch, 0.0
        for start in range(0, len(examples), size):
            batch = examples[start : start + size]
            total += float(loss(rows_ND, batch)) * len(batch)
        return total / len(examples)

    def mark(self, start_ND: torch.Tensor, examples: Sequence[Snippet]) -> str:
        """Return a hash of what is trained, so that another training's checkpoint is not taken."""
        tokens = [int(pair.whole.sum()) for pair in examples]
        numbers = [float(start_ND.double().sum()), list(start_ND.shape)]
        return fingerprint(self.what, self.settings, self.seed, numbers, tokens)

    def save(
        self, mark: str, step: int, rows_ND: torch.Tensor, optimizer: torch.optim.Optimizer
    ) -> None:
        """Write a checkpoint, whole or not at all."""
        assert self.file is not None
        self.file.parent.mkdir(parents=True, exist_ok=True)
        state = {"mark": mark, "step": step, "rows": rows_ND.detach()}
        (self.file.parent / checksums.FILE).unlink(missing_ok=True)  # a kill may come between
        with replacing(self.file) as partial:
            torch.save(state | {"moments": optimizer.state_dict()}, partial)
        checksums.write(self.file.parent)

    def resumed(self, mark: str, rows_ND: torch.Tensor, optimizer: torch.optim.Optimizer) -> int:
        """Put a checkpoint of the same training back; the steps that are done."""
        if self.file is None or not self.file.is_file():
            return 0
        checksums.check(self.file.parent, f"delete {self.file.parent} to start its training again")
        state: dict[str, Any] = torch.load(self.file, map_location="cpu", weights_only=True)
        if state["mark"] != mark:
            return 0
        with torch.no_grad():
            rows_ND.copy_(state["rows"])
        optimizer.load_state_dict(state["moments"])
        return int(state["step"])
