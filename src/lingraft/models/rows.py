"""Which sentences or documents share a row. No torch here."""

from __future__ import annotations

from typing import Any

import numpy as np

ROW_MULTIPLE = 32


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
    """Like `pack`, but a long document makes only its own row longer, in halves of the longest.

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
