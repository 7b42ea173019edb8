"""Rank correlations in a grid whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from script_modules import load

pytestmark = pytest.mark.slow
predictors = load("source_predictors", "research/scripts")
agreement, held, spearman = predictors.agreement, predictors.held, predictors.spearman
SOURCES = ("a", "b", "c", "d", "e", "f")
FINAL = {
    target: {source: level + 0.1 * place for place, source in enumerate(SOURCES)}
    for target, level in {"ko": 3.0, "ja": 4.0, "es": 1.0, "zh": 5.0}.items()
}


def told(rule):
    return {t: {s: rule(t, s) for s in SOURCES if s != t} for t in FINAL}


def test_spearman_is_scipys():
    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 4, 12), generator.normal(size=12)
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_a_predictor_that_is_right_has_correlation_1_and_no_regret():
    found = held(FINAL, FINAL, higher=False, resamples=300)
    assert found.correlation == pytest.approx(1.0)
    assert found.low == pytest.approx(1.0)
    assert found.regret == pytest.approx(0.0)
    assert found.p < 0.01
    assert (found.targets, found.cells) == (4, 24)


def test_the_direction_counts():
    found = held(FINAL, FINAL, higher=True, resamples=300)
    assert found.correlation == pytest.approx(-1.0)
    assert found.regret == pytest.approx(0.5)
    assert found.p > 0.9


def test_levels_of_the_targets_do_not_count():
    """Over all cells this predictor correlates strongly; within a target it says nothing."""
    orders = ((2, 5, 0, 4, 1, 3), (3, 0, 5, 1, 4, 2)) * 2
    values = {
        t: {s: FINAL[t]["a"] + 0.001 * place for s, place in zip(SOURCES, order, strict=True)}
        for t, order in zip(FINAL, orders, strict=True)
    }
    pooled = [[row[s] for row in side.values() for s in SOURCES] for side in (values, FINAL)]
    assert spearman(*pooled) > 0.8
    found = held(values, FINAL, higher=False, resamples=300)
    assert found.correlation == pytest.approx(0.0, abs=1e-9)
    assert found.low < 0 < found.high
    assert found.p > 0.3


def test_a_constant_predictor_says_nothing_and_its_regret_is_that_of_a_draw():
    found = held(told(lambda t, s: 1.0), FINAL, higher=True, resamples=100)
    assert (found.correlation, found.low, found.p) == (None, None, None)
    assert found.regret == pytest.approx(0.25)


def test_cells_that_the_predictor_lacks_are_left_out():
    values = {t: {s: v for s, v in row.items() if s != "a"} for t, row in FINAL.items()}
    del values["zh"]
    found = held(values, FINAL, higher=False, resamples=100)
    assert (found.targets, found.cells) == (3, 15)
    assert set(found.by_target) == {"ko", "ja", "es"}


def test_the_interval_is_a_function_of_the_seed():
    values = told(lambda t, s: (3 * ord(t[0]) + 5 * ord(s)) % 7)
    first, again = (held(values, FINAL, higher=True, resamples=200) for _ in range(2))
    assert first == again


def test_agreement_counts_the_pairs_that_were_told_apart():
    final = {"ko": {"a": 1.0, "b": 2.0, "c": 3.0}}
    found = agreement({"ko": {("a", "b"): -1, ("b", "c"): 1, ("a", "c"): 0}}, final)
    assert (found.pairs, found.apart, found.same) == (3, 2, 1)
