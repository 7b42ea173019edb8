"""Mining of translations from two texts by the ratio margin.

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

from lingraft.rundir import fingerprint
from lingraft.tasks.retrieval import pair_f1

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.crosslingual.search import Neighbours
    from lingraft.tasks.retrieval import Bitext
    from lingraft.tasks.sentences import Pair

    Array = np.ndarray[Any, Any]

NEIGHBOURS = 4
SMALLEST = 1e-6
"""What a margin's denominator is at least; cosines to all neighbours may be 0 or less."""


@dataclass(frozen=True)
class Side:
    """The sentences of one side; equal sentences are one."""

    ids: tuple[tuple[str, ...], ...]
    """By sentence: all ids that it has."""
    texts: tuple[str, ...]
    number_of_lines: int

    @classmethod
    def of(cls, sentences: Mapping[str, str]) -> Side:
        """The side of these sentences by id."""
        ids: dict[str, list[str]] = {}
        for name, text in sentences.items():
            ids.setdefault(text, []).append(name)
        return cls(tuple(map(tuple, ids.values())), tuple(ids), len(sentences))

    def repeated(self) -> set[int]:
        """Sentences that stand there more than once."""
        return {place for place, ids in enumerate(self.ids) if len(ids) > 1}

    def first_of(self) -> dict[str, str]:
        """For every id the first one of its sentence."""
        return {name: ids[0] for ids in self.ids for name in ids}


@dataclass(frozen=True)
class Texts:
    """Two texts, and the pairs in them where they are known."""

    source: Side
    target: Side
    gold: frozenset[Pair] | None

    @classmethod
    def of(cls, bitext: Bitext, *, by_id: bool = False) -> Texts:
        """Of two sides of sentences.

        Args:
            bitext: the sides.
            by_id: count every gold pair of ids, as XTREME does, also of equal sentences; else
                those of equal sentences are one.
        """
        source, target, gold = Side.of(bitext.source), Side.of(bitext.target), bitext.gold
        if gold is not None and not by_id:
            sources, targets = source.first_of(), target.first_of()
            gold = frozenset((sources[left], targets[right]) for left, right in gold)
        return cls(source, target, gold)

    def fingerprint(self) -> str:
        """Of the sentences and the pairs."""
        gold = None if self.gold is None else sorted(self.gold)
        return fingerprint(*((side.ids, side.texts) for side in (self.source, self.target)), gold)

    def said(self, mined: Mined) -> list[Pair]:
        """The ids of mined pairs; of equal sentences the first."""
        places = zip(mined.sources_P.tolist(), mined.targets_P.tolist(), strict=True)
        return [(self.source.ids[left][0], self.target.ids[right][0]) for left, right in places]


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
        count = int((self.margins_P >= np.float64(threshold)).sum())  # in fp64, as it was chosen
        return Mined(self.margins_P[:count], self.sources_P[:count], self.targets_P[:count])

    def without(self, sources: set[int], targets: set[int]) -> Mined:
        """Those that have none of these sentences."""
        mask = ~np.isin(self.sources_P, list(sources)) & ~np.isin(self.targets_P, list(targets))
        return Mined(self.margins_P[mask], self.sources_P[mask], self.targets_P[mask])


def mine(forward: Neighbours, backward: Neighbours) -> Mined:
    """One-to-one pairs by the ratio margin.

    Args:
        forward: [N, K] nearest of the source's sentences in the target, by cosine.
        backward: [M, K] of the target's in the source.
    """
    mean_N, mean_M = forward.scores_NK.mean(axis=1), backward.scores_NK.mean(axis=1)
    forward_NK = _margins(forward, mean_N, mean_M)
    backward_MK = _margins(backward, mean_M, mean_N)
    numbers_N, numbers_M = np.arange(len(mean_N)), np.arange(len(mean_M))
    best_N, best_M = forward_NK.argmax(axis=1), backward_MK.argmax(axis=1)
    sources = np.concatenate([numbers_N, backward.places_NK[numbers_M, best_M]])
    targets = np.concatenate([forward.places_NK[numbers_N, best_N], numbers_M])
    margins = np.concatenate([forward_NK.max(axis=1), backward_MK.max(axis=1)])
    used_N, used_M = np.zeros(len(mean_N), dtype=bool), np.zeros(len(mean_M), dtype=bool)
    indices = []
    for at in np.argsort(-margins, kind="stable").tolist():
        source, target = sources[at], targets[at]
        if not used_N[source] and not used_M[target]:
            used_N[source] = used_M[target] = True
            indices.append(at)
    return Mined(margins[indices], sources[indices], targets[indices])


def _margins(neighbours: Neighbours, own_N: Array, other_M: Array) -> Array:
    """[N, K] Of each neighbour: its cosine over the mean of both sides' nearest."""
    means_NK = (own_N[:, None] + other_M[neighbours.places_NK]) / 2
    return neighbours.scores_NK / np.maximum(means_NK, SMALLEST)


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


def score(mined: Mined, texts: Texts) -> Score | None:
    """How well mined pairs are those of the gold standard; None where there is none."""
    if texts.gold is None:
        return None
    pairs = texts.said(mined)
    hits = len(texts.gold.intersection(pairs))
    return Score(**pair_f1(texts.gold, pairs), found=hits, mined=len(mined), gold=len(texts.gold))


def best_threshold(mined: Mined, texts: Texts) -> float:
    """The threshold of the highest F1: half-way between the last pair it takes and the next.

    Where no gold pair was mined it is infinite: nothing is taken.
    """
    gold = texts.gold or frozenset()
    right_P = np.cumsum([pair in gold for pair in texts.said(mined)])
    if not len(right_P) or not right_P[-1]:
        return float("inf")
    ranks_P = np.arange(1, len(mined) + 1)
    f1_P = 2 * right_P / (ranks_P + len(gold))
    same_P = np.append(mined.margins_P[1:] == mined.margins_P[:-1], False)
    last = int(np.argmax(np.where(same_P, -1, f1_P)))  # equal margins go together
    after = min(last + 1, len(mined) - 1)
    return (float(mined.margins_P[last]) + float(mined.margins_P[after])) / 2


def as_table(mined: Mined, texts: Texts) -> str:
    """TSV: margin, ids and sentences; of equal sentences the first id."""
    lines = ["margin\tsource id\ttarget id\tsource\ttarget"]
    columns = (mined.margins_P, mined.sources_P, mined.targets_P)
    rows = zip(*(column.tolist() for column in columns), texts.said(mined), strict=True)
    for margin, left, right, ids in rows:
        sides = (texts.source.texts[left], texts.target.texts[right])
        lines.append("\t".join([f"{margin:.6f}", *ids, *(" ".join(t.split()) for t in sides)]))
    return "\n".join(lines) + "\n"
