"""Tables, figures and factors of tasks, from rows whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_study import cell_rows, common_of, study_rows
from synthetic_tasks import ACCURACY, SIZES, accuracy, floor_rows, task_row, task_rows

from lingraft.report.table import BEST, Table
from lingraft.stats import Resampling
from lingraft.study import page, plots, tables, task_tables
from lingraft.study.analysis import difference
from lingraft.study.factor import NOT_REACHED, factor
from lingraft.study.factor import factors as figure_of
from lingraft.study.metrics import metric_named
from lingraft.study.results import collect

RESAMPLING = Resampling(500)


@pytest.fixture(scope="module")
def rows():
    pretrained = study_rows(methods=["scratch", "xpt"], sizes=SIZES, seeds=(0, 1))
    return [*pretrained, *task_rows(), *floor_rows()]


@pytest.fixture(scope="module")
def found(rows):
    return collect(rows)


def group(found, label, size):
    return next(one for one in found.of(label) if one.sentences == size)


column = Table.column


def less(found, size):
    return tables.differences(found, size, RESAMPLING, found.task_metrics)


def factors(found):
    return tables.factors(found, RESAMPLING, found.task_metrics)


# -- means


def test_the_learning_rates_that_were_the_best_on_the_development_set_are_told():
    tuned = [
        task_row(common_of("xpt", 1_000, 0), "nsmc", "accuracy", 70.0, seed).model_copy(
            update={"learning_rate": rate}
        )
        for seed, rate in enumerate((3e-4, 1e-3, 1e-3))
    ]
    (said,) = task_tables.about(collect([*cell_rows("xpt", 1_000, 0, 2.0), *tuned]))
    assert "development set: 0.0003 in 1 and 0.001 in 2 of the fine-tunings." in said
    given = tuned[0].model_copy(update={"learning_rate": None})
    (unsaid,) = task_tables.about(collect([*cell_rows("xpt", 1_000, 0, 2.0), given]))
    assert "development set" not in unsaid


def test_a_score_is_averaged_over_fine_tunings_and_seeds_and_spread_over_all_of_them(found):
    xpt = group(found, "XPT", 1_000)
    base = accuracy(1_000, 4)
    runs = [base + seed + 0.1 * tuning for seed in (0, 1) for tuning in (0, 1, 2)]
    assert sorted(xpt.values(ACCURACY)) == pytest.approx(sorted(runs))
    assert xpt.mean(ACCURACY) == pytest.approx(np.mean(runs))
    assert xpt.deviation(ACCURACY) == pytest.approx(np.std(runs, ddof=1))
    assert set(xpt.rows(ACCURACY)) == {(s, t) for s in (0, 1) for t in (0, 1, 2)}


def test_seeds_count_alike_however_often_each_was_fine_tuned():
    rows = [row for seed in (0, 1) for row in cell_rows("xpt", 1_000, seed, 3.0)]
    values = {(0, 0): 60.0, (0, 1): 62.0, (1, 0): 80.0}
    rows += [
        task_row(common_of("xpt", 1_000, seed), "nsmc", "accuracy", value, tuning)
        for (seed, tuning), value in values.items()
    ]
    (only,) = collect(rows).groups
    assert only.mean(ACCURACY) == pytest.approx((61 + 80) / 2)
    shares = [RESAMPLING.mean(one, list(values)).mean() for one in np.eye(3)]
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.03)


def test_a_fine_tuning_that_failed_is_told_also_where_a_later_seed_is_done():
    rows = cell_rows("xpt", 1_000, 0, 3.0)
    common = common_of("xpt", 1_000, 0)
    done = [task_row(common, "nsmc", "accuracy", 60.0, tuning) for tuning in (0, 1)]
    failed = done[0].model_copy(update={"status": "failed", "message": "no room", "scores": ()})
    (failure,) = collect([*rows, failed, done[1]]).failures
    assert failure.message == "no room"


def test_p_of_tasks_says_how_many_seeds_were_trained(rows):
    both = less(collect(rows), 1_000)
    assert "over 2 seeds" in column(both, "nsmc accuracy")["XPT"].under
    once = study_rows(methods=["scratch", "xpt"], sizes=(1_000,), seeds=(0,))
    once += task_rows(sizes=(1_000,), seeds=(0,))
    one = less(collect(once), 1_000)
    assert column(one, "nsmc accuracy")["XPT"].under.endswith("text and fine-tunings alone")


def test_metrics_of_tasks_are_in_per_cent_and_better_where_higher():
    record = metric_named("task/klue-ner/entity_macro_f1")
    assert (record.title, record.lower, record.show(71.25)) == (
        "klue-ner entity macro f1", False, "71.2",
    )  # fmt: skip
    assert record.scale(np.array([0.5])) == 50
    with pytest.raises(KeyError):
        metric_named("korsts/spearman")


def test_of_a_task_whose_settings_were_changed_the_last_counts():
    rows = cell_rows("xpt", 1_000, 0, 3.0)
    common = common_of("xpt", 1_000, 0)
    rows += [
        task_row(common, "nsmc", "accuracy", 60.0, 0),
        task_row(common, "nsmc", "accuracy", 61.0, 1),
        task_row(common, "nsmc", "accuracy", 70.0, 0, fingerprint="changed"),
    ]
    (only,) = collect(rows).groups
    assert only.values(ACCURACY) == [70.0]


def test_tasks_of_a_cell_that_was_trained_otherwise_since_do_not_count():
    changed = [
        row.model_copy(update={"fingerprint": "other"}) for row in cell_rows("xpt", 1_000, 0, 2.0)
    ]
    old = task_row(common_of("xpt", 1_000, 0), "nsmc", "accuracy", 60.0)
    assert collect([*cell_rows("xpt", 1_000, 0, 3.0), old, *changed]).groups[0].cells[0].tasks == {}


# -- differences and factors


def test_the_difference_has_an_interval_from_blocks_seeds_and_fine_tunings(found):
    one = difference(
        group(found, "XPT", 1_000), group(found, "scratch", 1_000), ACCURACY, RESAMPLING
    )
    assert one.value == pytest.approx(8)  # four times as efficient: two doublings
    assert one.low < 8 < one.high
    assert (one.seeds, one.p < 0.01) == (6, True)


def test_without_blocks_a_difference_has_no_interval():
    rows = []
    for method, value in (("xpt", 70.0), ("scratch", 64.0)):
        rows += cell_rows(method, 1_000, 0, 3.0)
        common = common_of(method, 1_000, 0)
        rows.append(task_row(common, "korsts", "spearman", value, blocks=False))
    table = less(collect(rows), 1_000)
    assert column(table, "korsts spearman")["XPT"].whole == "+6.0"


def test_scores_on_other_examples_are_not_compared():
    rows = []
    for method, masks in (("xpt", "here"), ("scratch", "elsewhere")):
        rows += cell_rows(method, 1_000, 0, 3.0)
        rows.append(
            task_row(common_of(method, 1_000, 0), "nsmc", "accuracy", 60.0, masks=masks)
        )  # fmt: skip
    found = collect(rows)
    table = less(found, 1_000)
    assert column(table, "nsmc accuracy")["XPT"].whole == "–"
    entries = column(task_tables.scores(found, 1_000), "nsmc accuracy").values()
    assert not any(entry.rank == BEST for entry in entries)


def test_four_times_as_efficient_is_a_factor_of_four_where_the_baseline_gets_there(found):
    baseline = found.of("scratch")
    one = factor(group(found, "XPT", 4_000), baseline, ACCURACY, RESAMPLING)
    assert one.value == pytest.approx(4)
    assert one.low < 4 < one.high
    last = factor(group(found, "XPT", 64_000), baseline, ACCURACY, RESAMPLING)
    assert last.value == NOT_REACHED
    table = factors(found)
    entries = {line.cells[1].text: line.cells[2].whole for line in table.rows}
    assert entries["4,000"].startswith("4.0 [")
    assert entries["64,000"].startswith("not reached (> 1.0)")


# -- tables and figures


def test_the_table_marks_the_best_and_has_the_floor_beneath(found):
    table = task_tables.scores(found, 16_000)
    assert tuple(column.title for column in table.columns) == (
        "method",
        "nsmc accuracy",
        "fine-tunings",
    )
    assert [line.cells[0].text for line in table.rows] == ["XPT", "scratch", "untrained"]
    assert [line.role for line in table.rows] == ["", "", "reference"]
    assert [line.cells[1].rank == BEST for line in table.rows] == [True, False, False]
    assert [line.cells[2].text for line in table.rows] == ["6", "6", "1"]
    assert task_tables.about(found) == [
        "nsmc: trained on 500 examples, scored on 1,000 (the official splits). "
        "Without a model: accuracy 50.2 (most frequent label)."
    ]


def test_the_floor_stands_in_every_table_and_is_no_size_of_its_own(found):
    assert found.sizes == SIZES
    assert found.plain == ("XPT", "scratch")
    for size in SIZES:
        cells = column(less(found, size), "nsmc accuracy")
        assert cells["untrained"].text.startswith("−")
    assert "untrained" not in plots.against_data(found, "mask-only/perplexity").description


def test_methods_that_do_not_train_alone_are_no_floors():
    found = collect(cell_rows("untrained", None, 0, 6.5))
    assert [one.label for one in found.groups] == ["untrained"]
    assert found.floors == ()


def test_scores_are_drawn_against_data_with_the_floor_and_factors_too(found):
    drawing = plots.against_data(found, ACCURACY)
    assert drawing.name == "data-task-nsmc-accuracy"
    assert "higher is better" in drawing.caption
    assert ">untrained<" in drawing.alone()
    assert figure_of(found, ACCURACY, RESAMPLING).name == "factor-nsmc-accuracy"


@pytest.mark.slow
def test_the_page_has_the_tasks(rows):
    shown = page.render("synthetic", rows)
    for text in ("Tasks, 64,000 sentences", "Differences of tasks", "factors of tasks"):
        assert text in shown


def test_a_study_without_tasks_has_no_such_section():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(0,))
    assert 'id="tasks"' not in page.render("synthetic", rows)
    assert task_tables.scores(collect(rows), 1_000) is None
    assert factors(collect(rows)) is None
