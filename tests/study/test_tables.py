import math

import pytest
from synthetic_study import cell_rows, initializer_rows, study_rows

from lingraft.report.table import BEST, Table
from lingraft.stats import Resampling
from lingraft.study import tables
from lingraft.study.metrics import BITS
from lingraft.study.results import collect
from lingraft.study.rows import MetricRow

RESAMPLING = Resampling(500)


@pytest.fixture(scope="module")
def rows():
    return study_rows() + initializer_rows()


column = Table.column


def test_the_columns_are_those_of_the_paper_and_what_a_reader_needs_to_trust_them(rows):
    columns = tables.quality(collect(rows), 1_000).columns
    assert tuple(column.title for column in columns) == (
        "method", "PPL", "hits@1", "hits@3", "hits@5", "hits@10", "MRR", "MR", "bits/char",
        "seeds", "tokens", "parameters", "trained",
    )  # fmt: skip


def test_mean_and_deviation_are_shown_with_the_same_decimals():
    made = [row for seed, loss in ((0, 3.0), (1, 3.2)) for row in cell_rows("xpt", 1, seed, loss)]
    entry = column(tables.quality(collect(made), 1), "bits/char")["XPT"]
    assert entry.whole == "1.860 ± 0.085"


def test_the_best_of_each_column_is_marked_by_its_direction(rows):
    table = tables.quality(collect(study_rows()), 4_000)
    for title in ("PPL", "hits@1", "MRR", "MR", "bits/char"):
        marked = [name for name, entry in column(table, title).items() if entry.rank == BEST]
        assert marked == ["XPT"]


def test_a_training_that_diverged_is_never_the_best():
    diverged = [
        row.model_copy(update={"value": math.nan}) if isinstance(row, MetricRow) else row
        for row in cell_rows("adapters", 1_000, 0, 3.0)
    ]
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000,), seeds=(0,))
    table = tables.quality(collect(diverged + rows), 1_000)
    assert column(table, "PPL")["Adapters"].text == "–"
    assert column(table, "PPL")["XPT"].rank == BEST


def test_unigrams_stand_beneath_as_the_floor(rows):
    line = tables.quality(collect(rows), 1_000).rows[-1]
    assert line.role == "reference"
    assert [entry.text for entry in line.cells[:3]] == ["unigrams", "400.0", "–"]
    assert len(line.cells) == 13


def test_parameters_and_those_trained_in_each_phase_are_shown(rows):
    table = tables.quality(collect(rows), 1_000)
    trained = column(table, "trained")["XPT"].text.replace("\u00a0", " ")
    assert trained == "2.6 M, 6.39 M"
    assert column(table, "seeds")["XPT"].text == "3"


def test_other_masks_are_marked_and_never_best_but_in_bits_per_character(rows):
    others = [row for seed in (0, 1, 2)
              for row in cell_rows("continued", 4_000, seed, 0.5, masks="bbbb")]  # fmt: skip
    table = tables.quality(collect(rows + others), 4_000)
    assert column(table, "PPL")["continued"].mark == "†"
    assert column(table, "PPL")["XPT"].rank == BEST
    assert column(table, "bits/char")["continued"].rank == BEST
    assert any("† continued: other masked tokens" in note for note in table.notes)


def test_how_much_text_was_scored_stands_beneath(rows):
    fewer = [row.model_copy(update={"n": 4_900}) if isinstance(row, MetricRow) else row
             for row in cell_rows("continued", 4_000, 0, 0.5, masks="bbbb")]  # fmt: skip
    (note, *_) = tables.quality(collect(rows + fewer), 4_000).notes
    assert note == "2,000 masked tokens, 4,900 to 5,000 words."


def with_ties(rows, ties, positions=2_000):
    first = rows[0].model_copy(
        update={"metric": "mask-only/ties", "value": float(ties), "n": positions, "blocks": None}
    )
    return [first, *rows]


def test_targets_tied_with_other_tokens_are_counted_beneath():
    given = [
        *with_ties(cell_rows("xpt", 1_000, 0, 3.0), 0),
        *with_ties(cell_rows("adapters", 1_000, 0, 3.0), 1_100),
        *with_ties(cell_rows("adapters", 1_000, 1, 3.0), 150),
        *cell_rows("scratch", 1_000, 0, 4.0),
    ]
    told = "Ties (another token has the target's score; the middle rank counts): Adapters 1,250 of "
    assert [n for n in tables.quality(collect(given), 1_000).notes if "Ties" in n] == [
        f"{told}4,000."
    ]


def test_where_no_target_is_tied_nothing_is_said(rows):
    found = collect(with_ties(cell_rows("xpt", 1_000, 0, 3.0), 0))
    assert not any("Ties" in note for note in tables.quality(found, 1_000).notes)


def test_differences_have_a_sign_an_interval_and_p(rows):
    table = tables.differences(collect(rows), 4_000, RESAMPLING)
    entry = column(table, "bits/char")["XPT"]
    assert entry.text == "−0.678"
    assert entry.under.startswith("[−0.6")
    assert column(table, "hits@1")["XPT"].text.startswith("+")
    assert "scratch" not in column(table, "PPL")


def test_p_says_what_it_is_of(rows):
    several = column(tables.differences(collect(rows), 4_000, RESAMPLING), "bits/char")["XPT"]
    assert several.under.endswith("] p 0.004, over 3 seeds < 0.001")
    alone = study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0,))
    one = column(tables.differences(collect(alone), 4_000, RESAMPLING), "bits/char")["XPT"]
    assert one.under.endswith("] p 0.004, text alone")


def in_bf16(rows):
    return [
        row.model_copy(update={"machine": {"precision": "bf16"}}) if row.kind == "end" else row
        for row in rows
    ]


def test_seeds_of_different_precision_are_neither_averaged_nor_compared_in_silence():
    """XPT has one seed in each; scratch both in fp32, so seed 1 is compared across the two."""
    rows = study_rows(methods=["scratch"], sizes=(1_000,), seeds=(0, 1))
    rows += cell_rows("xpt", 1_000, 0, 3.0) + in_bf16(cell_rows("xpt", 1_000, 1, 3.1))
    quality = tables.quality(collect(rows), 1_000)
    assert [line.cells[0].text for line in quality.rows[:2]] == ["XPT§", "scratch"]
    assert any("XPT: trained in different precision (seed 0 fp32, 1 bf16)" in note
               for note in quality.notes)  # fmt: skip
    less = tables.differences(collect(rows), 1_000, RESAMPLING)
    assert column(less, "PPL")["XPT"].mark == "§"
    assert any(note.startswith("§ the two were trained") for note in less.notes)


def test_equal_precision_is_not_marked(rows):
    found = collect(rows)
    shown = tables.quality(found, 4_000), tables.differences(found, 4_000, RESAMPLING)
    assert not any("§" in str(table) for table in shown)


def test_initializers_of_another_precision_than_their_base_are_marked():
    rows = [row for row in initializer_rows() if row.axes["embeddings.init"] != "random"]
    table = tables.initializers(collect(study_rows() + in_bf16(rows)), RESAMPLING)
    gains = column(table, "bits/char less the base recipe's")
    assert gains["focus"].whole.startswith("−0.099§ [")
    assert table.notes


def test_what_does_not_compare_has_no_difference_and_a_reason(rows):
    others = cell_rows("continued", 4_000, 0, 0.5, masks="bbbb")
    table = tables.differences(collect(rows + others), 4_000, RESAMPLING)
    assert column(table, "PPL")["continued"].text == "–"
    assert column(table, "bits/char")["continued"].text.startswith("−")
    assert any("continued and scratch were asked for different masked" in n for n in table.notes)


def test_bits_that_were_not_measured_are_not_said_to_compare(rows):
    others = cell_rows("continued", 4_000, 0, 0.5, masks="bbbb")
    found = collect([row for row in rows + others if getattr(row, "metric", "") != BITS])
    quality, less = tables.quality(found, 4_000), tables.differences(found, 4_000, RESAMPLING)
    notes = " ".join([*quality.notes, *less.notes])
    assert "other masked tokens (another vocabulary); these columns do not compare." in notes
    assert "(another vocabulary or text): none of these compares." in notes
    assert "bits/char" not in notes


def test_without_the_reference_there_are_neither_differences_nor_factors():
    found = collect(study_rows(methods=["xpt", "xpt-sp"]))
    assert tables.differences(found, 1_000, RESAMPLING) is None
    assert tables.factors(found, RESAMPLING) is None


def test_factors_have_a_row_for_each_method_and_size(rows):
    table = tables.factors(collect(study_rows(methods=["xpt", "scratch"])), RESAMPLING)
    assert [tuple(e.text for e in line.cells[:3]) for line in table.rows] == [
        ("XPT", "1,000", "4.0"), ("XPT", "4,000", "4.0"), ("XPT", "16,000", "4.0"),
        ("XPT", "64,000", "not reached (> 1.0)"),
    ]  # fmt: skip


def test_initializers_are_compared_with_the_random_one(rows):
    table = tables.initializers(collect(rows), RESAMPLING)
    gains = column(table, "bits/char less random")
    assert list(gains) == ["focus", "match", "random"]
    assert gains["random"].text == "–"
    assert gains["focus"].text == "−0.099"


def test_without_random_initializers_are_compared_with_that_of_the_base_recipe():
    rows = [row for row in initializer_rows() if row.axes["embeddings.init"] != "random"]
    table = tables.initializers(collect(study_rows() + rows), RESAMPLING)
    gains = column(table, "bits/char less the base recipe's")
    assert list(gains) == ["the base recipe's", "focus", "match"]  # of one size: 16,000 sentences
    assert gains["the base recipe's"].text == "–"
    assert gains["focus"].text == "−0.099"
    assert column(table, "method")["focus"].text == "XPT"


def test_there_is_no_table_of_initializers_where_they_do_not_vary():
    assert tables.initializers(collect(study_rows()), RESAMPLING) is None


def test_machines_that_differ_are_counted():
    made = cell_rows("xpt", 1_000, 0, 3.0)
    other = cell_rows("xpt", 1_000, 1, 3.0)
    other[-1] = other[-1].model_copy(update={"machine": {"device": "cuda", "precision": "fp32"}})
    told = {line.cells[0].text: line.cells[1].text
            for line in tables.machines(collect(made + other)).rows}  # fmt: skip
    assert told["device"] == "cpu (in 1), cuda (in 1)"
    assert told["precision"] == "fp32"
