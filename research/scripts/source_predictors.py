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


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None where one side is constant."""
    correlation = float(_correlations(np.array([x]), np.array([y]))[0])
    return None if np.isnan(correlation) else correlation


def _correlations(x_RN: Array, y_RN: Array) -> Array:
    """[R] Spearman's correlation of each row; nan where one side is constant."""
    x_ranks, y_ranks = (rankdata(side, axis=1) for side in (x_RN, y_RN))
    x_ranks, y_ranks = (side - side.mean(1, keepdims=True) for side in (x_ranks, y_ranks))
    norm_R = np.sqrt((x_ranks**2).sum(1) * (y_ranks**2).sum(1))
    correlations_R: Array = np.full(len(norm_R), np.nan)
    np.divide((x_ranks * y_ranks).sum(1), norm_R, out=correlations_R, where=norm_R > 0)
    return correlations_R


def _means(values_RT: Array) -> Array:
    """The mean of each row over what is a number; rows without one are left out."""
    valid_RT = ~np.isnan(values_RT)
    counts_R = valid_RT.sum(1)
    filled_R = counts_R > 0
    means: Array = np.where(valid_RT, values_RT, 0.0).sum(1)[filled_R] / counts_R[filled_R]
    return means


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
    correlations = [value for value in by_target.values() if value is not None]
    cells = sum(len(scores) for _, scores in pairs.values())
    if not correlations:
        return Held(None, None, None, None, by_target, _regret(pairs), len(pairs), cells)
    generator = np.random.default_rng(seed)
    sides = [(np.array(goodness), np.array(scores)) for goodness, scores in pairs.values()]
    low, high = interval(_drawn(sides, generator, resamples))
    mean = float(np.mean(correlations))
    as_high = int((_permuted(sides, generator, resamples) >= mean - 1e-12).sum())
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
            goodness = [sign * predictor[target][source] for source in common]
            pairs[target] = (goodness, [-scores[source] for source in common])
    return pairs


def _drawn(
    sides: Sequence[tuple[Array, Array]], generator: np.random.Generator, resamples: int
) -> Array:
    """[≤ R] The mean correlation of targets and sources drawn with replacement."""
    targets = len(sides)
    picked_RT = generator.integers(targets, size=(resamples, targets))
    values_RT = np.full(picked_RT.shape, np.nan)
    for place in range(targets):
        for target, (goodness, scores) in enumerate(sides):
            at_RN = generator.integers(len(goodness), size=(resamples, len(goodness)))
            mask_R = picked_RT[:, place] == target
            correlations_R = _correlations(goodness[at_RN], scores[at_RN])
            values_RT[mask_R, place] = correlations_R[mask_R]
    return _means(values_RT)


def _permuted(
    sides: Sequence[tuple[Array, Array]], generator: np.random.Generator, resamples: int
) -> Array:
    """[≤ R] The mean correlation when the predictor says nothing of which source is which."""
    columns = []
    for goodness, scores in sides:
        shuffled_RN = generator.permuted(np.tile(goodness, (resamples, 1)), axis=1)
        columns.append(_correlations(shuffled_RN, np.tile(scores, (resamples, 1))))
    return _means(np.stack(columns, 1))


def _regret(pairs: Mapping[str, tuple[list[float], list[float]]]) -> float | None:
    losses = []
    for values, scores in pairs.values():
        first = [score for value, score in zip(values, scores, strict=True) if value == max(values)]
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
    for target, signs in probe.items():
        for (first, second), sign in signs.items():
            pairs += 1
            if sign:
                apart += 1
                same += (final[target][first] - final[target][second]) * sign > 0
    return Agreement(apart, same, pairs)
