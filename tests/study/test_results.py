import math

import pytest
from synthetic_study import cell_rows, failed_rows, study_rows

from lingraft.study.metrics import BITS, LOSS, PERPLEXITY
from lingraft.study.results import collect


def test_cells_that_differ_in_the_seed_alone_stand_together():
    found = collect(study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(2, 0)))
    assert [(g.label, g.sentences, [c.seed for c in g.cells]) for g in found.groups] == [
        ("XPT", 1_000, [0, 2]), ("scratch", 1_000, [0, 2]),
        ("XPT", 4_000, [0, 2]), ("scratch", 4_000, [0, 2]),
    ]  # fmt: skip


def test_the_order_of_the_rows_decides_nothing():
    rows = study_rows(methods=["scratch", "xpt"], sizes=(4_000, 1_000))
    by_cell = {row.cell: [] for row in rows}
    for row in rows:
        by_cell[row.cell].append(row)
    backwards = [row for cell in reversed(by_cell.values()) for row in cell]
    assert collect(backwards) == collect(rows)


def test_mean_and_sample_deviation_are_over_the_seeds():
    rows = [row for seed, loss in ((0, 3.0), (1, 4.0), (2, 8.0))
            for row in cell_rows("xpt", 1_000, seed, loss)]  # fmt: skip
    (group,) = collect(rows).groups
    assert group.mean(LOSS) == pytest.approx(5.0)
    assert group.deviation(LOSS) == pytest.approx(math.sqrt(7))


def test_a_single_seed_has_no_deviation():
    (group,) = collect(cell_rows("xpt", 1_000, 0, 3.0)).groups
    assert group.deviation(PERPLEXITY) is None


def test_further_axes_that_vary_become_part_of_the_label():
    rows = []
    for name in ("random", "focus"):
        rows += cell_rows("xpt", 1_000, 0, 3.0, **{"embeddings.init": name, "a.b": 1})
    rows += cell_rows("xpt", 1_000, 0, 3.5, **{"a.b": 1})
    found = collect(rows)
    assert found.labels == ("XPT", "XPT, init focus", "XPT, init random")
    assert found.plain == found.labels  # one method alone has nothing beside it
    beside = collect(rows + cell_rows("scratch", 1_000, 0, 4.0, **{"a.b": 1}))
    assert set(beside.plain) == {"XPT", "scratch"}


def test_axes_with_the_same_last_name_are_written_in_full():
    rows = [row for value in (1, 2)
            for row in cell_rows("xpt", 1_000, 0, 3.0, **{"a.x": value, "b.x": value})]  # fmt: skip
    assert collect(rows).labels == ("XPT, a.x 1, b.x 1", "XPT, a.x 2, b.x 2")


def test_everything_stands_behind_the_largest_size():
    rows = cell_rows("xpt", None, 0, 3.0) + cell_rows("xpt", 1_000, 0, 4.0)
    assert collect(rows).sizes == (1_000, None)


def test_a_failure_is_listed_until_the_cell_is_done():
    failed = failed_rows("xpt", 1_000, 0, "no room")
    assert [(f.cell, f.message) for f in collect(failed).failures] == [("xpt-1000-0", "no room")]
    assert collect(failed + cell_rows("xpt", 1_000, 0, 3.0)).failures == ()


def test_of_a_cell_that_ran_again_with_other_settings_the_last_counts():
    first = cell_rows("xpt", 1_000, 0, 3.0)
    second = [row.model_copy(update={"fingerprint": "changed"})
              for row in cell_rows("xpt", 1_000, 0, 2.0)]  # fmt: skip
    (group,) = collect(first + second).groups
    assert group.values(LOSS) == [2.0]


def test_rows_without_an_end_count_for_nothing():
    assert collect(cell_rows("xpt", 1_000, 0, 3.0)[:-1]).groups == ()


def test_bits_per_character_are_there_where_perplexity_is_not():
    rows = [row for row in cell_rows("xpt", 1_000, 0, 3.0)
            if getattr(row, "metric", "") != PERPLEXITY]  # fmt: skip
    (group,) = collect(rows).groups
    assert group.mean(PERPLEXITY) is None
    assert group.mean(BITS) == pytest.approx(1.8)


@pytest.mark.parametrize("scheme", ["spans", "infilling"])
def test_what_an_encoder_decoder_writes_is_shown_and_compared_like_hidden_tokens(scheme):
    rows = [
        row.model_copy(update={"metric": row.metric.replace("mask-only", scheme)})
        if hasattr(row, "metric")
        else row
        for row in study_rows(methods=["xpt", "scratch"], sizes=(1_000,), seeds=(0,))
    ]
    assert any(getattr(row, "metric", "").startswith(scheme) for row in rows)
    assert [group.values(PERPLEXITY) for group in collect(rows).groups] == [
        group.values(PERPLEXITY)
        for group in collect(
            study_rows(methods=["xpt", "scratch"], sizes=(1_000,), seeds=(0,))
        ).groups
    ]
