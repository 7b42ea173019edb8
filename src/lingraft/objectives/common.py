"""What every objective is: a corruption of token ids, and a loss that returns sums by term.

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

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from transformers import PreTrainedTokenizerBase

    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Masking

Array = np.ndarray[Any, Any]
Reads = Literal["sentences", "pairs", "joined pairs"]


class LossSum(NamedTuple):
    """One term of a loss in sums."""

    nats: torch.Tensor
    """Summed negative log-likelihood, a scalar."""
    positions: int
    """How many tokens were predicted."""


Losses = dict[str, LossSum]
"""By term; a training step minimises the sum of the terms' means."""


@dataclass(frozen=True)
class TokenIds:
    """What an objective must know of a vocabulary."""

    size: int
    mask: int
    pad: int
    special: tuple[int, ...]
    """All special tokens; they are never predicted and never inserted."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> TokenIds:
        """The ids of a tokenizer.

        Raises:
            DataError: it has no mask or padding token.
        """
        if tokenizer.mask_token_id is None or tokenizer.pad_token_id is None:
            raise DataError(
                "the tokenizer has no mask token or no padding token, "
                "so it does not fit a masked language model"
            )
        return cls(
            len(tokenizer),
            tokenizer.mask_token_id,
            tokenizer.pad_token_id,
            tuple(sorted(set(tokenizer.all_special_ids))),
        )

    @functools.cached_property
    def ordinary(self) -> Array:
        """All other ids."""
        return np.setdiff1d(np.arange(self.size), self.special)


class Corrupted(NamedTuple):
    """Sentences with tokens to predict. All arrays are flat over the sentences' tokens."""

    ids: Array
    """[T] corrupted token ids."""
    masked: Array
    """[M] indices into `ids` of the tokens to predict, ascending."""
    targets: Array
    """[M] the tokens that stood there."""


@dataclass(frozen=True)
class Objective:
    """One training objective."""

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
    reads: Reads = "sentences"
    """Its units: sentences; pairs, whose two sides are two sentences one behind the other; or pairs
    that are one sentence."""

    @property
    def sides(self) -> int:
        """Sentences of a unit."""
        return 2 if self.reads == "pairs" else 1
