"""Cross-attention masked language modelling on pairs (CA-MLM; Luo et al. 2021, eq. 1).

Both sides of a pair are masked, each by itself. The hidden tokens of each side are predicted twice:
from its own context (states H, cross-attention unplugged), and from its own and the partner's
(states S, cross-attention plugged in). The partner's H are a constant in the second: no gradient
flows through them. One language-model head for all.

Four terms, each divided by its own number of tokens: `x_alone`, `y_alone`, `x_given_y`,
`y_given_x`. How far the last two lie below the first two is what the partner tells.

Where nothing but the cross-attention trains (the first stage), H has no gradient to give: it is
computed without one, and the first two terms are left out.

Differs from the paper: it says neither how the terms are divided nor what share of the hidden
tokens is replaced how; both are as in `mlm`.

Shape letters: N rows, T tokens in a row, D width, M predicted tokens, S sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lingraft.models.losses import cross_entropies
from lingraft.training.objectives.common import Array, Corrupted, Losses, LossSum, Objective
from lingraft.training.objectives.mlm import corrupt

if TYPE_CHECKING:
    import torch

    from lingraft.models.packed import PackedBatch, PackedModel

NAME = "ca_mlm"
ALONE = ("x_alone", "y_alone")
GIVEN = ("x_given_y", "y_given_x")


def _by_side(corrupted: Corrupted, lengths: Array) -> tuple[int, int]:
    """Count predicted tokens of all first and of all second sides."""
    ends = np.cumsum(lengths)
    sides = np.searchsorted(ends, corrupted.masked, side="right") % 2
    second = int(sides.sum())
    return len(sides) - second, second


def counts(corrupted: Corrupted, lengths: Array) -> dict[str, int]:
    """Count predicted tokens by term: every hidden token is predicted twice."""
    return dict(zip((*ALONE, *GIVEN), _by_side(corrupted, lengths) * 2, strict=True))


def _counts_plugged(corrupted: Corrupted, lengths: Array) -> dict[str, int]:
    return dict(zip(GIVEN, _by_side(corrupted, lengths), strict=True))


def _terms(
    names: tuple[str, str], packed: PackedModel, states_NTD: torch.Tensor, batch: PackedBatch
) -> Losses:
    """Return the terms of both sides, of one kind of states."""
    filled = batch.filled()
    nats_M = cross_entropies(packed.predictions(states_NTD, filled), filled.targets_M)
    is_second_M = batch.segments_NT.flatten()[filled.masked_M] % 2 == 0
    number, second = len(batch.targets_M), int(is_second_M[: len(batch.targets_M)].sum())
    return {
        names[0]: LossSum(nats_M[~is_second_M].sum(), number - second),
        names[1]: LossSum(nats_M[is_second_M].sum(), second),
    }


def loss(packed: PackedModel, batch: PackedBatch) -> Losses:
    """Return the summed cross-entropy of the masked tokens from H and from S."""
    from lingraft.models.cross_attention import plugged_in

    states_NTD = packed.hidden(batch)
    plugged_NTD = plugged_in(packed, batch, states_NTD.detach())
    return _terms(ALONE, packed, states_NTD, batch) | _terms(GIVEN, packed, plugged_NTD, batch)


def _loss_plugged(packed: PackedModel, batch: PackedBatch) -> Losses:
    """Return the loss from S alone, H without gradient."""
    import torch

    from lingraft.models.cross_attention import plugged_in

    with torch.no_grad():
        states_NTD = packed.hidden(batch)
    return _terms(GIVEN, packed, plugged_in(packed, batch, states_NTD), batch)


CA_MLM = Objective(
    name=NAME,
    summary="masked words of pairs, from their own side and with cross-attention from both",
    paper="VECO (Luo et al. 2021), §2.1",
    corrupt=corrupt,
    counts=counts,
    loss=loss,
    reads="pairs",
)
PLUGGED = replace(CA_MLM, counts=_counts_plugged, loss=_loss_plugged)
"""Objective where nothing but cross-attention trains."""
