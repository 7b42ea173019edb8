import csv
import io
import math
import re
from urllib.parse import unquote

import pytest
from synthetic_study import cell_rows, initialiser_rows, study_rows

from lingraft.stats import Resampling
from lingraft.study import plots
from lingraft.study.metrics import BITS, LOSS, PERPLEXITY
from lingraft.study.results import collect

RESAMPLING = Resampling(200)


@pytest.fixture(scope="module")
def found():
    methods = ["xpt", "scratch"]
    return collect(study_rows(methods, sizes=(1_000, 4_000, 16_000)) + initialiser_rows())


def test_a_figure_against_data_has_a_line_for_each_method(found):
    drawing = plots.against_data(found, PERPLEXITY)
    assert [name for name, _ in drawing.names] == ["XPT", "scratch"]
    assert "scratch: 1,137 with 1,000 sentences, 66.2 with 16,000" in drawing.description


def test_perplexity_is_drawn_beside_that_of_unigrams(found):
    assert "unigrams" in plots.against_data(found, PERPLEXITY).wide
    assert "unigrams" not in plots.against_data(found, BITS).wide


def test_one_size_is_no_curve():
    found = collect(study_rows(methods=["xpt", "scratch"], sizes=(1_000,)))
    assert plots.against_data(found, PERPLEXITY) is None
    assert plots.factors(found, LOSS, RESAMPLING) is None


def test_methods_of_other_masks_are_drawn_by_bits_per_character_alone(found):
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(0,))
    rows += cell_rows("continued", 1_000, 0, 3.0, masks="bbbb")
    mixed = collect(rows)
    assert "continued" not in dict(plots.against_data(mixed, PERPLEXITY).names)
    assert "continued" in dict(plots.against_data(mixed, BITS).names)


def test_losses_show_the_unigram_entropy_and_where_the_second_phase_begins(found):
    drawing = plots.losses(found, 16_000)
    assert [name for name, _ in drawing.names] == ["XPT", "scratch"]
    assert "unigram entropy" in drawing.wide
    xpt = next(group for group in found.groups if group.label == "XPT")
    assert plots._boundaries(xpt) == [1_000_000]
    assert plots._boundaries(next(g for g in found.groups if g.label == "scratch")) == []


def test_initialisers_have_a_figure_of_their_own(found):
    drawing = plots.losses(found, 16_000, initialisers=True)
    assert [name for name, _ in drawing.names] == [
        "XPT, embeddings focus", "XPT, embeddings match", "XPT, embeddings random",
    ]  # fmt: skip
    assert plots.losses(found, 1_000, initialisers=True) is None


def test_the_figure_of_initialisers_has_what_they_are_measured_against():
    rows = [row for row in initialiser_rows() if row.axes["graft.embeddings"] != "random"]
    drawing = plots.losses(collect(study_rows() + rows), 16_000, initialisers=True)
    assert [name for name, _ in drawing.names] == [
        "XPT", "XPT, embeddings focus", "XPT, embeddings match",
    ]  # fmt: skip


def test_a_label_of_one_size_is_told_once():
    rows = [row for row in study_rows() if row.axes["method"] != "xpt-sp"]
    drawing = plots.against_data(collect([*rows, *cell_rows("xpt-sp", 4_000, 0, 3.0)]), PERPLEXITY)
    assert "XPT-SP: 20.1 with 4,000 sentences;" in drawing.description


def test_the_figure_of_factors_tells_what_is_not_reached(found):
    drawing = plots.factors(found, LOSS, RESAMPLING)
    assert [name for name, _ in drawing.names] == ["XPT"]
    assert "XPT: 4.0, 4.0, not reached (> 1.0)" in drawing.description


def test_what_is_not_reached_stands_in_the_csv_in_words(found):
    text = unquote(plots.factors(found, LOSS, RESAMPLING).csv).partition(",")[2]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["line"], row["sentences"]) for row in rows] == [
        ("XPT", "1000"), ("XPT", "4000"), ("XPT", "16000"),
    ]  # fmt: skip
    assert [row["× data for scratch"] for row in rows] == ["4.0", "4.0", "not reached (> 1.0)"]


def test_the_csv_of_a_study_has_the_mean_and_the_spread_over_the_seeds(found):
    text = unquote(plots.losses(found, 16_000).csv).partition(",")[2]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["line"] for row in rows] == ["XPT"] * 40 + ["scratch"] * 20
    key = "validation loss (nats)"
    assert all(float(r["lowest"]) <= float(r[key]) <= float(r["highest"]) for r in rows)


def test_a_figure_in_a_file_carries_names_and_both_colour_schemes(found):
    svg = plots.against_data(found, BITS).alone()
    assert svg.startswith("<svg")
    assert "prefers-color-scheme:dark" in svg
    assert "--c0:" in svg
    assert ">XPT<" in svg
    assert not re.search(r"#0000[ef]\d", svg)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(
        re.findall(r'id="([^"]+)', svg)
    )


def test_equal_results_give_equal_bytes(found):
    first, second = (plots.factors(found, BITS, Resampling(200)).alone() for _ in range(2))
    assert first == second


def test_a_log_axis_of_less_than_a_decade_has_round_labels(found):
    svg = plots.factors(found, LOSS, RESAMPLING).wide
    labels = [float(text) for text in re.findall(r">([\d.]+)</text>", svg)]
    assert {1.0, 2.0, 3.0} <= set(labels)
    assert all(math.isclose(value * 2, round(value * 2)) for value in labels)
