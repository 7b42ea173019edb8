"""p and interval of a difference, against what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lingraft.comparison.significance import over_seeds

DRAWS = 20_000


def gains(seeds: list[float], draws: np.ndarray | float = 0.0) -> np.ndarray:
    """[S, 1 + R] Gains of so many seeds; `draws` is what the text adds to each."""
    return np.array([[one, *np.broadcast_to(one + draws, DRAWS)] for one in seeds])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("mean", [0.5, 1.0, 2.0])
def test_p_of_one_seed_is_the_two_sided_tail_of_the_draws(mean: float, sign: int) -> None:
    """Draws from N(mean, 1) at its quantiles: p is 2 Φ(−mean), whichever model is ahead."""
    normal = stats.norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS)
    found = over_seeds(gains([sign * mean], normal), "nsmc accuracy xpt", seed=0)
    assert found.p == pytest.approx(2 * stats.norm.sf(mean), abs=4 / DRAWS)
    assert found.low == pytest.approx(sign * mean - stats.norm.ppf(0.975), abs=0.01)
    assert found.high == pytest.approx(sign * mean + stats.norm.ppf(0.975), abs=0.01)


@pytest.mark.parametrize(
    ("seeds", "worse"),
    [
        ([-1.0, 3.0], stats.binom.pmf(0, 2, 1 / 2)),  # the mean is −1, 1 or 3
        ([-1.0, -1.0, 5.0], stats.binom.pmf(0, 3, 1 / 3)),  # −1 where the third is not drawn
        ([1.0, 1.0, -1.5], stats.binom.sf(1, 3, 1 / 3)),  # at or below 0 where it is drawn twice
    ],
)
def test_p_of_seeds_that_disagree_is_that_of_drawing_them_again(
    seeds: list[float], worse: float
) -> None:
    """The text adds nothing, so all that varies is which seeds are drawn."""
    found = over_seeds(gains(seeds), "nsmc accuracy xpt", seed=0)
    error = (worse * (1 - worse) / DRAWS) ** 0.5
    assert found.value == pytest.approx(np.mean(seeds))
    assert found.p == pytest.approx(2 * worse, abs=2 * 5 * error)
    assert (found.low, found.high) == pytest.approx((min(seeds), max(seeds)))


def test_the_interval_over_many_seeds_is_that_of_their_standard_error() -> None:
    seeds = np.random.default_rng(0).normal(0.3, 1.0, 50)
    found = over_seeds(gains(seeds.tolist()), "nsmc accuracy xpt", seed=0)
    half = stats.norm.ppf(0.975) * seeds.std() / 50**0.5
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.04)
