import numpy as np
import pytest
from scipy import stats
from synthetic_study import cell_rows, study_rows

from lingraft.errors import DataError
from lingraft.stats import Resampling
from lingraft.study.analysis import difference, replicates, shared_blocks
from lingraft.study.metrics import BITS, LOSS, METRICS, PERPLEXITY
from lingraft.study.results import collect

RESAMPLING = Resampling(2_000)


def pair(losses_by_method, **options):
    """Two groups from {method: [loss of each seed]}."""
    rows = [
        row
        for method, losses in losses_by_method.items()
        for seed, loss in enumerate(losses)
        for row in cell_rows(method, 1_000, seed, loss, **options)
    ]
    return collect(rows).groups


@pytest.mark.parametrize("metric", [m for m in METRICS if m != "mask-only/mr"])
def test_blocks_of_a_cell_give_back_its_value(metric):
    (group,) = pair({"xpt": [3.0]})
    (row,) = group.rows(metric).values()
    sums, counts = np.array(row.blocks).sum(0)
    assert METRICS[metric].scale(sums / counts) == pytest.approx(row.value)


def test_the_difference_is_that_of_the_means_over_common_seeds():
    xpt, scratch = pair({"xpt": [3.0, 3.2], "scratch": [4.0, 4.5, 9.0]})
    found = difference(xpt, scratch, LOSS, RESAMPLING)
    assert found.value == pytest.approx(-1.15)
    assert found.seeds == 2


def test_a_clear_difference_has_an_interval_on_one_side_of_zero_and_a_small_p():
    found = difference(*pair({"xpt": [3.0, 3.1, 3.2], "scratch": [4.0, 4.1, 4.3]}), PERPLEXITY,
                       RESAMPLING)  # fmt: skip
    assert found.low < found.value < found.high < 0
    assert found.p == pytest.approx(2 / 2_001)


def test_seeds_that_disagree_leave_the_difference_open():
    found = difference(*pair({"xpt": [3.0, 4.0, 3.5], "scratch": [4.0, 3.0, 3.5]}), LOSS,
                       RESAMPLING)  # fmt: skip
    assert found.low < 0 < found.high
    assert found.p > 0.5


def test_equal_groups_differ_by_nothing():
    xpt, _ = pair({"xpt": [3.0, 3.1], "scratch": [4.0, 4.1]})
    found = difference(xpt, xpt, BITS, RESAMPLING)
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_blocks_are_drawn_in_pairs_so_that_hard_passages_cancel():
    """The blocks differ by far more than the models; unpaired, the interval would hold zero."""
    xpt, scratch = pair({"xpt": [3.0], "scratch": [3.02]})
    found = difference(xpt, scratch, LOSS, RESAMPLING)
    alone = replicates(list(xpt.rows(LOSS).values()), LOSS, np.ones(50, bool), RESAMPLING)
    assert found.high - found.low < 0.2 * 4 * alone.std()
    assert found.high < 0


def test_the_interval_of_block_means_is_that_of_their_standard_error():
    (group,) = pair({"xpt": [3.0]})
    (row,) = group.rows(LOSS).values()
    means = np.array([total / count for total, count in row.blocks])
    drawn = replicates([row], LOSS, np.ones(50, bool), Resampling(8_000))
    assert drawn.mean() == pytest.approx(row.value, abs=0.01)
    assert drawn.std() == pytest.approx(means.std() / np.sqrt(50), rel=0.05)


def test_one_seed_gives_an_interval_of_the_text_alone():
    found = difference(*pair({"xpt": [3.0], "scratch": [4.0]}), LOSS, RESAMPLING)
    assert found.seeds == 1
    assert found.low < -1.0 < found.high


@pytest.mark.parametrize("metric", [LOSS, PERPLEXITY, BITS])
def test_beside_it_stands_the_paired_t_test_over_the_common_seeds(metric):
    groups = pair({"xpt": [3.0, 3.3, 3.1], "scratch": [3.1, 3.2, 3.5, 9.0]})
    found = difference(*groups, metric, RESAMPLING)
    ours, theirs = (group.values(metric)[:3] for group in groups)
    assert found.p_seeds == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert found.trained == 3


def test_few_seeds_that_agree_are_no_proof_to_the_t_test():
    """The bootstrap never sees a draw on the other side; two seeds say little all the same."""
    found = difference(*pair({"xpt": [3.0, 3.0], "scratch": [3.4, 3.8]}), LOSS, RESAMPLING)
    assert found.p < 0.002
    assert found.p_seeds == pytest.approx(2 * stats.t.sf(3, 1))  # −0.6 ± 0.2


def test_models_of_different_precision_are_told_of():
    rows = [cell_rows(method, 1_000, 0, loss) for method, loss in (("xpt", 3.0), ("scratch", 4.0))]
    rows[0][-1] = rows[0][-1].model_copy(update={"machine": {"precision": "bf16"}})
    assert difference(*collect(rows[0] + rows[1]).groups, LOSS, RESAMPLING).mixed
    assert not difference(*pair({"xpt": [3.0], "scratch": [4.0]}), LOSS, RESAMPLING).mixed


def test_the_same_seed_of_the_bootstrap_gives_the_same_interval():
    groups = pair({"xpt": [3.0, 3.3], "scratch": [3.1, 3.2]})
    first, second = (difference(*groups, LOSS, Resampling(500)) for _ in range(2))
    assert first == second
    assert difference(*groups, LOSS, Resampling(500, seed=1)) != first


def test_a_metric_without_blocks_has_a_difference_and_no_interval():
    found = difference(*pair({"xpt": [3.0], "scratch": [4.0]}), "mask-only/mr", RESAMPLING)
    assert found.value < 0
    assert (found.low, found.high, found.p) == (None, None, None)


def test_token_metrics_of_other_masks_are_refused_in_one_line():
    (xpt,) = pair({"xpt": [3.0]})
    (other,) = pair({"continued": [2.0]}, masks="bbbb")
    with pytest.raises(DataError, match="2 different sets of masked tokens") as error:
        difference(xpt, other, PERPLEXITY, RESAMPLING)
    assert "\n" not in str(error.value)


def test_bits_per_character_compare_across_masks():
    (xpt,) = pair({"xpt": [3.0]})
    (other,) = pair({"continued": [2.0]}, masks="bbbb")
    assert difference(xpt, other, BITS, RESAMPLING).value == pytest.approx(0.6)


def test_groups_without_a_common_seed_are_refused():
    ours = collect(cell_rows("xpt", 1_000, 0, 3.0)).groups[0]
    theirs = collect(cell_rows("scratch", 1_000, 1, 3.0)).groups[0]
    with pytest.raises(DataError, match="have no seed in common; run both with the same seeds"):
        difference(ours, theirs, LOSS, RESAMPLING)


def test_blocks_that_are_empty_for_one_model_are_left_out_for_both():
    rows = [group.rows(BITS)[(0,)] for group in pair({"xpt": [3.0], "scratch": [4.0]})]
    emptied = rows[0].model_copy(update={"blocks": ((0.0, 0.0), *rows[0].blocks[1:])})
    assert shared_blocks([emptied, rows[1]]).tolist() == [False] + 49 * [True]


@pytest.mark.parametrize("number", [1, 4])
def test_a_text_of_few_blocks_gives_no_interval(number):
    """One block is every draw of itself: the interval had no width, and any gap was no luck."""
    groups = pair({"xpt": [3.0], "scratch": [3.01]})
    for group in groups:
        metrics = group.cells[0].metrics
        blocks = (*metrics[BITS].blocks[:number], *[(0.0, 0.0)] * (50 - number))
        metrics[BITS] = metrics[BITS].model_copy(update={"blocks": blocks})
    found = difference(*groups, BITS, RESAMPLING)
    assert (found.low, found.high, found.p) == (None, None, None)


def test_texts_of_different_length_are_refused():
    rows = [group.rows(LOSS)[(0,)] for group in pair({"xpt": [3.0], "scratch": [4.0]})]
    with pytest.raises(DataError, match="tested on different texts"):
        shared_blocks([rows[0].model_copy(update={"blocks": rows[0].blocks[:7]}), rows[1]])


def test_a_whole_study_is_compared_in_a_moment():
    found = collect(study_rows())
    base, *others = found.at(64_000)[::-1]
    assert all(difference(other, base, LOSS, RESAMPLING).p <= 1 for other in others)
