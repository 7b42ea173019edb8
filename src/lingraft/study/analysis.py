"""Differences between methods, with intervals from a paired bootstrap.

Two things make a difference uncertain: which text it was tested on, and the seed. Both are
resampled: blocks of the test text, which all models share, and seeds. The same blocks are drawn for
both models (Koehn 2004, "Statistical significance tests for machine translation evaluation", with
blocks for sentences). Few seeds make the interval too narrow (three seeds give a standard deviation
low by a factor of 0.8 on average) and p too small: a paired t-test over the seeds stands beside it.
With a single seed both tell of the text alone.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from lingraft.errors import DataError
from lingraft.study.results import TASK, Array, metric_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.study.results import Group, Key
    from lingraft.study.rows import MetricRow

RESAMPLES = 4_000
LEVEL = 0.95


class Resampling:
    """Draws of blocks and seeds, the same whenever they are asked for.

    Args:
        resamples: how many.
        seed: another seed, other draws.

    Shape letters: R resamples, B blocks, S seeds.
    """

    def __init__(self, resamples: int = RESAMPLES, seed: int = 0) -> None:
        self.resamples = resamples
        self.seed = seed
        self._drawn: dict[tuple[int, str], Array] = {}

    def draws(self, number: int, name: str) -> Array:
        """[R, number] How often each of `number` things is drawn when that many are."""
        if (number, name) not in self._drawn:
            self._drawn[number, name] = self._draw(number, name)
        return self._drawn[number, name]

    def _draw(self, number: int, name: str) -> Array:
        generator = np.random.default_rng([self.seed, number, zlib.crc32(name.encode())])
        shares = np.full(number, 1 / number)
        return generator.multinomial(number, shares, size=self.resamples).astype(np.float64)

    def runs(self, keys: Sequence[Key], name: str) -> Array:
        """[R, S] How often each model is drawn: seeds, and within a seed its fine-tunings."""
        if all(len(key) == 1 for key in keys):
            return self.draws(len(keys), name)
        seeds = list(dict.fromkeys(key[0] for key in keys))
        outer_RP = self.draws(len(seeds), name)
        drawn_RS = np.empty((self.resamples, len(keys)))
        for place, seed in enumerate(seeds):
            own = [index for index, key in enumerate(keys) if key[0] == seed]
            inner = self.draws(len(own), f"{name}, fine-tunings of {place}")
            drawn_RS[:, own] = outer_RP[:, [place]] * inner / len(own)
        return drawn_RS

    def replicates(
        self, rows: Sequence[MetricRow], metric: str, kept: Array, seeds_RS: Array
    ) -> Array:
        """[R] The metric's mean over the seeds, once for each resample.

        Args:
            rows: one a seed, with blocks.
            metric: its name.
            kept: [B] which blocks take part.
            seeds_RS: how often each seed is drawn.
        """
        blocks_SB2 = np.array([row.blocks for row in rows])[:, kept]
        drawn_RB = self.draws(int(kept.sum()), "blocks")
        mean_RS = (drawn_RB @ blocks_SB2[..., 0].T) / (drawn_RB @ blocks_SB2[..., 1].T)
        scaled_RS = metric_named(metric).scale(mean_RS)
        mean_R: Array = (scaled_RS * seeds_RS).sum(1) / seeds_RS.sum(1)
        return mean_R


@dataclass(frozen=True)
class Difference:
    """How much higher a metric is for one group than for another."""

    value: float
    low: float | None
    """Bounds of the 95 % interval; None where a row has no blocks."""
    high: float | None
    p: float | None
    """Two-sided: twice the share of resamples on the other side of 0, one added to each count."""
    seeds: int
    """How many models both have: seeds, or fine-tunings."""
    trained: int = 1
    """How many seeds of training both have."""
    p_seeds: float | None = None
    """Two-sided, of a paired t-test over the seeds of training; None for one."""
    mixed: bool = False
    """Whether the two were trained in different precision at a seed."""


def incomparable(groups: Sequence[Group], metric: str) -> str | None:
    """Why a metric of these groups does not compare; None if it does."""
    missing = [group.label for group in groups if not group.rows(metric)]
    if missing:
        return f"{missing[0]} has no {metric_named(metric).title}"
    if metric.startswith(TASK):
        tests = {row.masks for group in groups for row in group.rows(metric).values()}
        return None if len(tests) == 1 else f"{metric} was scored on {len(tests)} different tests"
    sets = {group.masks() for group in groups}
    if metric_named(metric).by_tokens and len(sets) > 1:
        names = ", ".join(dict.fromkeys(group.label for group in groups))
        return (
            f"{metric_named(metric).title} of {names} was measured on {len(sets)} different sets "
            "of masked tokens (another vocabulary, text or seed) and does not compare; compare "
            "bits per character"
        )
    return None


def checked(groups: Sequence[Group], metric: str) -> None:
    """Refuse groups that do not compare.

    Raises:
        DataError: with the reason of `incomparable`.
    """
    reason = incomparable(groups, metric)
    if reason is not None:
        raise DataError(reason)


def shared_blocks(rows: Sequence[MetricRow]) -> Array | None:
    """[B] Blocks that hold something for every row; None if a row has no blocks.

    Raises:
        DataError: the rows have different numbers of blocks.
    """
    if any(row.blocks is None for row in rows):
        return None
    numbers = {len(row.blocks or ()) for row in rows}
    if len(numbers) > 1:
        raise DataError(
            f"{rows[0].metric}: cells have {' and '.join(map(str, sorted(numbers)))} blocks of "
            "test text, so they were tested on different texts and do not compare; run them again"
        )
    counts = np.array([[count for _, count in row.blocks or ()] for row in rows])
    kept = np.asarray((counts > 0).all(axis=0))
    return kept if kept.any() else None


def difference(one: Group, other: Group, metric: str, resampling: Resampling) -> Difference:
    """How much higher a metric is for `one` than for `other`, over the seeds that both have.

    Of a task, a model is paired with that of equal seeds of training and of fine-tuning.

    Raises:
        DataError: they do not compare, or have no seed in common.
    """
    checked((one, other), metric)
    ours, theirs = one.rows(metric), other.rows(metric)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        raise DataError(
            f"{one.label} and {other.label} have no seed in common; run both with the same seeds"
        )
    pairs = [(ours[seed], theirs[seed]) for seed in common]
    gains: dict[int, list[float]] = {}
    for key, (a, b) in zip(common, pairs, strict=True):
        gains.setdefault(key[0], []).append(a.value - b.value)
    by_seed = [float(np.mean(of_seed)) for of_seed in gains.values()]
    value, p_seeds = float(np.mean(by_seed)), paired_t_test(by_seed)
    mixed = any(one.precisions.get(seed) != other.precisions.get(seed) for seed in gains)
    facts = (len(common), len(gains), p_seeds, mixed)
    kept = shared_blocks([row for pair in pairs for row in pair])
    if kept is None:
        return Difference(value, None, None, None, *facts)
    seeds_RS = resampling.runs(common, "seeds")
    drawn_R = resampling.replicates([a for a, _ in pairs], metric, kept, seeds_RS)
    drawn_R = drawn_R - resampling.replicates([b for _, b in pairs], metric, kept, seeds_RS)
    low, high = np.quantile(drawn_R, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    least = min(int((drawn_R <= 0).sum()), int((drawn_R >= 0).sum()))
    p = min(1.0, 2 * (least + 1) / (resampling.resamples + 1))
    return Difference(value, float(low), float(high), p, *facts)


def paired_t_test(gains: Sequence[float]) -> float | None:
    """Two-sided p that the mean gain of a seed is 0; None for fewer than two, or no numbers.

    Args:
        gains: of each seed, what one model has more than the other.
    """
    if len(gains) < 2 or not np.isfinite(gains).all():
        return None
    mean, deviation = np.mean(gains), np.std(gains, ddof=1)
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(len(gains) - 1, -abs(mean) / deviation * len(gains) ** 0.5))
