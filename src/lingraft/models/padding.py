"""Sequences in batches of like lengths, padded on the right.

Shape letters: B sequences, T tokens of the longest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Places of sequences in batches, the longest first; of equal lengths the earlier.

    Args:
        lengths: in tokens.
        tokens: of a batch, padding included; a longer sequence has a batch to itself.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        count = max(1, tokens // max(1, lengths[order[start]]))
        yield order[start : start + count]
        start += count


def padded(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of a batch, and where tokens are.

    Args:
        sequences: token ids, one sequence or more.
        pad_id: fills the rest of a row.

    Returns:
        Ids [B, T], and a mask [B, T] that is True at tokens.
    """
    width = max(map(len, sequences))
    ids_BT = torch.full((len(sequences), width), pad_id)
    mask_BT = torch.zeros(ids_BT.shape, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids_BT[row, : len(sequence)] = torch.tensor(sequence)
        mask_BT[row, : len(sequence)] = True
    return ids_BT, mask_BT
