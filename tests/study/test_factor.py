import math

import numpy as np
import pytest
from synthetic_study import cell_rows, power_law, study_rows

from lingraft.errors import DataError
from lingraft.stats import Resampling
from lingraft.study.factor import BELOW, NOT_REACHED, Factor, factor, reached_at
from lingraft.study.metrics import BITS, LOSS, PERPLEXITY
from lingraft.study.results import collect

RESAMPLING = Resampling(2_000)
SIZES = [1_000, 4_000, 16_000]


def reached(means, target, *, lower=True):
    return float(reached_at(SIZES, np.array([means]), np.array([target]), lower=lower)[0])


def of(found, method, size, metric=LOSS, baseline="scratch"):
    group = next(g for g in found.groups if g.method == method and g.sentences == size)
    return factor(group, [g for g in found.groups if g.method == baseline], metric, RESAMPLING)


def test_the_size_is_interpolated_over_the_logarithm():
    assert reached([5.0, 4.0, 3.0], 4.5) == pytest.approx(2_000)
    assert reached([5.0, 4.0, 3.0], 3.25) == pytest.approx(4_000 * 4**0.75)


def test_scores_of_which_more_is_better_are_reached_from_below():
    assert reached([10.0, 20.0, 40.0], 30.0, lower=False) == pytest.approx(8_000)


def test_a_value_that_a_size_has_is_reached_there():
    assert reached([5.0, 4.0, 3.0], 5.0) == 1_000
    assert reached([5.0, 4.0, 3.0], 4.0) == pytest.approx(4_000)
    assert reached([5.0, 4.0, 3.0], 3.0) == pytest.approx(16_000)


def test_a_curve_that_turns_back_is_met_at_the_smallest_size():
    assert reached([5.0, 3.0, 4.0], 4.0) == pytest.approx(2_000)


def test_a_plateau_at_the_value_is_met_at_its_start():
    assert reached([5.0, 4.0, 4.0], 4.0) == pytest.approx(4_000)


def test_what_no_size_reaches_and_what_the_smallest_beats_is_told_apart():
    assert reached([5.0, 4.0, 3.0], 2.9) == NOT_REACHED
    assert reached([5.0, 4.0, 3.0], 5.1) == BELOW
    assert reached([10.0, 20.0, 40.0], 41.0, lower=False) == NOT_REACHED
    assert reached([10.0, 20.0, 40.0], 9.0, lower=False) == BELOW


def test_each_resample_has_its_own_curve():
    means = np.array([[5.0, 4.0, 3.0], [6.0, 5.0, 4.0], [9.0, 9.0, 9.0]])
    found = reached_at(SIZES, means, np.array([4.5, 4.5, 4.5]), lower=True)
    assert found == pytest.approx([2_000, 8_000, NOT_REACHED])


def test_a_method_four_times_as_efficient_has_a_factor_of_four():
    found = collect(study_rows(methods=["xpt", "scratch"]))
    for metric in (LOSS, BITS, PERPLEXITY):
        for size in (1_000, 4_000):
            result = of(found, "xpt", size, metric)
            assert result.value == pytest.approx(4.0, rel=1e-3)
            assert result.low <= result.value <= result.high
            assert result.unreached == 0


def test_a_power_law_between_the_sizes_is_found_within_a_few_per_cent():
    found = collect(study_rows(methods=["adapters", "scratch"]))
    assert of(found, "adapters", 4_000).value == pytest.approx(2.0, rel=0.1)


def test_the_baseline_is_worth_itself():
    found = collect(study_rows(methods=["scratch"]))
    for size in (1_000, 4_000, 16_000, 64_000):
        assert of(found, "scratch", size).value == pytest.approx(1.0)


def test_a_quality_that_the_baseline_never_has_is_not_reached():
    found = collect(study_rows(methods=["xpt", "scratch"]))
    result = of(found, "xpt", 64_000)
    assert result.value == NOT_REACHED
    assert result.unreached == 1.0
    assert result.shown() == ("not reached (> 1.0)", "")


def test_a_model_that_broke_is_worth_nothing_and_reaches_nothing():
    rows = [
        row.model_copy(update={"value": math.nan})
        if row.kind == "metric" and row.axes["method"] == "xpt"
        else row
        for row in study_rows(methods=["xpt", "scratch"])
    ]
    assert of(collect(rows), "xpt", 64_000).shown() == ("–", "")


def test_an_interval_that_leaves_the_sizes_says_so():
    found = collect(study_rows(methods=["xpt", "scratch"]))
    result = of(found, "xpt", 16_000)
    assert result.high == NOT_REACHED
    assert 0 < result.unreached < 1
    value, interval = result.shown()
    assert value == "4.0" or value == "not reached (> 4.0)"
    assert ", > 4.0]" in interval
    assert interval.endswith("% not reached")


def test_a_method_worse_than_the_smallest_size_is_below():
    rows = study_rows(methods=["scratch"])
    rows += [row for seed in (0, 1, 2)
             for row in cell_rows("xpt", 4_000, seed, power_law(1_000) + 1)]  # fmt: skip
    result = of(collect(rows), "xpt", 4_000)
    assert result.value == BELOW
    assert result.shown() == ("< 0.25", "")


def test_a_single_seed_has_an_interval_of_the_text():
    found = collect(study_rows(methods=["xpt", "scratch"], seeds=(0,)))
    result = of(found, "xpt", 1_000)
    assert result.value == pytest.approx(4.0, rel=1e-3)
    assert result.low < result.high < 5


def test_sizes_may_have_different_numbers_of_seeds():
    rows = study_rows(methods=["xpt"], sizes=(1_000,))
    rows += study_rows(methods=["scratch"], sizes=(1_000, 4_000), seeds=(0, 1, 2))
    rows += study_rows(methods=["scratch"], sizes=(16_000,), seeds=(1,))
    assert of(collect(rows), "xpt", 1_000).value == pytest.approx(4.0, rel=1e-3)


def test_a_metric_without_blocks_has_no_interval():
    found = collect(study_rows(methods=["xpt", "scratch"]))
    result = of(found, "xpt", 1_000, "mask-only/mr")
    assert result.value == pytest.approx(4.0, rel=1e-3)
    assert result.shown() == ("4.0", "")


def test_cells_of_other_masks_are_refused():
    rows = study_rows(methods=["scratch"]) + cell_rows("lapt", 1_000, 0, 3.0, masks="bbbb")
    with pytest.raises(DataError, match="does not compare"):
        of(collect(rows), "lapt", 1_000)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (Factor(1, 4.13, 3.2, 5.0, 0.0, 0.1, 8.0), ("4.1", "[3.2, 5.0]")),
        (Factor(1, 4.1, 3.2, math.inf, 0.13, 0.1, 8.0), ("4.1", "[3.2, > 8.0] 13 % not reached")),
        (Factor(1, 0.4, 0.0, 0.9, 0.0, 0.25, 8.0), ("0.4", "[< 0.25, 0.9]")),
        (Factor(1, 31.7, 12.3, 120.0, 0.0, 1.0, 512.0), ("32", "[12, 120]")),
        (Factor(1, math.inf, 7.5, math.inf, 0.9, 0.1, 8.0),
         ("not reached (> 8.0)", "[7.5, > 8.0] 90 % not reached")),
    ],
)  # fmt: skip
def test_a_factor_is_shown_with_its_interval(result, shown):
    assert result.shown() == shown
