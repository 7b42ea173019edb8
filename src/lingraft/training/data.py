"""From token shards to packed batches. What a step sees is a function of (seed, phase, step) alone.

Every process draws the same global batch, and takes its own share of the sentences, balanced by
tokens; masks depend on the sentence, never on the share. So accumulation, several processes and a
resumed run see the same text.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.models.rows import even_rows, even_width, pack, pack_by_length
from lingraft.models.stacks import LAYOUTS
from lingraft.tokenizer.documents import Documents
from lingraft.tokenizer.pairs import Blocks
from lingraft.training.objectives.distillation import TERM
from lingraft.training.objectives.mlm import sentence_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lingraft.models.families.record import KindName
    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Batch, Masking
    from lingraft.tokenizer.pairs import TokenPairs
    from lingraft.tokenizer.shards import Tokens
    from lingraft.training.objectives.common import Objective, TokenIds

Array = np.ndarray[Any, Any]
Text = TypeVar("Text", "Tokens", "TokenPairs")


def number_of(text: str) -> int:
    """Return a fixed number for a name, to derive seeds from."""
    return zlib.crc32(text.encode())


@dataclass(frozen=True)
class Position:
    """Place of a run in the data: the next batch to draw."""

    epoch: int = 0
    index: int = 0


def subset(tokens: Text, sentences: int, seed: int) -> Text:
    """Return some sentences of a text, in order; each larger set contains every smaller one.

    Which ones is a function of a sentence's index and of `seed` alone.

    Args:
        tokens: the text.
        sentences: how many.
        seed: the corpus' own, never the run's, so that runs with several seeds share the text.

    Raises:
        DataError: there are fewer.
    """
    check_enough(tokens, sentences)
    keys = sentence_keys(np.arange(len(tokens)), seed, number_of("sentences of a phase"))
    return tokens.subset(np.sort(np.argsort(keys, kind="stable")[:sentences]))


def check_enough(tokens: Text, sentences: int) -> None:
    """Refuse a number of sentences that a text does not have.

    Raises:
        DataError: there are fewer.
    """
    if sentences > len(tokens):
        raise DataError(
            f"phases: {sentences:,} sentences or pairs were asked for, but the training text has "
            f"{len(tokens):,}; lower training.max_train_sentences, or give more text"
        )


@dataclass(frozen=True)
class Reading:
    """Stream that a phase reads under an objective."""

    stream: str
    """Its name; empty for the one stream of the short form."""
    train: Tokens | Blocks | Documents | TokenPairs
    valid: Tokens | Documents | TokenPairs
    objective: str
    """A key of `objectives.OBJECTIVES`."""
    masking: Masking
    weight: float | None = None
    """Share of the draws, relative to the others'; None goes by size."""
    also: tuple[Reading, ...] = ()
    """The same units under more objectives."""
    bilingual: bool = False
    """Whether its units are translations."""
    share: float | None = None
    """Share of the tokens; None has none of its own."""
    soft: bool = False
    """Whether the labels are the source's probabilities."""

    @property
    def size(self) -> int:
        """Return the number of training sentences, documents or pairs, in blocks or not."""
        return len(self.train.tokens if isinstance(self.train, Blocks | Documents) else self.train)

    @property
    def label(self) -> str:
        """Return the name for metrics."""
        return f"{self.stream}/{self.objective}"


class BatchPlan:
    """The order of the sentences, and where each batch ends."""

    def __init__(self, lengths: Array, batch: Batch, seed: int, phase: str) -> None:
        self.lengths, self.batch = lengths, batch
        self.seed, self.phase = seed, number_of(phase)

    def epoch(self, epoch: int) -> list[Array]:
        """Return the sentence indices of each batch of one pass; the last batch may be smaller."""
        order = np.random.default_rng([self.seed, self.phase, epoch]).permutation(len(self.lengths))
        if self.batch.unit == "sentences":
            return np.split(order, range(self.batch.size, len(order), self.batch.size))
        filled = np.cumsum(self.lengths[order], dtype=np.int64)
        cuts, goal = [], self.batch.size
        while (cut := int(np.searchsorted(filled, goal)) + 1) < len(order):
            cuts.append(cut)
            goal = int(filled[cut - 1]) + self.batch.size
        return np.split(order, cuts)

    def steps_per_epoch(self) -> float:
        """Return the number of batches in one pass (for batches in tokens: nearly)."""
        if self.batch.unit == "sentences":
            return float(-(-len(self.lengths) // self.batch.size))
        return max(
            1.0, float(self.lengths.sum()) / (self.batch.size + float(self.lengths.mean()) / 2)
        )

    def tokens_per_epoch(self) -> float:
        """Return the tokens of one pass."""
        return float(self.lengths.sum())

    def after(self, position: Position) -> Iterator[tuple[Position, Array]]:
        """Yield all batches from `position` on, without end, each with the position behind it."""
        while True:
            batches = self.epoch(position.epoch)
            for index in range(position.index, len(batches)):
                last = index + 1 == len(batches)
                following = Position(position.epoch + last, 0 if last else index + 1)
                yield following, batches[index]
            position = Position(position.epoch + 1)


@dataclass(frozen=True)
class Step:
    """Share that one process has of an optimizer step."""

    micro_batches: list[PackedBatch]
    weights: list[float]
    """1 for a micro-batch that counts; 0 for the stand-in of a process without sentences."""
    targets: dict[str, int]
    """Predicted tokens of all processes together, by term: what the term's sum is divided by."""
    global_tokens: int
    global_sentences: int

    @property
    def global_targets(self) -> int:
        """Return predicted tokens of all terms; a teacher's is of sentences, and predicts none."""
        return sum(count for term, count in self.targets.items() if term != TERM)

    @classmethod
    def together(cls, steps: Sequence[Step]) -> Step:
        """Join several steps into one; terms of the same name are one term."""
        terms = dict.fromkeys(term for step in steps for term in step.targets)
        return cls(
            [batch for step in steps for batch in step.micro_batches],
            [weight for step in steps for weight in step.weights],
            {term: sum(step.targets.get(term, 0) for step in steps) for term in terms},
            sum(step.global_tokens for step in steps),
            sum(step.global_sentences for step in steps),
        )


@dataclass(frozen=True)
class Hidden:
    """Sentences of a global batch with tokens to predict, for one objective."""

    objective: str
    lengths: Array
    """[S] tokens in each that are read."""
    ids: list[Array]
    """Corrupted, by sentence."""
    masked: list[Array]
    """Places of the hidden tokens, by sentence."""
    targets: list[Array]
    """Tokens that stood at those places, by sentence."""
    counts: dict[str, int]
    """Predicted tokens by term."""
    sides: int = 1
    """So many sentences, one behind the other, share a row and a process: 2 for pairs."""
    kind: KindName = "masked"
    """Kind of the models that read the sentences."""

    @property
    def room(self) -> Array:
        """Return the room [S] that each takes in a row: of two stacks the longer of both sides."""
        if self.kind == "masked":
            return self.lengths
        sizes = (map(len, self.ids), map(len, self.targets))
        return np.maximum(*(np.fromiter(side, np.int64) for side in sizes))

    @classmethod
    def together(cls, parts: Sequence[Hidden]) -> Hidden:
        """Join sentences of several streams, under the same objective."""
        if len(parts) == 1:
            return parts[0]
        terms = dict.fromkeys(term for part in parts for term in part.counts)
        return cls(
            parts[0].objective,
            np.concatenate([part.lengths for part in parts]),
            [ids for part in parts for ids in part.ids],
            [masked for part in parts for masked in part.masked],
            [targets for part in parts for targets in part.targets],
            {term: sum(part.counts.get(term, 0) for part in parts) for term in terms},
            parts[0].sides,
            parts[0].kind,
        )


@dataclass(frozen=True)
class Batcher:
    """Maker of packed, corrupted micro-batches from sentence indices."""

    tokens: Tokens | Blocks | Documents | TokenPairs
    objective: Objective
    vocabulary: TokenIds
    masking: Masking
    row_tokens: int
    micro_batch_tokens: int
    seed: int
    phase: str
    """Named in the masks' seeds; with several streams the stream too."""
    even: int | None = None
    """Tokens of a pass that is one row (a GPU's), from `rows.even_width`; None for short rows."""

    def step(self, indices: Array, epoch: int, rank: int = 0, num_ranks: int = 1) -> Step:
        """Return the micro-batches of one process.

        Args:
            indices: the sentences of the global batch.
            epoch: pass over the data; each has its own masks.
            rank: this process.
            num_ranks: how many there are.
        """
        return lay_out(self.hide(indices, epoch), self, rank, num_ranks)

    def hide(self, indices: Array, epoch: int) -> Hidden:
        """Draw the tokens to predict; arguments as `step`."""
        sides = self.objective.sides
        numbers = (indices[:, None] * sides + np.arange(sides)).ravel()  # of the sentences
        keys = sentence_keys(numbers, self.seed, number_of(self.phase), epoch)
        sentences = self.tokens.rows(indices)
        lengths = np.array([len(sentence) for sentence in sentences])
        corrupted = self.objective.corrupt(
            np.concatenate(sentences), lengths, keys, self.vocabulary, self.masking
        )
        return Hidden(
            self.objective.name,
            lengths - 1 if self.objective.kind == "causal" else lengths,
            *corrupted.by_sentence(lengths),
            self.objective.counts(corrupted, lengths),
            sides,
            self.objective.kind,
        )

    def whole(self, indices: Array, term: str) -> Hidden:
        """Return sentences with nothing hidden, for a term that counts sentences."""
        sentences = [sentence.astype(np.int64) for sentence in self.tokens.rows(indices)]
        nothing = [np.zeros(0, np.int64)] * len(sentences)
        lengths = np.array([len(sentence) for sentence in sentences])
        return Hidden(term, lengths, sentences, nothing, nothing, {term: len(sentences)})


def row_of_pass(
    packed: PackedModel | None, at_once: int, lengths: Array, size: int, unit: str
) -> int | None:
    """Return the width of rows that are a pass each; None where a model wants short rows.

    Args:
        packed: the model.
        at_once: tokens of a pass at most.
        lengths: tokens in each sentence of the text.
        size: of a batch.
        unit: that a batch has so many of.
    """
    if packed is None or not packed.by_segments:
        return None
    distributed = torch.distributed
    processes = distributed.get_world_size() if distributed.is_initialized() else 1
    return even_width(lengths, size, unit, at_once, processes)


def lay_out(hidden: Hidden, sizes: Batcher, rank: int, num_ranks: int) -> Step:
    """Pack one process' share of a global batch into rows; a process without a share runs one.

    Args:
        hidden: the sentences of all processes.
        sizes: of rows and micro-batches, and the padding.
        rank: this process.
        num_ranks: how many there are.
    """
    sides = hidden.sides
    lengths = hidden.lengths.reshape(-1, sides).sum(1)  # of what shares a row
    mine = share(lengths, rank, num_ranks)
    weight = 1.0 if len(mine) else 0.0
    mine = mine if len(mine) else np.array([0])
    room = hidden.room.reshape(-1, sides).sum(1)[mine]
    if sizes.even is not None:
        groups = [even_rows(room, sizes.even)]
    elif hidden.kind == "causal":
        groups = pack_by_length(room, sizes.row_tokens)
    else:
        groups = [pack(room, sizes.row_tokens)]
    mine = (mine[:, None] * sides + np.arange(sides)).ravel()
    parts = (hidden.ids, hidden.masked, hidden.targets)
    ids, masked, targets = ([part[i] for i in mine] for part in parts)
    pad = sizes.vocabulary.pad
    micro = []
    for units, width in groups:
        rows = [[sides * unit + side for unit in row for side in range(sides)] for row in units]
        per_micro = 1 if sizes.even else max(1, sizes.micro_batch_tokens // width)
        for start in range(0, len(rows), per_micro):
            at_once = rows[start : start + per_micro]
            batch = LAYOUTS[hidden.kind](
                ids, masked, targets, at_once, width, pad, hidden.objective
            )
            micro.append(batch.rounded(width // 8, pad) if sizes.even else batch)
    number, tokens = len(lengths), int(lengths.sum())
    return Step(micro, [weight] * len(micro), hidden.counts, tokens, number)


def share(lengths: Array, rank: int, num_ranks: int) -> Array:
    """Return one process's sentences: longest first to the process with the fewest tokens."""
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
