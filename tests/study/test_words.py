"""Bits per character of models that dropped different words."""

import math

import pytest
from synthetic_study import cell_rows

from lingraft.report.table import BEST, Table, markdown
from lingraft.stats import Resampling
from lingraft.study import page, plots, tables
from lingraft.study.metrics import BITS
from lingraft.study.results import collect

RESAMPLING = Resampling(200)
WORDS = 120
CHARACTERS = [2.0 + number % 5 for number in range(WORDS)]
HARD = range(90, WORDS)
"""Words that a model may drop, twice as dear as the others."""


def rows_of(method, cost, dropped=(), characters=CHARACTERS, told=True, seed=0, sentences=1_000):
    """A cell whose words cost `cost` bits a character, the hard ones twice as much."""
    words = [
        (0.0, 0.0) if w in dropped else ((2 if w in HARD else 1) * cost * c, c)
        for w, c in enumerate(characters)
    ]
    bits, count = (sum(part) for part in zip(*words, strict=True))
    blocks = [tuple(map(sum, zip(*words[b::50], strict=True))) for b in range(50)]
    update = {
        "value": bits / count,
        "n": sum(c > 0 for _, c in words),
        "blocks": tuple(blocks),
        "words": tuple(words) if told else None,
    }
    return [
        row.model_copy(update=update) if getattr(row, "metric", "") == BITS else row
        for row in cell_rows(method, sentences, seed, 3.0)
    ]


column = Table.column


def bits(found, label):
    (group,) = found.of(label)
    ((row,)) = group.rows(BITS).values()
    return row


def test_only_words_that_all_models_score_count():
    found = collect(rows_of("scratch", 3.0) + rows_of("continued", 3.0, HARD))
    for label in ("scratch", "continued"):
        row = bits(found, label)
        assert (row.value, row.n) == (pytest.approx(3.0), 90)
        assert sum(count for _, count in row.blocks) == sum(CHARACTERS[:90])
    table = tables.quality(found, 1_000)
    assert table.notes[0] == (
        "2,000 masked tokens, 90 words. Left out for all: 25.0\u00a0% of the 120 words, which at "
        "least one model of the study does not score."
    )
    assert not any(entry.mark == "‡" for entry in column(table, "bits/char").values())


def test_a_difference_and_its_interval_are_over_the_common_words():
    found = collect(rows_of("scratch", 3.0) + rows_of("continued", 2.9, HARD))
    entry = column(tables.differences(found, 1_000, RESAMPLING), "bits/char")["continued"]
    assert entry.whole == "−0.100 [−0.100, −0.100] p 0.010, text alone"


def test_words_that_one_model_alone_lacks_are_not_called_left_out_for_all():
    given = rows_of("scratch", 3.0) + rows_of("continued", 3.0, HARD)
    table = tables.quality(collect(given + rows_of("xpt", 2.9, told=False)), 1_000)
    assert table.notes[0] == "2,000 masked tokens, 90 to 120 words."


def test_two_models_that_drop_different_words_are_compared_on_those_of_neither():
    given = rows_of("scratch", 3.0, range(10)) + rows_of("continued", 3.0, range(5, 20))
    assert bits(collect(given), "scratch").n == WORDS - 20


def test_where_every_model_scores_the_same_words_the_rows_stay_as_they_are():
    given = rows_of("scratch", 3.0, HARD) + rows_of("xpt", 2.0, HARD)
    found = collect(given)
    assert bits(found, "XPT") in given
    assert bits(found, "scratch") in given


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param(rows_of("continued", 2.0, HARD, told=False), id="rows of older code"),
        pytest.param(rows_of("continued", 2.0, (), [c + 1 for c in CHARACTERS]), id="other words"),
        pytest.param(rows_of("continued", 2.0, (), CHARACTERS[:70]), id="fewer words asked for"),
    ],
)
def test_other_words_that_rows_cannot_tell_apart_are_marked_beside_the_number(theirs):
    found = collect(rows_of("scratch", 3.0) + rows_of("xpt", 2.9) + theirs)
    quality = tables.quality(found, 1_000)
    assert column(quality, "bits/char")["continued"].mark == "‡"
    assert column(quality, "bits/char")["XPT"].rank == BEST
    less = tables.differences(found, 1_000, RESAMPLING)
    assert column(less, "bits/char")["continued"].mark == "‡"
    assert column(less, "bits/char")["XPT"].mark != "‡"
    for table in (quality, less):
        assert [n for n in table.notes if n.startswith("‡ continued (") and "120 words)" in n]


def test_the_verdict_is_not_won_by_a_model_on_easier_words():
    ours = [
        row.model_copy(update={"masks": name}) if hasattr(row, "masks") else row
        for name, rows in (
            ("a", rows_of("scratch", 3.0, told=False)),
            ("b", rows_of("xpt", 2.9, told=False)),
            ("c", rows_of("continued", 2.0, HARD, told=False)),
        )
        for row in rows
    ]
    assert "XPT is best of 2: bits per character" in page.verdict(collect(ours), Resampling(200))


def test_a_figure_over_different_words_says_so():
    sizes = (1_000, 4_000)
    same = [r for size in sizes for r in rows_of("scratch", 3.0, sentences=size)]
    other = [r for size in sizes for r in rows_of("xpt", 2.0, HARD, told=False, sentences=size)]
    assert "the same words" not in plots.against_data(collect(same), BITS).caption
    assert "Not all over the same words" in plots.against_data(collect(same + other), BITS).caption


def test_a_model_that_diverged_takes_no_words_from_the_others():
    found = collect(rows_of("scratch", 3.0) + rows_of("continued", math.nan, HARD))
    assert bits(found, "scratch").value == pytest.approx(3.0)
    assert "nan" not in markdown(tables.quality(found, 1_000))
    less = tables.differences(found, 1_000, RESAMPLING)
    assert column(less, "bits/char")["continued"].whole == "–"


@pytest.mark.parametrize("diverged", ["scratch", "continued"])
def test_the_words_of_a_model_that_diverged_are_not_called_others(diverged):
    """The blocks of what is not finite are not kept, so they do not tell which words it was."""
    lost = {"value": math.nan, "blocks": None}
    found = collect(
        [
            row.model_copy(update=lost) if hasattr(row, "metric") and name == diverged else row
            for name in ("scratch", "continued", "xpt", "xpt-sp")
            for row in rows_of(name, 2.9 if name == "xpt" else 3.0)
        ]
    )
    for table in (tables.quality(found, 1_000), tables.differences(found, 1_000, RESAMPLING)):
        assert not any(entry.mark for entry in column(table, "bits/char").values())
        assert not any("‡" in note for note in table.notes)
    assert column(tables.quality(found, 1_000), "bits/char")["XPT"].rank == BEST
