"""The two streams of VECO over packed rows of pairs (Luo et al. 2021, eq. 2-9).

A pair is two neighbouring segments of a row, 1 and 2, 3 and 4 and so on. Its states H are those of
the encoder, each side by itself; its states S are those of the encoder with cross-attention plugged
in, whose keys and values in every layer are the last H of the other side of the pair, and of
nothing else in the row.

Shape letters: N rows, T tokens in a row, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import UnsupportedModelError
from lingraft.models.cross_attention import MASK, MEMORY
from lingraft.models.packed import assemble, number_format
from lingraft.models.segments import Segments, codes

if TYPE_CHECKING:
    from lingraft.models.packed import PackedBatch, PackedModel

TOLERANCE = 1e-2
"""Tolerance of `packed.check_isolation`."""


def partners(segments_NT: torch.Tensor) -> torch.Tensor:
    """Return the other segment [N, T] of each token's pair; padding is its own partner."""
    return torch.where(segments_NT > 0, ((segments_NT - 1) ^ 1) + 1, segments_NT)


def plugged_in(packed: PackedModel, batch: PackedBatch, memory_NTD: torch.Tensor) -> torch.Tensor:
    """Return the states S [N, T, D], of tokens that see their pair's other side alone.

    Args:
        packed: a model with cross-attention.
        batch: rows of pairs.
        memory_NTD: the states H of the same rows; detach them to stop their gradient.
    """
    segments_NT = batch.segments_NT
    if packed.by_segments:
        most = batch.bounds.segments + 3
        mask: Any = Segments(codes(partners(segments_NT), most), codes(segments_NT, most))
    else:
        allowed = partners(segments_NT)[:, None, :, None] == segments_NT[:, None, None, :]
        dtype = number_format(segments_NT.device.type, packed.model.dtype)
        mask = packed.additive(allowed, dtype)
    return packed.hidden(batch, **{MEMORY: memory_NTD, MASK: mask})


@torch.no_grad()
def check_pairs(packed: PackedModel, pad_id: int) -> float:
    """Compare pairs that share a row with each alone, and a pair with another partner, in fp32.

    Returns:
        The largest absolute difference of S between shared rows and rows of one pair, relative to
        the spread of S.

    Raises:
        UnsupportedModelError: pairs in one row see each other, or a side does not see its partner.
    """
    model, training = packed.model, packed.model.training
    model.eval()
    generator = np.random.default_rng(0)
    size = model.config.vocab_size
    lengths = (5, 8, 4, 6, 7, 3)
    sides = [generator.integers(0, size, length) for length in lengths]
    sides = [np.where(side == pad_id, (pad_id + 1) % size, side) for side in sides]
    with torch.autocast(model.device.type, enabled=False):
        together = _states(packed, sides, [[0, 1, 2, 3, 4, 5]], pad_id)
        alone = _states(packed, sides, [[0, 1], [2, 3], [4, 5]], pad_id)
        swapped = _states(packed, sides, [[0, 3], [2, 1], [4, 5]], pad_id)
    model.train(training)
    spread = torch.cat(list(alone.values())).std().clamp_min(1e-6)
    difference = max(float((together[i] - alone[i]).abs().max() / spread) for i in alone)
    if not difference <= TOLERANCE or torch.equal(alone[0], swapped[0]):  # NaN too
        raise UnsupportedModelError(
            f"pairs in one row of this {packed.family.model_type} model see each other (relative "
            f"difference {difference:.2g}), or no partner; training on them would be wrong"
        )
    return difference


def _states(
    packed: PackedModel, sides: list[np.ndarray], rows: list[list[int]], pad_id: int
) -> dict[int, torch.Tensor]:
    """Return S of each side by its index."""
    nothing = [np.zeros(0, np.int64)] * len(sides)
    width = max(sum(len(sides[index]) for index in row) for row in rows) + 2
    batch = assemble(sides, nothing, nothing, rows, width, pad_id).to(packed.model.device)
    states_NTD = plugged_in(packed, batch, packed.hidden(batch))
    return {
        index: states_NTD[number][batch.segments_NT[number] == segment]
        for number, row in enumerate(rows)
        for segment, index in enumerate(row, 1)
    }
