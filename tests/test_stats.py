"""p and interval of a difference, against what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as known

from lingraft import stats
from lingraft.stats import Difference, Resampling, paired_t_test

DRAWS = 20_000
NAN = float("nan")


def of_seeds(gains: list[float], draws: np.ndarray | float = 0.0) -> Difference:
    """What is told of the gains of so many seeds; `draws` is what the text adds to each."""
    drawn = np.array([np.broadcast_to(one + draws, DRAWS) for one in gains]).T
    return Resampling(DRAWS).difference({(n,): one for n, one in enumerate(gains)}, drawn)


def of_blocks(gains: np.ndarray, resamples: int = DRAWS) -> Difference:
    """What is told of one seed whose gain is the mean of those of the blocks."""
    resampling = Resampling(resamples)
    draws = resampling.draws(len(gains), "blocks")
    drawn = (draws @ gains / draws.sum(1))[:, None]
    return resampling.difference({(0,): float(gains.mean())}, drawn)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mean", [0.5, 1.0, 2.0])
def test_p_of_one_seed_is_the_two_sided_tail_of_the_draws(mean: float, sign: int) -> None:
    """Draws from N(mean, 1) at its quantiles: p is 2 Φ(−mean), whichever model is ahead."""
    found = of_seeds([sign * mean], known.norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS))
    assert found.p == pytest.approx(2 * known.norm.sf(mean), abs=4 / DRAWS)
    assert found.low == pytest.approx(sign * mean - known.norm.ppf(0.975), abs=0.01)
    assert found.high == pytest.approx(sign * mean + known.norm.ppf(0.975), abs=0.01)


@pytest.mark.parametrize(
    ("seeds", "worse"),
    [
        ([-1.0, 3.0], known.binom.pmf(0, 2, 1 / 2)),  # the mean is −1, 1 or 3
        ([-1.0, -1.0, 5.0], known.binom.pmf(0, 3, 1 / 3)),  # −1 where the third is not drawn
        ([1.0, 1.0, -1.5], known.binom.sf(1, 3, 1 / 3)),  # at or below 0 where it is drawn twice
    ],
)
def test_p_of_seeds_that_disagree_is_of_drawing_again(seeds: list[float], worse: float) -> None:
    """The text adds nothing, so all that varies is which seeds are drawn."""
    found = of_seeds(seeds)
    error = (worse * (1 - worse) / DRAWS) ** 0.5
    assert found.value == pytest.approx(np.mean(seeds))
    assert found.p == pytest.approx(2 * worse, abs=2 * 5 * error)
    assert (found.low, found.high) == pytest.approx((min(seeds), max(seeds)))


def test_the_interval_over_many_seeds_is_that_of_their_standard_error() -> None:
    seeds = np.random.default_rng(0).normal(0.3, 1.0, 50)
    found = of_seeds(seeds.tolist())
    half = known.norm.ppf(0.975) * seeds.std() / 50**0.5
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.04)


def test_fine_tunings_are_drawn_within_their_seed_and_count_as_one() -> None:
    """Seed 0 has three fine-tunings, seed 1 has one: each seed weighs the same."""
    gains = {(0, 0): 1.0, (0, 1): 2.0, (0, 2): 3.0, (1, 0): -4.0}
    found = Resampling(DRAWS).difference(gains, np.tile([*gains.values()], (DRAWS, 1)))
    assert (found.value, found.seeds, found.trained) == (-1.0, 4, 2)
    assert found.p_seeds == pytest.approx(known.ttest_1samp([2.0, -4.0], 0).pvalue)
    # above 0 where only seed 0 is drawn (1/4): its mean lies between 1 and 3
    assert found.p == pytest.approx(2 / 4, abs=0.02)


def test_fine_tunings_that_disagree_are_drawn_again() -> None:
    """Of one seed, so p is that of two tosses: both fine-tunings drawn are the worse one."""
    gains = {(0, 0): -1.0, (0, 1): 3.0}
    found = Resampling(DRAWS).difference(gains, np.tile([-1.0, 3.0], (DRAWS, 1)))
    assert (found.value, found.low, found.high, found.p_seeds) == (1.0, -1.0, 3.0, None)
    assert found.p == pytest.approx(2 / 4, abs=0.02)


def test_the_interval_of_blocks_is_that_of_their_standard_error() -> None:
    found = of_blocks(np.array([1.0] * 60 + [-1.0] * 40))
    deviation = (1 - 0.2**2) ** 0.5 / 10
    assert found.value == pytest.approx(0.2)
    assert found.low == pytest.approx(0.2 - 1.96 * deviation, abs=0.02)
    assert found.high == pytest.approx(0.2 + 1.96 * deviation, abs=0.02)
    # one side: P(t > 0.2 / 0.0985) = 0.0225 with 99 degrees of freedom; draws at 0 count too
    assert found.p == pytest.approx(2 * 0.0225, abs=0.02)


def test_a_gain_of_every_block_is_certain_and_none_is_not() -> None:
    found = of_blocks(np.ones(50), resamples=999)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.p == pytest.approx(2 / 1000)
    assert of_blocks(np.zeros(50), resamples=999).p == 1.0


def test_draws_in_parts_are_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Resampling(103).draws(7, "seeds", 7)
    monkeypatch.setattr(stats, "CELLS", 70)
    parts = list(Resampling(103).parts(7, "seeds", 7))
    assert [len(part) for part in parts] == [*[10] * 10, 3]
    assert (np.concatenate(parts) == whole).all()
    assert (whole.sum(1) == 7).all()


@pytest.mark.parametrize("number", [stats.FEWEST_BLOCKS, 20, 50])
def test_intervals_hold_what_is_true_in_95_of_100_and_p_is_below_5_per_cent_in_5(number: int):
    """Of equal models, by blocks of text; n of n draws of ten hold it in 90 and tell 10 apart."""
    generator, tries = np.random.default_rng(3), 2_000
    found = [of_blocks(generator.normal(size=number), resamples=1_000) for _ in range(tries)]
    assert sum(one.low <= 0 <= one.high for one in found) / tries > 0.935
    assert sum(one.p < 0.05 for one in found) / tries < 0.065
    assert Resampling(9).between_texts(np.ones((2, 9)), np.ones(9)) is None


@pytest.mark.parametrize(
    ("gains", "expected"), [([0.5], None), ([0.0, 0.0], 1.0), ([1.0, NAN], None)]
)
def test_a_t_test_that_cannot_be_made(gains: list[float], expected: float | None) -> None:
    assert paired_t_test(gains) == expected


def test_equal_gains_of_a_few_seeds_are_no_p_of_0() -> None:
    """Right of 400 answers: each seed two more, which rounding alone tells apart."""
    gains = [100 * (more / 400) - 100 * (fewer / 400) for more, fewer in ((2, 0), (7, 5))]
    assert 0 < abs(gains[0] - gains[1]) < 1e-12
    assert paired_t_test(gains) is paired_t_test([0.5, 0.5]) is None


@pytest.mark.parametrize("seeds", [2, 5])
def test_equal_models_whose_seeds_differ_more_than_texts_are_told_apart_by_the_larger_p(seeds):
    """What docs/guides/fine-tune.md says of marks: text differs 0.3 times as much as seeds do."""
    generator, resampling = np.random.default_rng(1), Resampling(200)
    bootstrap = larger = 0
    for _ in range(400):
        gains = generator.normal(0, 2**0.5, seeds) + generator.normal(0, 0.3, seeds)
        drawn = gains + generator.normal(0, 0.3, (200, seeds))
        found = resampling.difference({(n,): gain for n, gain in enumerate(gains)}, drawn)
        bootstrap += found.p < 0.05
        larger += found.larger_p < 0.05
    assert bootstrap > {2: 100, 5: 32}[seeds]
    assert larger < 36  # 20 expected, and 3.6 standard deviations
