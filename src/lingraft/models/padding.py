"""Sequences in batches of like lengths, padded on the right.

Shape letters: B sequences, T tokens of the longest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.utils.rnn import pad_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield places of sequences in batches, the longest first; of equal lengths the earlier.

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
    """Pad token ids to a batch, and mark where tokens are.

    Args:
        sequences: token ids, one sequence or more.
        pad_id: fills the rest of a row.

    Returns:
        Ids [B, T], and a mask [B, T] that is True at tokens.
    """
    rows = [torch.as_tensor(sequence, dtype=torch.long) for sequence in sequences]
    ids_BT = pad_sequence(rows, batch_first=True, padding_value=pad_id)
    lengths_B1 = torch.tensor([[len(row)] for row in rows])
    return ids_BT, torch.arange(ids_BT.shape[1]) < lengths_B1
