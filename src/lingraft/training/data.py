"""From token shards to packed batches. What a step sees is a function of (seed, phase, step) alone.

Every process draws the same global batch, and takes its own share of the sentences, balanced by
tokens; masks depend on the sentence, never on the share. So accumulation, several processes and a
resumed run see the same text.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.models.packed import PackedBatch, assemble, pack
from lingraft.objectives.mlm import sentence_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.objectives.common import Objective, TokenIds
    from lingraft.recipe import Batch, Masking
    from lingraft.tokenizer.shards import Tokens

Array = np.ndarray[Any, Any]


def number_of(text: str) -> int:
    """A fixed number for a name, to derive seeds from."""
    return zlib.crc32(text.encode())


@dataclass(frozen=True)
class Position:
    """Where in the data a run is: the next batch to draw."""

    epoch: int = 0
    index: int = 0


def subset(tokens: Tokens, sentences: int, seed: int) -> Tokens:
    """Some sentences of a text, in its order; a smaller set is contained in every larger one.

    Which ones is a function of a sentence's index and of `seed` alone.

    Args:
        tokens: the text.
        sentences: how many.
        seed: the corpus' own, never the run's, so that runs with several seeds share the text.

    Raises:
        DataError: there are fewer.
    """
    if sentences > len(tokens):
        raise DataError(
            f"phases: {sentences:,} sentences were asked for, but the training text has "
            f"{len(tokens):,}; lower phases.…sentences (method.sentences), or give more text"
        )
    keys = sentence_keys(np.arange(len(tokens)), seed, number_of("sentences of a phase"))
    return tokens.subset(np.sort(np.argsort(keys, kind="stable")[:sentences]))


class BatchPlan:
    """The order of the sentences, and where each batch ends."""

    def __init__(self, lengths: Array, batch: Batch, seed: int, phase: str) -> None:
        self.lengths, self.batch = lengths, batch
        self.seed, self.phase = seed, number_of(phase)

    def epoch(self, epoch: int) -> list[Array]:
        """The sentence indices of each batch of one pass; the last batch may be smaller."""
        order = np.random.default_rng([self.seed, self.phase, epoch]).permutation(len(self.lengths))
        if self.batch.unit == "sentences":
            return np.split(order, range(self.batch.size, len(order), self.batch.size))
        filled = np.cumsum(self.lengths[order], dtype=np.int64)
        cuts, goal = [], self.batch.size
        while goal < filled[-1]:
            cut = int(np.searchsorted(filled, goal)) + 1
            if cut >= len(order):
                break
            cuts.append(cut)
            goal = int(filled[cut - 1]) + self.batch.size
        return np.split(order, cuts)

    def steps_per_epoch(self) -> float:
        """Batches in one pass (for batches in tokens: nearly)."""
        if self.batch.unit == "sentences":
            return float(-(-len(self.lengths) // self.batch.size))
        return max(
            1.0, float(self.lengths.sum()) / (self.batch.size + float(self.lengths.mean()) / 2)
        )

    def after(self, position: Position) -> Iterator[tuple[Position, Array]]:
        """All batches from `position` on, without end, each with the position behind it."""
        epoch, index = position.epoch, position.index
        while True:
            batches = self.epoch(epoch)
            while index < len(batches):
                following = (
                    Position(epoch, index + 1)
                    if index + 1 < len(batches)
                    else Position(epoch + 1, 0)
                )
                yield following, batches[index]
                index += 1
            epoch, index = epoch + 1, 0


@dataclass(frozen=True)
class Step:
    """One optimiser step's share of this process."""

    micro_batches: list[PackedBatch]
    weights: list[float]
    """1 for a micro-batch that counts; 0 for the stand-in of a process without sentences."""
    global_targets: int
    """Predicted tokens of all processes together: what the summed loss is divided by."""
    global_tokens: int
    global_sentences: int


@dataclass(frozen=True)
class Batcher:
    """Turns sentence indices into packed, corrupted micro-batches."""

    tokens: Tokens
    objective: Objective
    vocabulary: TokenIds
    masking: Masking
    row_tokens: int
    micro_batch_tokens: int
    seed: int
    phase: str

    def step(self, indices: Array, epoch: int, rank: int = 0, num_ranks: int = 1) -> Step:
        """The micro-batches of one process.

        Args:
            indices: the sentences of the global batch.
            epoch: pass over the data; each has its own masks.
            rank: this process.
            num_ranks: how many there are.
        """
        keys = sentence_keys(indices, self.seed, number_of(self.phase), epoch)
        sentences = self.tokens.rows(indices)
        lengths = np.array([len(sentence) for sentence in sentences])
        corrupted = self.objective.corrupt(
            np.concatenate(sentences), lengths, keys, self.vocabulary, self.masking
        )
        ends = np.cumsum(lengths)
        ids = np.split(corrupted.ids, ends[:-1])
        cuts = np.searchsorted(corrupted.masked, ends[:-1])
        masked = [
            part - start
            for part, start in zip(np.split(corrupted.masked, cuts), ends - lengths, strict=True)
        ]
        targets = np.split(corrupted.targets, cuts)
        mine = share(lengths, rank, num_ranks)
        weight = 1.0 if len(mine) else 0.0
        mine = mine if len(mine) else np.array([0])
        rows, width = pack(lengths[mine], self.row_tokens)
        per_micro = max(1, self.micro_batch_tokens // width)
        micro = [
            assemble(
                [ids[i] for i in mine],
                [masked[i] for i in mine],
                [targets[i] for i in mine],
                rows[start : start + per_micro],
                width,
                self.vocabulary.pad,
            )
            for start in range(0, len(rows), per_micro)
        ]
        return Step(
            micro, [weight] * len(micro), len(corrupted.targets), int(lengths.sum()), len(indices)
        )


def share(lengths: Array, rank: int, num_ranks: int) -> Array:
    """The sentences of one process: longest first to the process with the fewest tokens."""
    if num_ranks == 1:
        return np.arange(len(lengths))
    loads = [0] * num_ranks
    mine = []
    for index in np.argsort(-lengths, kind="stable"):
        lightest = min(range(num_ranks), key=loads.__getitem__)
        loads[lightest] += int(lengths[index])
        if lightest == rank:
            mine.append(int(index))
    return np.array(sorted(mine), dtype=np.int64)
