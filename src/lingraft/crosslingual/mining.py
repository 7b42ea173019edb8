"""Mining of translations from two texts by the ratio margin (SPEC C.5).

Artetxe and Schwenk (2019), "Margin-based parallel corpus mining": the cosine of two sentences over
the mean of the cosines to the k nearest of both. The best of each sentence in either direction are
candidates; from the highest margin down, each sentence is taken once. BUCC (Zweigenbaum et al.
2017) asks for those above a threshold, which is chosen on other texts.

Shape letters: N sentences of one side, M of the other, K neighbours, P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.readers.lines import EMPTY
from lingraft.crosslingual.bitext import lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.crosslingual.search import Neighbours

    Array = np.ndarray[Any, Any]

NEIGHBOURS = 4
SMALLEST = 1e-6
"""What a margin's denominator is at least; cosines to all neighbours may be 0 or less."""


@dataclass(frozen=True)
class Side:
    """The sentences of one side; equal sentences are one."""

    name: str
    ids: tuple[tuple[str, ...], ...]
    """By sentence: all ids that it has."""
    texts: tuple[str, ...]
    place_of: dict[str, int]
    """By id: where its sentence stands."""

    @property
    def number_of_lines(self) -> int:
        return len(self.place_of)

    def repeated(self) -> set[int]:
        """Sentences that stand there more than once."""
        return {place for place, ids in enumerate(self.ids) if len(ids) > 1}


def read_side(path: Path) -> Side:
    """One side: `id TAB sentence` a line as in BUCC, or a sentence a line, numbered from 1.

    Raises:
        DataError: the file is broken or empty, mixes both forms, or has an id twice.
    """
    cells = [line.split("\t") for line in lines(path)]
    tabs = {len(one) for one in cells}
    if not cells:
        raise DataError(f"{path}: is {EMPTY}; give a sentence a line, or id TAB sentence")
    if tabs == {1}:
        cells = [[str(number), one[0]] for number, one in enumerate(cells, 1)]
    elif tabs != {2}:
        number = next(n for n, one in enumerate(cells, 1) if len(one) != 2)
        raise DataError(
            f"{path}: line {number:,} has {len(cells[number - 1])} columns, others 2; write "
            "id TAB sentence on every line, or sentences alone"
        )
    places: dict[str, int] = {}
    place_of: dict[str, int] = {}
    ids: list[list[str]] = []
    for number, (name, text) in enumerate(cells, 1):
        if not text.strip():
            raise DataError(f"{path}: line {number:,}: the sentence is empty; take it out")
        if name in place_of:
            raise DataError(f"{path}: line {number:,}: the id '{name}' stands there twice")
        place = places.setdefault(text, len(places))
        if place == len(ids):
            ids.append([])
        ids[place].append(name)
        place_of[name] = place
    return Side(str(path), tuple(map(tuple, ids)), tuple(places), place_of)


@dataclass(frozen=True)
class Gold:
    """The pairs that are to be found."""

    places: frozenset[tuple[int, int]]
    """Of distinct sentences: pairs of equal sentences are one."""
    total: int
    """What recall is a share of."""


def read_gold(path: Path, source: Side, target: Side, *, by_id: bool = False) -> Gold:
    """The pairs that are to be found, `source id TAB target id` a line.

    Args:
        path: the file.
        source: the side that the first column names sentences of.
        target: of the second column.
        by_id: count every pair of ids for the recall, as XTREME does, also of equal sentences.

    Raises:
        DataError: the file is broken, or names a sentence that is not there.
    """
    gold, places = set(), set()
    for number, line in enumerate(lines(path), 1):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(
                f"{path}: line {number:,} has {len(cells)} column{'s'[: len(cells) != 1]}; write "
                "source id TAB target id"
            )
        for name, side in zip(cells, (source, target), strict=True):
            if name not in side.place_of:
                raise DataError(
                    f"{path}: line {number:,}: the id '{name}' is not in {side.name}; the gold "
                    "pairs belong to other files, or their columns are the other way round"
                )
        gold.add((cells[0], cells[1]))
        places.add((source.place_of[cells[0]], target.place_of[cells[1]]))
    if not gold:
        raise DataError(f"{path}: holds no pairs")
    return Gold(frozenset(places), len(gold) if by_id else len(places))


@dataclass(frozen=True)
class Mined:
    """Pairs of sentences, the highest margin first; places among the distinct sentences."""

    margins_P: Array
    sources_P: Array
    targets_P: Array

    def __len__(self) -> int:
        return len(self.margins_P)

    def above(self, threshold: float) -> Mined:
        """Those whose margin is as high or higher."""
        count = int((self.margins_P >= threshold).sum())
        return Mined(self.margins_P[:count], self.sources_P[:count], self.targets_P[:count])

    def without(self, sources: set[int], targets: set[int]) -> Mined:
        """Those that have none of these sentences."""
        kept = ~np.isin(self.sources_P, list(sources)) & ~np.isin(self.targets_P, list(targets))
        return Mined(self.margins_P[kept], self.sources_P[kept], self.targets_P[kept])


def mine(forward: Neighbours, backward: Neighbours) -> Mined:
    """One-to-one pairs by the ratio margin.

    Args:
        forward: [N, K] nearest of the source's sentences in the target, by cosine.
        backward: [M, K] of the target's in the source.
    """
    mean_N, mean_M = forward.scores_NK.mean(axis=1), backward.scores_NK.mean(axis=1)
    there_NK = _margins(forward, mean_N, mean_M)
    back_MK = _margins(backward, mean_M, mean_N)
    numbers_N, numbers_M = np.arange(len(mean_N)), np.arange(len(mean_M))
    best_N, best_M = there_NK.argmax(axis=1), back_MK.argmax(axis=1)
    sources = np.concatenate([numbers_N, backward.places_NK[numbers_M, best_M]])
    targets = np.concatenate([forward.places_NK[numbers_N, best_N], numbers_M])
    margins = np.concatenate([there_NK.max(axis=1), back_MK.max(axis=1)])
    taken_N, taken_M = np.zeros(len(mean_N), dtype=bool), np.zeros(len(mean_M), dtype=bool)
    kept = []
    for at in np.argsort(-margins, kind="stable").tolist():
        source, target = sources[at], targets[at]
        if not taken_N[source] and not taken_M[target]:
            taken_N[source] = taken_M[target] = True
            kept.append(at)
    return Mined(margins[kept], sources[kept], targets[kept])


def _margins(found: Neighbours, own_N: Array, others_M: Array) -> Array:
    """[N, K] Of each neighbour: its cosine over the mean of both sides' nearest."""
    means_NK = (own_N[:, None] + others_M[found.places_NK]) / 2
    margins_NK: Array = found.scores_NK / np.maximum(means_NK, SMALLEST)
    return margins_NK


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 of mined pairs, in percent."""

    precision: float
    recall: float
    f1: float
    found: int
    """Gold pairs among the mined."""
    mined: int
    gold: int


def score(mined: Mined, gold: Gold) -> Score:
    """How well mined pairs are those of the gold standard."""
    pairs = zip(mined.sources_P.tolist(), mined.targets_P.tolist(), strict=True)
    found = sum(pair in gold.places for pair in pairs)
    precision = found / len(mined) if len(mined) else 0.0
    recall = found / gold.total
    f1 = 2 * precision * recall / (precision + recall) if found else 0.0
    return Score(100 * precision, 100 * recall, 100 * f1, found, len(mined), gold.total)


def best_threshold(mined: Mined, gold: Gold) -> float:
    """The threshold of the highest F1: half-way between the last pair it takes and the next.

    Where no gold pair was mined it is infinite: nothing is taken.
    """
    pairs = zip(mined.sources_P.tolist(), mined.targets_P.tolist(), strict=True)
    right_P = np.cumsum([pair in gold.places for pair in pairs])
    if not len(right_P) or not right_P[-1]:
        return float("inf")
    ranks_P = np.arange(1, len(mined) + 1)
    f1_P = 2 * right_P / (ranks_P + gold.total)
    same_P = np.append(mined.margins_P[1:] == mined.margins_P[:-1], False)
    last = int(np.argmax(np.where(same_P, -1, f1_P)))  # equal margins go together
    after = min(last + 1, len(mined) - 1)
    return float((mined.margins_P[last] + mined.margins_P[after]) / 2)


def as_table(mined: Mined, source: Side, target: Side) -> str:
    """TSV: margin, ids and sentences; of equal sentences the first id."""
    lines = ["margin\tsource id\ttarget id\tsource\ttarget"]
    triples: Sequence[tuple[float, int, int]] = list(
        zip(
            mined.margins_P.tolist(),
            mined.sources_P.tolist(),
            mined.targets_P.tolist(),
            strict=True,
        )
    )
    for margin, left, right in triples:
        ids = (source.ids[left][0], target.ids[right][0])
        texts = (source.texts[left], target.texts[right])
        lines.append("\t".join([f"{margin:.6f}", *ids, *(" ".join(t.split()) for t in texts)]))
    return "\n".join(lines) + "\n"
