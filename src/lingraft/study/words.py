"""Bits per character of a study's models, over the words that all of them score (SPEC E.3).

A model drops words with an unknown token, so models with other vocabularies may score other words.
Rows tell of each word; those of an older lingraft do not, and where their words differ tables say
so beside the number.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lingraft.evaluation.records import Array, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.evaluation.records import Blocks
    from lingraft.study.results import Cell
    from lingraft.study.rows import MetricRow

WordSet = tuple[int, tuple[float, ...]]
"""How many words, and their characters by block."""


def on_common(cells: Sequence[Cell], metric: str) -> list[Cell]:
    """Cells with their bits per character over the words that every cell scores.

    Args:
        cells: of a study.
        metric: what bits per character are called.
    """
    rows = iter(_on_common([cell.metrics[metric] for cell in cells if metric in cell.metrics]))
    return [
        replace(cell, metrics={**cell.metrics, metric: next(rows)})
        if metric in cell.metrics
        else cell
        for cell in cells
    ]


def _on_common(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Rows of bits per character, over the words that every row scores.

    They stay as they are where a row does not tell of its words, where the models were asked for
    other words, and where no word or every word is common.
    """
    words_of_rows = [row.words for row in rows if row.words]
    if len(words_of_rows) < max(len(rows), 2) or len({len(words) for words in words_of_rows}) > 1:
        return list(rows)
    scores_RW2 = np.array(words_of_rows)
    characters_RW = scores_RW2[..., 1]
    scored_RW = characters_RW > 0
    same = bool(((characters_RW == characters_RW.max(0)) | ~scored_RW).all())
    common_W: Array = np.asarray(scored_RW.all(0))
    if not same or not common_W.any() or bool((scored_RW == common_W).all()):
        return list(rows)
    return [
        row.model_copy(
            update={
                "value": float(scores_W2[:, 0].sum() / scores_W2[:, 1].sum()),
                "n": int(common_W.sum()),
                "blocks": _finite(blocks(*scores_W2.T)),
            }
        )
        for row, scores_W2 in zip(rows, scores_RW2 * common_W[:, None], strict=True)
    ]


def _finite(sums: Blocks) -> tuple[tuple[float, ...], ...] | None:
    """Blocks as a row has them: none where one is not finite."""
    return tuple(map(tuple, sums)) if np.isfinite(sums).all() else None


def word_sets(rows: Iterable[MetricRow]) -> frozenset[WordSet]:
    """Which words rows of bits per character are over, as well as they tell.

    A row that is not finite tells nothing: its blocks are not kept.
    """
    return frozenset(
        (row.n, tuple(count for _, count in row.blocks or ()))
        for row in rows
        if math.isfinite(row.value)
    )
