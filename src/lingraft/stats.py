"""Is a difference between two models more than luck? The one paired bootstrap, and a t-test.

Two things make a difference uncertain: which text it was tested on, and the seed. Both are drawn
again: blocks of the test set (a sentence, a passage, or many), the same ones for both models
(Koehn 2004, "Statistical significance tests for machine translation evaluation"), and the seeds
that both have; within a seed of training its fine-tunings. Somewhat fewer blocks are drawn than
there are, so that intervals of few are as wide as a t-test's (`drawn`). Few seeds make the interval
too narrow (three give a standard deviation low by a factor of 0.8 on average) and p too small: a
paired t-test over the seeds stands beside it. With a single seed both tell of the text alone.

Shape letters: R resamples, S runs (seeds, or fine-tunings), B blocks.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Array = np.ndarray[Any, Any]
Key = tuple[int, ...]
"""Key of a run: its seed of training, and that of fine-tuning where there is one."""

RESAMPLES = 4_000
LEVEL = 0.95
FEWEST_BLOCKS = 10
"""With fewer blocks of text neither interval nor p is given."""
CELLS = 2_000_000
"""Draws of many blocks come in parts of about this many numbers."""


@dataclass(frozen=True)
class Difference:
    """Difference of a score between two models: how much higher the first one's is."""

    value: float
    low: float | None
    """Bounds of the 95 % interval; None where the test set is not known by blocks, or by few."""
    high: float | None
    p: float | None
    """Two-sided; never below 2 / (resamples + 1)."""
    resamples: int
    seeds: int
    """Number of runs that both have: seeds, or fine-tunings."""
    trained: int
    """Number of seeds of training that both have."""
    p_seeds: float | None
    """Two-sided, of a paired t-test over the seeds of training; None for one, or equal gains."""

    @property
    def larger_p(self) -> float | None:
        """Return the p that decides whether a gain is more than luck; None without the bootstrap's.

        With two to five seeds the bootstrap's alone is below 0.05 for up to a third of equal
        models, where seeds differ more than texts do.
        """
        return None if self.p is None else max(self.p, self.p_seeds or 0.0)


class Resampling:
    """Draws of blocks and seeds, the same whenever they are asked for.

    Args:
        resamples: how many.
    """

    def __init__(self, resamples: int = RESAMPLES) -> None:
        self.resamples = resamples
        self._drawn: dict[tuple[int, str], Array] = {}

    def parts(self, number: int, name: str, count: int | None = None) -> Iterator[Array]:
        """Yield how often each of `number` things is drawn when `count` are, [r, number], in parts.

        Args:
            number: of things.
            name: of the draws.
            count: None takes that of blocks of text, `drawn`.
        """
        generator = np.random.default_rng([0, number, zlib.crc32(name.encode())])
        shares, rows = np.full(number, 1 / number), max(1, CELLS // number)
        count = drawn(number) if count is None else count
        for done in range(0, self.resamples, rows):
            size = min(rows, self.resamples - done)
            yield generator.multinomial(count, shares, size=size).astype(np.float64)

    def draws(self, number: int, name: str, count: int | None = None) -> Array:
        """Return all draws of so many things, [R, number]; arguments as `parts`."""
        if (number, name) not in self._drawn:
            self._drawn[number, name] = np.concatenate(list(self.parts(number, name, count)))
        return self._drawn[number, name]

    def mean(self, scores_RS: Array, keys: Sequence[Key], name: str = "seeds") -> Array:
        """Return the mean score of the runs that each resample draws, [R].

        Args:
            scores_RS: of each run on the blocks drawn.
            keys: of the runs; seeds are drawn, and within a seed its fine-tunings.
            name: of the draws.
        """
        weights_RS = self._runs(keys, name)
        mean_R: Array = (scores_RS * weights_RS).sum(1) / weights_RS.sum(1)
        return mean_R

    def _runs(self, keys: Sequence[Key], name: str) -> Array:
        if all(len(key) == 1 for key in keys):
            return self.draws(len(keys), name, len(keys))
        seeds = list(dict.fromkeys(key[0] for key in keys))
        outer_RP = self.draws(len(seeds), name, len(seeds))
        weights_RS = np.empty((self.resamples, len(keys)))
        for place, seed in enumerate(seeds):
            own = [index for index, key in enumerate(keys) if key[0] == seed]
            inner = self.draws(len(own), f"{name}, fine-tunings of {place}", len(own))
            weights_RS[:, own] = outer_RP[:, [place]] * inner / len(own)
        return weights_RS

    def difference(self, gains: Mapping[Key, float], gains_RS: Array | None) -> Difference:
        """Return what one model has more than another, over the runs that both have.

        p is twice the smaller share of resamples on one side of 0, the sample itself counted in.

        Args:
            gains: by run, on the whole test set.
            gains_RS: of each run on the blocks drawn; None where blocks are not known.
        """
        by_seed: dict[int, list[float]] = {}
        for key, gain in gains.items():
            by_seed.setdefault(key[0], []).append(gain)
        means = [float(np.mean(of_seed)) for of_seed in by_seed.values()]
        low = high = p = None
        if gains_RS is not None:
            gains_R = self.mean(gains_RS, list(gains))
            low, high = interval(gains_R)
            least = min(int((gains_R <= 0).sum()), int((gains_R >= 0).sum()))
            p = min(1.0, 2 * (least + 1) / (self.resamples + 1))
        counts = (self.resamples, len(gains), len(means))
        return Difference(float(np.mean(means)), low, high, p, *counts, paired_t_test(means))

    def between_texts(self, sums_2B: Array, counts_B: Array) -> Difference | None:
        """Return how much higher a mean over a text is for one model than for another.

        Args:
            sums_2B: of both, over each block of the same text.
            counts_B: what the sums are divided by; blocks of 0 do not count.

        Returns:
            None with fewer than `FEWEST_BLOCKS` blocks.
        """
        used_B = counts_B > 0
        if used_B.sum() < FEWEST_BLOCKS:
            return None
        draws_RB = self.draws(int(used_B.sum()), "blocks")
        means_R2 = (draws_RB @ sums_2B[:, used_B].T) / (draws_RB @ counts_B[used_B])[:, None]
        first, second = sums_2B.sum(1)
        gain = float((first - second) / counts_B.sum())
        return self.difference({(0,): gain}, (means_R2[:, 0] - means_R2[:, 1])[:, None])

    def between_blocks(
        self, own: Sequence[Sequence[float]], other: Sequence[Sequence[float]]
    ) -> Difference | None:
        """Compare as `between_texts`, from [sum, count] by block; None too if the texts differ."""
        if len(own) != len(other):
            return None
        sums_2B, counts_2B = np.array([own, other]).transpose(2, 0, 1)
        if not np.array_equal(*counts_2B):
            return None
        return self.between_texts(sums_2B, counts_2B[0])


def drawn(number: int) -> int:
    """Return how many blocks to draw of so many, for a mean that varies as in a t-test.

    The mean of n of n varies by (n - 1) / n of what it should, and its interval has the normal
    distribution's factor in place of Student's: of ten blocks 91 % are covered in place of 95 %.
    Fewer draws vary more (m out of n; Bickel, Götze and van Zwet 1997).
    """
    if number < 2:
        return number
    factor = ndtri((1 + LEVEL) / 2) / stdtrit(number - 1, (1 + LEVEL) / 2)
    return max(1, int((number - 1) * factor**2))


def interval(replicates_R: Array, method: Any = "linear") -> tuple[float, float]:
    """Return bounds of the 95 % interval of draws; `method` is that of `numpy.quantile`."""
    low, high = np.quantile(replicates_R, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method=method)
    return float(low), float(high)


def paired_t_test(gains: Sequence[float]) -> float | None:
    """Return two-sided p that a seed's mean gain is 0; None for fewer than two, or no numbers.

    None too where all gains are equal but for rounding, as on a small test set: that seeds differ
    by less than a score can show is no deviation of 0, and p not 0.

    Args:
        gains: of each seed, what one model has more than the other.
    """
    if len(gains) < 2 or not np.isfinite(gains).all():
        return None
    mean, deviation = np.mean(gains), np.std(gains, ddof=1)
    if np.allclose(gains, gains[0], rtol=1e-9, atol=1e-12):
        return 1.0 if np.allclose(gains, 0.0, atol=1e-12) else None
    return float(2 * stdtr(len(gains) - 1, -abs(mean) / deviation * len(gains) ** 0.5))
