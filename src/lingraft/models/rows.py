"""Rows that sentences or documents share. No torch here.

Sequences in batches of like lengths, padded on the right.

Shape letters: B sequences, T tokens of the longest.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


ROW_MULTIPLE = 32
WIDE_MULTIPLE = 128
"""Multiple for the width of rows that are a pass; attention looks at so many tokens at once."""


def pack(lengths_S: np.ndarray[Any, Any], row_tokens: int) -> tuple[list[list[int]], int]:
    """Put sentences into as few rows as best-fit-decreasing finds.

    Args:
        lengths_S: tokens in each sentence.
        row_tokens: tokens in a row; a longer sentence makes all rows longer, in steps of 32.

    Returns:
        Sentence indices by row, and the row's length.
    """
    longest = int(lengths_S.max())
    width = row_tokens if longest <= row_tokens else -(-longest // ROW_MULTIPLE) * ROW_MULTIPLE
    rows: list[list[int]] = []
    by_space: list[list[int]] = [[] for _ in range(width + 1)]
    for index in np.argsort(-lengths_S, kind="stable"):
        length = int(lengths_S[index])
        space = next((room for room in range(length, width + 1) if by_space[room]), None)
        if space is None:
            rows.append([])
            row, space = len(rows) - 1, width
        else:
            row = by_space[space].pop()
        rows[row].append(int(index))
        by_space[space - length].append(row)
    return rows, width


def pack_by_length(
    lengths_S: np.ndarray[Any, Any], row_tokens: int
) -> list[tuple[list[list[int]], int]]:
    """Pack as `pack`, but let a long document lengthen its own row only, in halves of the longest.

    Rows cost attention by their square. So rows stay as wide as the longest only where they hold
    something of more than half of it; short documents fill their gaps, and the rest goes into rows
    of half the width, down to `row_tokens`.

    Args:
        lengths_S: tokens in each document.
        row_tokens: tokens in the shortest rows.

    Returns:
        Document indices by row, and the rows' length, for each length of rows.
    """
    groups: list[tuple[list[list[int]], int]] = []
    left = np.arange(len(lengths_S))
    while len(left):
        rows, width = pack(lengths_S[left], row_tokens)
        next_width = max(row_tokens, -(-width // 2 // ROW_MULTIPLE) * ROW_MULTIPLE)
        stays = [next_width >= width or lengths_S[left[row]].max() > next_width for row in rows]
        wide_rows = [left[row].tolist() for row, stay in zip(rows, stays, strict=True) if stay]
        groups.append((wide_rows, width))
        down = [row for row, stay in zip(rows, stays, strict=True) if not stay]
        left = np.sort(left[np.concatenate(down)]) if down else left[:0]
    return groups


def even_width(
    lengths_S: np.ndarray[Any, Any], size: int, unit: str, at_once: int, processes: int = 1
) -> int:
    """Return the width of rows of which one is a pass: the same for all batches of a phase.

    As many rows as hold a batch without any being wider than `at_once` by more than a 64th, and
    each as wide as its share of the batch.

    Args:
        lengths_S: tokens in each sentence of the text.
        size: of a batch.
        unit: 'tokens' or 'sentences', which a batch has so many of.
        at_once: tokens in a pass.
        processes: that share a batch.
    """
    if unit == "tokens":  # the last sentence goes over
        most = size + float(np.quantile(lengths_S, 0.99))
    else:
        most = size * float(lengths_S.mean()) + 1.5 * float(lengths_S.std()) * size**0.5
    share = max(most / processes, float(lengths_S.max()))
    rows = max(1, -int(-share // (at_once * 65 // 64)))
    return -int(-(share / rows + ROW_MULTIPLE) // WIDE_MULTIPLE) * WIDE_MULTIPLE


def even_rows(lengths_S: np.ndarray[Any, Any], width: int) -> tuple[list[list[int]], int]:
    """Put sentences into as few rows of a width as hold them, the longest first, evenly.

    Where they do not fit by a little, rows are wider by an eighth.

    Args:
        lengths_S: tokens in each sentence.
        width: of `even_width`.

    Returns:
        Sentence indices by row, and the rows' length.
    """
    total, longest = int(lengths_S.sum()), int(lengths_S.max())
    wider = -(-width * 9 // 8 // WIDE_MULTIPLE) * WIDE_MULTIPLE
    number = max(1, round(total / width))
    order = np.argsort(-lengths_S, kind="stable").tolist()
    sizes: list[int] = lengths_S.tolist()
    while True:
        rows: list[list[int]] = [[] for _ in range(number)]
        loads = [(0, row) for row in range(number)]
        for index in order:
            load, row = loads[0]
            rows[row].append(index)
            heapq.heapreplace(loads, (load + sizes[index], row))
        most = max(loads)[0]
        if most <= wider or longest > wider:
            rows = [row for row in rows if row]
            return rows, next((room for room in (width, wider) if most <= room), most)
        number += 1


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
