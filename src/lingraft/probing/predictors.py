"""Does a fact, or a short probe, foretell which source is best? Rank correlations in a grid.

A grid has final scores by target and source. Sources are compared within a target only, since
bits per character of two languages do not compare: Spearman's correlation is taken in each target
and averaged over the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from lingraft.stats import RESAMPLES, interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = np.ndarray[Any, Any]
Scores = dict[str, dict[str, float]]
"""By target and source."""


@dataclass(frozen=True)
class Held:
    """How well a predictor holds."""

    correlation: float | None
    """Mean over the targets of Spearman's, positive where the predictor points to good sources;
    None where it is the same for all sources of every target."""
    low: float | None
    """Bounds of the 95 % interval: targets are drawn again, and sources within a target."""
    high: float | None
    p: float | None
    """One-sided, of permutations of the predictor among the sources of each target."""
    by_target: dict[str, float | None]
    regret: float | None
    """How many bits per character the source that it puts first is worse than the best one, mean
    over the targets; of sources that it puts first together, the mean."""
    targets: int
    cells: int


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None where one side is constant."""
    ranks, others = rankdata(one), rankdata(other)
    ranks, others = ranks - ranks.mean(), others - others.mean()
    norm = float(np.sqrt((ranks**2).sum() * (others**2).sum()))
    return float((ranks * others).sum()) / norm if norm else None


def held(
    predictor: Scores, final: Scores, *, higher: bool, resamples: int = RESAMPLES, seed: int = 0
) -> Held:
    """How well a predictor foretells the final scores, of which lower is better.

    Args:
        predictor: its values; cells that it lacks are left out.
        final: bits per character.
        higher: whether a high value is thought to be good.
        resamples: draws of the bootstrap, and permutations.
        seed: of both.
    """
    pairs = _paired(predictor, final, higher=higher)
    by_target = {target: spearman(goodness, scores) for target, (goodness, scores) in pairs.items()}
    known = [value for value in by_target.values() if value is not None]
    cells = sum(len(scores) for _, scores in pairs.values())
    if not known:
        return Held(None, None, None, None, by_target, _regret(pairs), len(pairs), cells)
    generator = np.random.default_rng(seed)
    drawn = [_drawn(list(pairs.values()), generator) for _ in range(resamples)]
    low, high = interval(np.array([value for value in drawn if value is not None]))
    mean = float(np.mean(known))
    permuted = [_permuted(list(pairs.values()), generator) for _ in range(resamples)]
    as_high = sum(value >= mean - 1e-12 for value in permuted)
    p = (as_high + 1) / (resamples + 1)
    return Held(mean, low, high, p, by_target, _regret(pairs), len(pairs), cells)


def _paired(
    predictor: Scores, final: Scores, *, higher: bool
) -> dict[str, tuple[list[float], list[float]]]:
    """By target: how good the predictor says each source is, and how good it is (minus bits)."""
    sign = 1 if higher else -1
    pairs = {}
    for target, scores in final.items():
        common = [source for source in scores if source in predictor.get(target, {})]
        if len(common) > 1:
            told = [sign * predictor[target][source] for source in common]
            pairs[target] = (told, [-scores[source] for source in common])
    return pairs


def _mean_correlation(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    found = [value for one, other in pairs if (value := spearman(one, other)) is not None]
    return float(np.mean(found)) if found else None


def _drawn(
    pairs: Sequence[tuple[list[float], list[float]]], generator: np.random.Generator
) -> float | None:
    """The mean correlation of targets and sources drawn with replacement."""
    chosen = []
    for at in generator.integers(len(pairs), size=len(pairs)):
        told, scores = (np.array(side) for side in pairs[at])
        picked = generator.integers(len(told), size=len(told))
        chosen.append((told[picked].tolist(), scores[picked].tolist()))
    return _mean_correlation(chosen)


def _permuted(
    pairs: Sequence[tuple[list[float], list[float]]], generator: np.random.Generator
) -> float:
    """The mean correlation when the predictor says nothing of which source is which."""
    shuffled = [(generator.permutation(told).tolist(), scores) for told, scores in pairs]
    return _mean_correlation(shuffled) or 0.0


def _regret(pairs: Mapping[str, tuple[list[float], list[float]]]) -> float | None:
    losses = []
    for told, scores in pairs.values():
        first = [score for value, score in zip(told, scores, strict=True) if value == max(told)]
        losses.append(max(scores) - float(np.mean(first)))
    return float(np.mean(losses)) if losses else None


@dataclass(frozen=True)
class Agreement:
    """Pairs of sources that a probe told apart, and whether they ended in the same order."""

    apart: int
    same: int
    pairs: int


def agreement(probe: Mapping[str, Mapping[tuple[str, str], int]], final: Scores) -> Agreement:
    """Whether what a probe told apart stayed so.

    Args:
        probe: by target and pair of sources: −1 where the first is better (its interval lies below
            0), 1 where the second is, 0 where the probe does not tell.
        final: bits per character.
    """
    apart = same = pairs = 0
    for target, found in probe.items():
        for (one, other), sign in found.items():
            pairs += 1
            if sign:
                apart += 1
                same += (final[target][one] - final[target][other]) * sign > 0
    return Agreement(apart, same, pairs)
