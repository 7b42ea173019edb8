"""Causal language modelling: every token of a text predicted from those before it.

A unit's last token is only predicted, never read: of n tokens the model reads the first n - 1 and
predicts the last n - 1. Nothing is drawn; a unit gives the same at every epoch. What a unit is, and
that no token is predicted from another unit, is a matter of the data and of the packed rows.

Source: Bengio et al. 2003; as in GPT-2 (Radford et al. 2019), the loss is the mean over tokens.

Shape letters: T tokens of all units, S units, M predicted tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lingraft.training.objectives.common import (
    Array,
    Corrupted,
    Losses,
    LossSum,
    TokenIds,
    of_one_term,
)

if TYPE_CHECKING:
    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Masking

TERM = "clm"


def shifted(
    ids: Array, lengths: Array, _keys: Array, _vocabulary: TokenIds, _masking: Masking
) -> Corrupted:
    """Return each unit's inputs and the targets at each place; arguments as `mlm.corrupt`.

    Args:
        ids: [T] token ids of the units, one after the other; a unit of one token predicts nothing.
        lengths: [S] tokens in each.
    """
    text = ids.astype(np.int64)
    ends = np.cumsum(lengths)
    is_last, is_first = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    is_last[ends - 1] = True
    is_first[ends - lengths] = True
    inputs = text[~is_last]
    return Corrupted(inputs, np.arange(len(inputs)), text[~is_first], lengths - 1, lengths - 1)


def loss(packed: PackedModel, batch: PackedBatch) -> Losses:
    """Return the summed cross-entropy of all predicted tokens, without all their logits at once."""
    from lingraft.models.chunked import chunked_cross_entropy  # a table of objectives has no torch

    filled = batch.filled()
    nats = chunked_cross_entropy(packed, packed.predicted(filled), filled.targets_M)
    return {TERM: LossSum(nats, len(batch.targets_M))}


CLM = of_one_term(
    TERM,
    summary="causal language modelling: every token predicted from those before it",
    paper="Radford et al. 2019 (GPT-2)",
    corrupt=shifted,
    loss=loss,
    kind="causal",
    reads="documents",
)
