"""Several streams in one phase: which one each sentence of a batch comes from, and the batches.

A stream is drawn with replacement, for every sentence or for a whole batch; within a stream every
sentence comes once before one comes again, as in a phase of one stream. What a step sees is a
function of (seed, phase, step) alone: so a resumed run, and any number of processes, see the same.

Sentences have one index over all streams: those of the first come first.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.streams import shares
from lingraft.training.data import BatchPlan, Hidden, Position, Step, lay_out, number_of
from lingraft.training.objectives.distillation import TERM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lingraft.recipe import Batch, Mixture
    from lingraft.training.data import Batcher, Reading

Array = np.ndarray[Any, Any]

DRAWS, ORDER = number_of("streams of a step"), number_of("order of a stream")
"""Keep the two kinds of random numbers apart: numpy takes a seed with a zero behind it for the
same."""


def probabilities(readings: Sequence[Reading], mixture: Mixture) -> Array:
    """Return the chance [readings] of each to be drawn: by their weights, else by N^alpha.

    A reading with a share of the tokens is drawn so often that it has it on average, however long
    its units are; the others divide the rest of the tokens, drawn among each other as above.
    Where batches alternate these are shares of the steps: each kind of batch has half.
    """
    free = np.array([reading.share is None for reading in readings])
    weights = [reading.weight for reading in readings if reading.weight is not None]
    chances = np.zeros(len(readings))
    if weights:
        assert len(weights) == free.sum(), "some readings have no weight"
        chances[free] = shares(weights, 1.0)
    else:
        sizes = [reading.size for reading in readings if reading.share is None]
        chances[free] = shares(sizes, mixture.alpha)
    if not free.all():
        means = np.array([float(reading.train.lengths.mean()) for reading in readings])
        of_tokens = np.array([reading.share or 0.0 for reading in readings])
        chances *= (1.0 - of_tokens.sum()) / (chances @ means)
        chances[~free] = of_tokens[~free] / means[~free]
        chances /= chances.sum()
    if mixture.draw == "alternate":
        bilingual = np.array([reading.bilingual for reading in readings])
        for kind in (bilingual, ~bilingual):
            chances[kind] *= 0.5 / chances[kind].sum()
    return chances


class MixturePlan:
    """The sentences of each batch of a phase that reads several streams."""

    def __init__(
        self,
        lengths: Sequence[Array],
        probabilities: Array,
        batch: Batch,
        seed: int,
        phase: str,
        *,
        bilingual: Sequence[bool] | None = None,
        bilingual_batch: int | None = None,
    ) -> None:
        """Set the plan up; nothing is drawn yet.

        Args:
            lengths: of each stream [sentences], tokens in each; no stream is empty.
            probabilities: [streams] of a draw; they add up to 1.
            batch: sentences or tokens a step.
            seed: of the run.
            phase: its name.
            bilingual: of each stream, whether it holds translations; then its batches come in turn
                with those of the others, which come first. None lets all share a batch.
            bilingual_batch: size of such a batch where it is not that of the others.
        """
        self.lengths, self.seed, self.phase = list(lengths), seed, number_of(phase)
        self.sizes = np.array([len(stream) for stream in lengths], dtype=np.int64)
        self.offsets = np.cumsum(self.sizes) - self.sizes
        self.means = np.array([float(stream.mean()) for stream in lengths])
        self.orders: dict[int, tuple[int, Array]] = {}
        self.kinds = [np.asarray(probabilities)]
        """[kinds of batch] [streams] how likely each stream is to be drawn in it."""
        if bilingual is not None:
            is_pair = np.array(bilingual)
            assert 0 < is_pair.sum() < len(is_pair), "only one kind of stream, nothing alternates"
            parts = (np.where(kind, probabilities, 0.0) for kind in (~is_pair, is_pair))
            self.kinds = [part / part.sum() for part in parts]
        # Of a batch in tokens so many sentences as hold them on average: its end cannot depend on
        # lengths, or a resumed run would have to read those of all the batches before.
        totals = [batch.size, bilingual_batch or batch.size][: len(self.kinds)]
        costs = [1.0 if batch.unit == "sentences" else kind @ self.means for kind in self.kinds]
        self.draws = [max(1, round(size / cost)) for size, cost in zip(totals, costs, strict=True)]
        """[kinds of batch] sentences in it."""

    @property
    def expected(self) -> Array:
        """Return the share [streams] of all draws."""
        if len(self.kinds) == 1:
            return self.kinds[0]
        draws = np.array(self.draws)
        return draws @ np.stack(self.kinds) / draws.sum()

    def streams(self, step: int) -> Array:
        """Draw the stream [draws] of each of a step's sentences."""
        generator = np.random.default_rng([self.seed, self.phase, DRAWS, step])
        kind = step % len(self.kinds)
        edges = np.cumsum(self.kinds[kind])[:-1]
        return np.searchsorted(edges, generator.random(self.draws[kind]), side="right")

    def drawn(self, steps: int) -> Array:
        """Count how often each stream was drawn in the first steps, [streams]."""
        counts = np.zeros(len(self.sizes), np.int64)
        for step in range(steps):
            counts += np.bincount(self.streams(step), minlength=len(self.sizes))
        return counts

    def tokens(self, draws: Array) -> Array:
        """Count real tokens in the first so many draws of each stream, [streams]."""
        totals = np.zeros(len(self.sizes), np.int64)
        for stream, lengths in enumerate(self.lengths):
            passes, rest = divmod(int(draws[stream]), int(self.sizes[stream]))
            last = self._order(stream, passes)[:rest]
            totals[stream] = passes * int(lengths.sum()) + int(lengths[last].sum())
        return totals

    def _indices(self, streams: Array, counts: Array) -> Array:
        """Return the sentences [n], by the index over all streams.

        Args:
            streams: [n] the stream of each.
            counts: [streams] how often each was drawn before.
        """
        places = np.empty(len(streams), np.int64)  # of how many draws of its stream it comes after
        for stream in np.unique(streams):
            here = streams == stream
            places[here] = counts[stream] + np.arange(int(here.sum()))
        indices = np.empty(len(streams), np.int64)
        passes, within = np.divmod(places, self.sizes[streams])
        for stream, epoch in sorted({*zip(streams.tolist(), passes.tolist(), strict=True)}):
            here = (streams == stream) & (passes == epoch)
            indices[here] = self.offsets[stream] + self._order(stream, epoch)[within[here]]
        return indices

    def _order(self, stream: int, epoch: int) -> Array:
        """Return the order of a stream's sentences in one pass; keep the last one asked for."""
        entry = self.orders.get(stream)
        if entry is None or entry[0] != epoch:
            numbers = [self.seed, self.phase, ORDER, stream, epoch]
            generator = np.random.default_rng(numbers)
            entry = self.orders[stream] = (epoch, generator.permutation(self.sizes[stream]))
        return entry[1]

    def steps_per_epoch(self) -> float:
        """Return the number of batches in as many draws as the streams have sentences."""
        return float(np.ceil(self.sizes.sum() / (sum(self.draws) / len(self.draws))))

    def tokens_per_epoch(self) -> float:
        """Return the expected tokens of as many draws as the streams have sentences."""
        return float(self.sizes.sum()) * float(self.expected @ self.means)

    def after(self, position: Position) -> Iterator[tuple[Position, Array]]:
        """Yield all batches from `position` on, without end, each with the position behind it.

        A position's epoch is the step: a sentence that comes again at another step has new masks.
        """
        counts = np.zeros(len(self.sizes), np.int64)
        for step in itertools.count():
            streams = self.streams(step)
            if step >= position.epoch:
                yield Position(step + 1), self._indices(streams, counts)
            counts += np.bincount(streams, minlength=len(self.sizes))


Plan = BatchPlan | MixturePlan


@dataclass(frozen=True)
class MixtureBatcher:
    """Maker of micro-batches from indices over all streams; what has one objective shares rows."""

    batchers: Sequence[Batcher]
    """Batchers, one a stream; they differ in text, objective and masking."""
    distilled: int | None = None
    """The one whose sentences are also read whole, for the term of a teacher."""
    also: Sequence[Sequence[Batcher]] = ()
    """Batchers of the same units under more objectives, for each batcher; none where nobody has."""

    def step(self, indices: Array, epoch: int, rank: int = 0, num_ranks: int = 1) -> Step:
        """Return the micro-batches of one process; arguments as `Batcher.step`."""
        ends = np.cumsum([len(batcher.tokens) for batcher in self.batchers])
        owners = np.searchsorted(ends, indices, side="right")
        by_objective: dict[str, list[Hidden]] = defaultdict(list)
        more: dict[str, list[Hidden]] = defaultdict(list)
        for number, batcher in enumerate(self.batchers):
            own = indices[owners == number]
            if len(own):
                start = ends[number] - len(batcher.tokens)
                by_objective[batcher.objective.name].append(batcher.hide(own - start, epoch))
                if number == self.distilled:
                    more[TERM].append(batcher.whole(own - start, TERM))
                for extra in self.also[number] if self.also else ():
                    more[extra.objective.name].append(extra.hide(own - start, epoch))

        def laid(hidden: list[Hidden]) -> tuple[int, Step]:
            step = lay_out(Hidden.together(hidden), self.batchers[0], rank, num_ranks)
            return hidden[0].sides, step

        again = [  # the same draws, which would count twice
            (sides, replace(step, global_tokens=0, global_sentences=0))
            for sides, step in map(laid, more.values())
        ]
        # Pairs last: the last batch of a step must reach all parameters (DDP), and sentences do
        # not reach cross-attention; a teacher's batches, which come first, not the head.
        steps = sorted([*again, *map(laid, by_objective.values())], key=itemgetter(0))
        return Step.together([step for _, step in steps])
