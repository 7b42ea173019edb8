"""Learning curves over examples of a task, from rows whose truth is known."""

import pytest
from synthetic_study import EFFICIENCY, cell_rows, common_of
from synthetic_tasks import ACCURACY, accuracy, task_row

from lingraft.stats import Resampling
from lingraft.study import factor, page, tables
from lingraft.study.results import collect

SIZES = (100, 400, 1_600, 6_400)


def curve_row(method, size, seed, tuning):
    value = accuracy(10 * size, EFFICIENCY[method]) + seed + 0.1 * tuning
    common, task = common_of(method, 9_000, seed), f"nsmc@{size}"
    row = task_row(common, task, "accuracy", value, tuning, fingerprint=task)
    return row.model_copy(update={"train_examples": size})


@pytest.fixture(scope="module")
def rows():
    cells = [
        row for method in ("scratch", "xpt") for seed in (0, 1)
        for row in cell_rows(method, 9_000, seed, 3.0)
    ]  # fmt: skip
    return cells + [
        curve_row(method, size, seed, tuning)
        for method in ("scratch", "xpt") for size in SIZES for seed in (0, 1) for tuning in (0, 1)
    ]  # fmt: skip


def test_a_method_is_worth_as_many_examples_as_its_efficiency_says(rows):
    curve = factor.by_training_set(collect(rows))
    assert curve.sizes == SIZES
    assert curve.task_metrics == (ACCURACY,)
    (group,) = [one for one in curve.of("XPT") if one.sentences == 400]
    assert group.mean(ACCURACY) == pytest.approx(accuracy(4_000, EFFICIENCY["xpt"]) + 0.55)
    table = tables.factors(curve, Resampling(200), curve.task_metrics)
    assert table.columns[1].title == "examples"
    by_size = {row.cells[1].text: row.cells[2].text for row in table.rows}
    expected = EFFICIENCY["xpt"] / EFFICIENCY["scratch"]
    assert float(by_size["400"]) == pytest.approx(expected, rel=0.02)
    assert by_size["6,400"].startswith("not reached")


def test_the_page_has_the_curve(rows):
    shown = page.render("synthetic", rows)
    for text in ("How many examples is it worth?", "against examples of the task", "by examples"):
        assert text in shown


def test_the_text_with_a_curve_is_shown_whatever_larger_ones_have_so_far(rows):
    more = [row for method in ("scratch", "xpt") for row in cell_rows(method, 36_000, 0, 2.0)]
    common = common_of("xpt", 36_000, 0)
    point = task_row(common, "nsmc@100", "accuracy", 60.0, 0, fingerprint="nsmc@100")
    point = point.model_copy(update={"train_examples": 100})
    floor = task_row(common_of("untrained", None, 0), "nsmc@100", "accuracy", 50.0, 0,
                     fingerprint="nsmc@100").model_copy(update={"train_examples": 100})  # fmt: skip
    floors = [*cell_rows("untrained", None, 0, 9.0), floor]
    for added in ([*more, point], floors, [*more, *floors]):
        curve = factor.by_training_set(collect([*rows, *added]))
        assert {group.sentences for group in curve.of("scratch")} == set(SIZES)


def test_a_task_with_one_size_has_no_curve(rows):
    one = [row for row in rows if getattr(row, "task", "nsmc@400") == "nsmc@400"]
    assert factor.by_training_set(collect(one)) is None
    assert "How many examples" not in page.render("synthetic", one)
