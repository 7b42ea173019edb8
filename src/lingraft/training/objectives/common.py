"""Objective: a corruption of token ids, and a loss that returns sums by term.

Sums, not means: the training loop divides each term once by its own global number of predicted
tokens, so that accumulated micro-batches, ragged batches and several processes give the same
gradient, and no term weighs more because another one predicts less.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lingraft.errors import DataError
from lingraft.models.losses import summed_cross_entropy
from lingraft.tokenizer.frame import special_ids
from lingraft.tokenizer.state import sentinel_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedTokenizerBase

    from lingraft.models.families.record import KindName
    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Masking

Array = np.ndarray[Any, Any]
Reads = Literal["sentences", "documents", "pairs", "joined pairs"]


class LossSum(NamedTuple):
    """Term of a loss, in sums."""

    nats: torch.Tensor
    """Summed negative log-likelihood, a scalar."""
    positions: int
    """Number of tokens that were predicted."""


Losses = dict[str, LossSum]
"""By term; a training step minimises the sum of the terms' means."""


@dataclass(frozen=True)
class TokenIds:
    """Token ids that an objective must know of a vocabulary."""

    size: int
    mask: int | None
    """None in a causal model's vocabulary, which has no use for one."""
    pad: int
    """Fills rows; where a causal model's vocabulary has none, another special token does."""
    special: tuple[int, ...]
    """All special tokens; they are never predicted and never inserted."""
    sentinels: tuple[int, ...] = ()
    """T5's `<extra_id_0>`, `<extra_id_1>` …, which stand for spans; none in other vocabularies."""
    unk: int | None = None
    """Token that stands for text which the vocabulary lacks: special, but text."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, kind: KindName = "masked") -> TokenIds:
        """Return the ids of a tokenizer.

        Args:
            tokenizer: of a model.
            kind: of the model.

        Raises:
            DataError: it has no mask or padding token.
        """
        sentinels = sentinel_ids(tokenizer.get_vocab())
        mask = tokenizer.mask_token_id
        if mask is None and sentinels:
            mask = sentinels[0]
        pad = tokenizer.pad_token_id
        if kind == "causal" and pad is None:  # rows are filled with what no other token sees
            pad = tokenizer.eos_token_id or 0
        if kind != "causal" and (mask is None or pad is None):
            raise DataError("the tokenizer has no mask token or no padding token")
        special = tuple(sorted(special_ids(tokenizer)))
        return cls(len(tokenizer), mask, pad, special, sentinels, tokenizer.unk_token_id)

    @functools.cached_property
    def ordinary(self) -> Array:
        """Return all ids that are not special."""
        return np.setdiff1d(np.arange(self.size), self.special)


class Corrupted(NamedTuple):
    """Sentences with tokens to predict. All arrays are flat over the sentences' tokens."""

    ids: Array
    """[T] corrupted token ids."""
    masked: Array
    """[M] indices into `ids` of the tokens to predict, ascending."""
    targets: Array
    """[M] the tokens that stood there."""
    source_lengths: Array | None = None
    """[S] where corruption changes them; then `targets` is what a decoder writes, all of it."""
    target_lengths: Array | None = None
    """[S] likewise; `masked` are then places in `targets`."""

    def by_sentence(self, lengths: Array) -> tuple[list[Array], list[Array], list[Array]]:
        """Return ids, predicted places within the sentence (or its target) and targets of each.

        Args:
            lengths: [S] tokens in each sentence before it was corrupted.
        """
        if self.source_lengths is not None and self.target_lengths is not None:
            ids = np.split(self.ids, np.cumsum(self.source_lengths)[:-1])
            targets = np.split(self.targets, np.cumsum(self.target_lengths)[:-1])
            return ids, [np.arange(len(target)) for target in targets], targets
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(self.masked, ends[:-1])
        starts = ends - lengths
        masked = [
            part - start for part, start in zip(np.split(self.masked, cuts), starts, strict=True)
        ]
        return np.split(self.ids, ends[:-1]), masked, np.split(self.targets, cuts)


@dataclass(frozen=True)
class Objective:
    """Training objective."""

    name: str
    summary: str
    paper: str
    corrupt: Callable[[Array, Array, Array, TokenIds, Masking], Corrupted]
    """(ids [T], lengths [S], keys [S], vocabulary, masking) -> Corrupted; a function of a sentence
    and its key alone."""
    counts: Callable[[Corrupted, Array], dict[str, int]]
    """(corrupted, lengths [S]) -> predicted tokens by term, known before the forward pass."""
    loss: Callable[[PackedModel, PackedBatch], Losses]
    """(packed model, batch) -> term -> LossSum."""
    kind: KindName = "masked"
    """Kind of model that the objective trains: a key of `kinds.KINDS`."""
    reads: Reads = "sentences"
    """Its units: sentences; pieces of documents; pairs, whose two sides are two sentences one
    behind the other; or pairs that are one sentence."""

    @property
    def sides(self) -> int:
        """Return the number of sentences in a unit."""
        return 2 if self.reads == "pairs" else 1


def of_one_term(name: str, **fields: Any) -> Objective:
    """Build an objective of one term, called as itself; it may have a loss of its own."""
    of_term: dict[str, Any] = {
        "counts": functools.partial(_counts, name),
        "loss": functools.partial(_cross_entropy, name),
    }
    return Objective(name=name, **of_term | fields)


def _counts(term: str, corrupted: Corrupted, _: Array) -> dict[str, int]:
    """Count every target for the one term."""
    return {term: len(corrupted.targets)}


def _cross_entropy(term: str, packed: PackedModel, batch: PackedBatch) -> Losses:
    """Return the summed cross-entropy of the targets, softmax in fp32.

    The head sees the places of the targets alone, and those that fill up the batch.
    """
    filled = batch.filled()
    nats = summed_cross_entropy(packed.logits(filled), filled.targets_M)
    return {term: LossSum(nats, len(batch.targets_M))}
