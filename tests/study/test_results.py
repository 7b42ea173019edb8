"""Rows put in order, differences, factors and the page, from rows whose truth is known."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats
from snapshots import check_page
from synthetic_study import cell_rows, common_of, initializer_rows, power_law, study_rows
from synthetic_tasks import ACCURACY, floor_rows, task_row, task_rows

from lingraft.report.table import BEST
from lingraft.stats import Resampling
from lingraft.study import analysis, page
from lingraft.study.analysis import BITS, LOSS, PERPLEXITY, difference, factor, reached_at
from lingraft.study.results import collect

RESAMPLING = Resampling(500)
SIZES = [1_000, 4_000, 16_000]


def pair(losses, **fields):
    """Groups of one size, a loss a seed."""
    rows = []
    for method, values in losses.items():
        for seed, loss in enumerate(values):
            rows += cell_rows(method, 1_000, seed, loss, **fields)
    return collect(rows).groups


# -- in order


def test_cells_that_differ_in_the_seed_alone_stand_together_in_whatever_order_rows_come():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(4_000, 1_000), seeds=(2, 0))
    found = collect(rows)
    assert [(g.label, g.sentences, [c.seed for c in g.cells]) for g in found.groups] == [
        ("XPT", 1_000, [0, 2]), ("scratch", 1_000, [0, 2]),
        ("XPT", 4_000, [0, 2]), ("scratch", 4_000, [0, 2]),
    ]  # fmt: skip
    by_cell = {}
    for row in rows:
        by_cell.setdefault(row.model, []).append(row)
    assert collect([row for rows in reversed(by_cell.values()) for row in rows]) == found


def test_of_a_selected_axis_the_value_with_the_lowest_validation_loss_counts():
    key = "training.learning_rate"
    rows = []
    for rate, losses in {1e-3: (3.0, 3.2), 2e-3: (2.9, 3.1), 4e-3: (2.5, 9.0)}.items():
        for seed, loss in enumerate(losses):
            rows += cell_rows("xpt", 1_000, seed, loss, **{key: rate})
    (group,) = collect(rows, [key]).groups
    assert (group.label, group.chosen, len(group.cells)) == ("XPT", "learning_rate 0.002", 2)
    assert len(collect(rows).groups) == 3
    fewer = cell_rows("xpt", 1_000, 0, 1.0, **{key: 8e-3})  # of which the other seed diverged
    (group,) = collect([*rows, *fewer], [key]).groups
    assert group.chosen == "learning_rate 0.002"
    for seed in (0, 1):
        rows += cell_rows("scratch", 1_000, seed, 3.5, **{key: 1e-3})
    found = collect(rows, [key])
    assert found.reference == "scratch"
    assert "−" in page.quality(found, 1_000, RESAMPLING).column("PPL")["XPT"].under


def test_cells_are_measured_against_the_reference_at_the_same_point():
    rows = []
    for pieces in (4_000, 8_000):
        for method, loss in (("xpt", 3.0), ("scratch", 3.5 + pieces / 8_000)):
            for seed in (0, 1):
                rows += cell_rows(method, 1_000, seed, loss, **{"tokenizer.vocab_size": pieces})
    found = collect(rows)
    of = {group.label: found.base_of(group) for group in found.groups}
    assert of == {
        "XPT, vocab_size 4000": "scratch, vocab_size 4000",
        "XPT, vocab_size 8000": "scratch, vocab_size 8000",
        "scratch, vocab_size 4000": None,
        "scratch, vocab_size 8000": None,
    }


def test_a_development_score_of_zero_is_a_score():
    key, rows = "finetune.learning_rate", cell_rows("xpt", 1_000, 0, 3.0)
    common = common_of("xpt", 1_000, 0)
    for rate, scores in ((1e-4, (0.0, 60.0)), (1e-5, (1.0, 2.0))):
        for seed, dev in enumerate(scores):
            row = task_row(common, "nsmc", "accuracy", dev, dev=dev, **{key: rate})
            rows.append(row.model_copy(update={"seed": seed}))
    (group,) = collect(rows, [key]).groups
    assert group.values(ACCURACY) == [0.0, 60.0]


def test_of_a_selected_axis_of_fine_tuning_each_task_has_the_value_that_is_best_on_dev():
    key, rows = "finetune.learning_rate", []
    for seed in (0, 1):
        common = common_of("xpt", 1_000, seed)
        rows += cell_rows("xpt", 1_000, seed, 3.0)
        for rate, nsmc, nli in ((1e-5, 70.0, 60.0), (3e-5, 72.0, 50.0)):
            for task, dev in (("nsmc", nsmc), ("nli", nli)):
                value = 100 - dev  # the test set plays no part
                rows.append(task_row(common, task, "accuracy", value, dev=dev, **{key: rate}))
    assert collect(rows).labels == ["XPT, learning_rate 1e-05", "XPT, learning_rate 3e-05"]
    (group,) = collect(rows, [key]).groups
    assert (group.label, group.values(ACCURACY)) == ("XPT", [28.0, 28.0])
    assert group.values("task/nli/accuracy") == [40.0, 40.0]
    assert group.values(LOSS) == [pytest.approx(3.0)] * 2


# -- words that all score

CHARACTERS = [2.0 + number % 5 for number in range(120)]


def words_of(method, cost, dropped=(), told=True):
    """A cell whose words cost `cost` bits a character, the last thirty twice as much."""
    costs = [(1 + (w >= 90)) * cost * c for w, c in enumerate(CHARACTERS)]
    words = [(0.0, 0.0) if w in dropped else (costs[w], c) for w, c in enumerate(CHARACTERS)]
    bits, count = (sum(part) for part in zip(*words, strict=True))
    update = {
        "value": bits / count,
        "n": sum(c > 0 for _, c in words),
        "blocks": tuple(tuple(map(sum, zip(*words[b::50], strict=True))) for b in range(50)),
        "words": tuple(words) if told else None,
    }
    rows = cell_rows(method, 1_000, 0, 3.0)
    return [row.model_copy(update=update) if row.metric == BITS else row for row in rows]


def test_bits_per_character_are_over_the_words_that_every_cell_scores():
    found = collect(words_of("scratch", 3.0) + words_of("continued", 2.9, range(90, 120)))
    values = {g.method: g.rows(BITS)[(0,)] for g in found.groups}
    assert values["scratch"].value == pytest.approx(3.0)
    assert {row.n for row in values.values()} == {90}
    gap = difference(*sorted(found.groups, key=lambda g: g.method), BITS, RESAMPLING)
    assert (gap.value, gap.low, gap.high) == pytest.approx((-0.1, -0.1, -0.1))


def test_words_that_rows_do_not_tell_apart_are_marked_and_not_subtracted():
    rows = words_of("scratch", 3.0) + words_of("xpt", 2.9)
    found = collect(rows + words_of("continued", 2.0, range(90, 120), told=False))
    column = page.quality(found, 1_000, RESAMPLING).column("bits/char")
    assert (column["continued"].mark, column["XPT"].rank) == (page.OTHER, BEST)
    assert "−0.125" in column["XPT"].under
    assert column["continued"].under == ""


# -- differences


def test_a_difference_has_the_interval_of_the_text_and_the_seeds_and_a_t_test_beside():
    ours, theirs = pair({"xpt": [3.0, 3.3, 3.1], "scratch": [3.1, 3.2, 3.5, 9.0]})
    for metric in (LOSS, PERPLEXITY, BITS):
        found = difference(ours, theirs, metric, RESAMPLING)
        values = [group.values(metric)[:3] for group in (ours, theirs)]
        assert found.value == pytest.approx(np.mean(values[0]) - np.mean(values[1]))
        assert found.low < found.value < found.high
        assert found.p_seeds == pytest.approx(scipy_stats.ttest_rel(*values).pvalue)
        assert found.trained == 3
    again = difference(ours, theirs, LOSS, Resampling(500))
    assert again == difference(ours, theirs, LOSS, RESAMPLING)


def test_what_was_measured_on_other_tokens_or_other_seeds_is_not_subtracted():
    (xpt,), (other,) = pair({"xpt": [3.0]}), pair({"continued": [2.0]}, masks="bbbb")
    assert difference(xpt, other, PERPLEXITY, RESAMPLING) is None
    assert difference(xpt, other, BITS, RESAMPLING).value == pytest.approx(0.6)
    (late,) = collect(cell_rows("scratch", 1_000, 7, 3.0)).groups
    assert difference(xpt, late, LOSS, RESAMPLING) is None


# -- factors


@pytest.mark.parametrize(
    ("means", "target", "lower", "expected"),
    [
        ([5.0, 4.0, 3.0], 4.5, True, 2_000),
        ([5.0, 4.0, 3.0], 3.25, True, 4_000 * 4**0.75),
        ([10.0, 20.0, 40.0], 30.0, False, 8_000),
        ([5.0, 4.0, 3.0], 5.0, True, 1_000),
        ([5.0, 4.0, 3.0], 3.0, True, 16_000),
        ([5.0, 3.0, 4.0], 4.0, True, 2_000),
        ([5.0, 4.0, 4.0], 4.0, True, 4_000),
        ([5.0, 4.0, 3.0], 2.9, True, analysis.NOT_REACHED),
        ([5.0, 4.0, 3.0], 5.1, True, analysis.BELOW),
        ([10.0, 20.0, 40.0], 9.0, False, analysis.BELOW),
    ],
)
def test_a_size_is_interpolated_over_its_logarithm(means, target, lower, expected):
    found = reached_at(SIZES, np.array([means]), np.array([target]), lower=lower)
    assert found[0] == pytest.approx(expected)


def of(found, method, size, metric=LOSS):
    group = next(g for g in found.groups if g.method == method and g.sentences == size)
    return factor(group, found.of("scratch"), metric, RESAMPLING)


def test_a_method_four_times_as_efficient_has_a_factor_of_four():
    found = collect(study_rows(methods=["xpt", "scratch"]))
    for metric in (LOSS, BITS, PERPLEXITY):
        result = of(found, "xpt", 1_000, metric)
        assert result.value == pytest.approx(4.0, rel=1e-3)
        assert result.bounds[0] <= result.value <= result.bounds[1]
    assert of(found, "scratch", 4_000).value == pytest.approx(1.0)
    assert of(found, "xpt", 64_000).shown() == ("not reached (> 1.0)", "")
    assert ", > 4.0]" in of(found, "xpt", 16_000).shown()[1]


def test_what_is_worse_than_the_smallest_size_or_broke_or_was_asked_for_other_tokens():
    rows = study_rows(methods=["scratch"])
    worse = [row for seed in (0, 1, 2)
             for row in cell_rows("xpt", 4_000, seed, power_law(1_000) + 1)]  # fmt: skip
    assert of(collect(rows + worse), "xpt", 4_000).shown() == ("< 0.25", "")
    broken = [row.model_copy(update={"value": math.nan}) for row in worse]
    assert of(collect(rows + broken), "xpt", 4_000).shown() == ("–", "")
    assert of(collect(rows + cell_rows("xpt", 4_000, 0, 3.0, masks="b")), "xpt", 4_000) is None


# -- the page


def test_tasks_stand_in_the_table_with_the_floor_and_every_fine_tuning_counts():
    rows = study_rows(methods=["xpt", "scratch"], seeds=(0, 1)) + task_rows() + floor_rows()
    found = collect(rows)
    (group,) = [g for g in found.at(64_000) if g.method == "xpt"]
    assert group.deviation(ACCURACY) == pytest.approx(np.std(group.values(ACCURACY), ddof=1))
    assert len(group.values(ACCURACY)) == 6
    table = page.quality(found, 64_000, RESAMPLING)
    column = table.column("nsmc accuracy")
    assert column["untrained"].text == "50.0"
    assert column["XPT"].rank == BEST
    assert {row.cells[0].text: row.role for row in table.rows}["untrained"] == "reference"
    assert "[" in column["XPT"].under


def test_the_page_of_a_study():
    found = collect(study_rows() + initializer_rows(), (), {"lapt-1000-0": "ran <out>"})
    names = [cell.name for cell in found.cells]
    report = page.findings("synthetic", Path("report.html"), found)
    check_page("study", page.render(report, found, [*names, "lapt-1000-0", "later"]))
    empty = collect([])
    report = page.findings("s", Path("report.html"), empty)
    assert "no cell has ended" in page.render(report, empty, ["one"])
    two = page.verdict(collect(study_rows(["xpt", "scratch"])), RESAMPLING)
    assert "is best of 2" in two
    assert "the last one" not in two


def test_a_lead_that_other_seeds_make_is_none_and_what_broke_is_told():
    found = collect(
        [
            *(row for seed, loss in enumerate((3.0, 3.1, 9.0))
              for row in cell_rows("scratch", 1_000, seed, loss)),
            *(row for seed, loss in enumerate((3.2, 3.3))
              for row in cell_rows("xpt", 1_000, seed, loss)),
            *cell_rows("lapt", 1_000, 0, math.nan),
        ]
    )  # fmt: skip
    said = page.verdict(found, RESAMPLING)
    assert "XPT is best of 2" in said
    assert "On the seeds that both have it is not ahead of scratch" in said
    assert "LAPT: a score is no number" in said
    assert page.quality(found, 1_000, RESAMPLING).column("PPL")["LAPT"].mark == ""


def test_a_model_that_is_fine_tuned_in_two_ways_is_one_model():
    rows = []
    for method, loss in (("xpt", 3.0), ("scratch", 3.5)):
        for seed in (0, 1):
            rows += cell_rows(method, 1_000, seed, loss)
            for examples in (100, 1_000):
                key = {"finetune.train_examples": examples}
                common = common_of(method, 1_000, seed)
                rows.append(task_row(common, "nsmc", "accuracy", 70.0, **key))
    found = collect(rows)
    assert len(found.groups) == 4
    assert "XPT is best of 2: perplexity" in page.verdict(found, RESAMPLING)
    assert "scratch" in page.verdict(found, RESAMPLING)


def test_curves_are_means_over_seeds_and_one_size_gives_none_over_data():
    found = collect(study_rows())
    assert page.against_data(collect(study_rows(sizes=(1_000,))), BITS) is None
    drawn = page.against_data(found, BITS)
    assert drawn.name == "data-bits-per-character"
    assert [line.name for line in drawn.lines] == found.labels
    line = drawn.lines[0]
    assert line.band[0][-1] < line.y[-1] < line.band[1][-1]
