import csv
import io
import math
import re
from urllib.parse import unquote

import pytest
from synthetic_study import cell_rows, initializer_rows, study_rows

from lingraft.stats import Resampling
from lingraft.study import factor, page, plots
from lingraft.study.metrics import BITS, LOSS, PERPLEXITY
from lingraft.study.results import collect

RESAMPLING = Resampling(200)


@pytest.fixture(scope="module")
def found():
    methods = ["xpt", "scratch"]
    return collect(study_rows(methods, sizes=(1_000, 4_000, 16_000)) + initializer_rows())


def test_a_figure_against_data_has_a_line_for_each_method(found):
    drawing = plots.against_data(found, PERPLEXITY)
    assert [name for name, _ in drawing.names] == ["XPT", "scratch"]
    assert "scratch: 1,137 with 1,000 sentences, 66.2 with 16,000" in drawing.description


def test_perplexity_is_drawn_beside_that_of_unigrams(found):
    assert "unigrams" in plots.against_data(found, PERPLEXITY).wide
    assert "unigrams" not in plots.against_data(found, BITS).wide


def test_models_that_diverged_are_no_points_of_a_figure():
    found = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000))
    for diverged, names in (({"xpt"}, ["scratch"]), ({"xpt", "scratch"}, None)):
        rows = [
            row.model_copy(update={"value": math.nan})
            if hasattr(row, "metric") and row.axes["method"] in diverged
            else row
            for row in found
        ]
        drawing = plots.against_data(collect(rows), PERPLEXITY)
        assert (drawing and [name for name, _ in drawing.names]) == names


def test_one_size_is_no_curve():
    found = collect(study_rows(methods=["xpt", "scratch"], sizes=(1_000,)))
    assert plots.against_data(found, PERPLEXITY) is None
    assert factor.factors(found, LOSS, RESAMPLING) is None


def test_methods_of_other_masks_are_drawn_by_bits_per_character_alone(found):
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(0,))
    rows += cell_rows("continued", 1_000, 0, 3.0, masks="bbbb")
    mixed = collect(rows)
    assert "continued" not in dict(plots.against_data(mixed, PERPLEXITY).names)
    assert "continued" in dict(plots.against_data(mixed, BITS).names)


def test_losses_show_the_unigram_entropy_and_where_the_second_phase_begins(found):
    drawing = plots.learning(found, 16_000)
    assert [name for name, _ in drawing.names] == ["XPT", "scratch"]
    assert "unigram entropy" in drawing.wide
    xpt = next(group for group in found.groups if group.label == "XPT")
    assert plots._boundaries(xpt, plots.LOSSES) == [1_000_000]
    scratch = next(g for g in found.groups if g.label == "scratch")
    assert plots._boundaries(scratch, plots.LOSSES) == []


def test_initializers_have_a_figure_of_their_own(found):
    drawing = plots.learning(found, 16_000, initializers=True)
    assert [name for name, _ in drawing.names] == [
        "XPT, init focus", "XPT, init match", "XPT, init random",
    ]  # fmt: skip
    assert plots.learning(found, 1_000, initializers=True) is None


def test_the_figure_of_initializers_has_what_they_are_measured_against():
    rows = [row for row in initializer_rows() if row.axes["embeddings.init"] != "random"]
    drawing = plots.learning(collect(study_rows() + rows), 16_000, initializers=True)
    assert [name for name, _ in drawing.names] == [
        "XPT", "XPT, init focus", "XPT, init match",
    ]  # fmt: skip


def test_a_label_of_one_size_is_told_once():
    rows = [row for row in study_rows() if row.axes["method"] != "xpt-sp"]
    drawing = plots.against_data(collect([*rows, *cell_rows("xpt-sp", 4_000, 0, 3.0)]), PERPLEXITY)
    assert "XPT-SP: 20.1 with 4,000 sentences;" in drawing.description


def test_the_figure_of_factors_tells_what_is_not_reached(found):
    drawing = factor.factors(found, LOSS, RESAMPLING)
    assert [name for name, _ in drawing.names] == ["XPT"]
    assert "XPT: 4.0, 4.0, not reached (> 1.0)" in drawing.description


def test_what_is_not_reached_stands_in_the_csv_in_words(found):
    text = unquote(factor.factors(found, LOSS, RESAMPLING).csv).partition(",")[2]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["line"], row["sentences"]) for row in rows] == [
        ("XPT", "1000"), ("XPT", "4000"), ("XPT", "16000"),
    ]  # fmt: skip
    assert [row["× data for scratch"] for row in rows] == ["4.0", "4.0", "not reached (> 1.0)"]


def test_the_csv_of_a_study_has_the_mean_and_the_spread_over_the_seeds(found):
    text = unquote(plots.learning(found, 16_000).csv).partition(",")[2]
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
    first, second = (factor.factors(found, BITS, Resampling(200)).alone() for _ in range(2))
    assert first == second


def test_a_log_axis_of_less_than_a_decade_has_round_labels(found):
    svg = factor.factors(found, LOSS, RESAMPLING).wide
    labels = [float(text) for text in re.findall(r">([\d.]+)</text>", svg)]
    assert {1.0, 2.0, 3.0} <= set(labels)
    assert all(math.isclose(value * 2, round(value * 2)) for value in labels)


def crossed(kinds=("keep", "extend"), embeddings=("mean", "random", "focus", "omp"), **more):
    """A study of every kind of vocabulary with every initializer."""
    rows = []
    for at, kind in enumerate(kinds):
        for place, name in enumerate(embeddings):
            axes = {"tokenizer.action": kind, "embeddings.init": name}
            rows += cell_rows("xpt", 16_000, 0, 3 + at + place / 10, **axes, **more)
    return rows


@pytest.fixture(scope="module")
def many():
    return plots.learning(collect(crossed()), 16_000)


def test_six_lines_are_one_figure():
    drawing = plots.learning(collect(crossed(embeddings=("mean", "random", "omp"))), 16_000)
    assert len(drawing.names) == 6
    assert drawing.panels == ()


def test_more_lines_stand_in_panels_by_the_axis_that_needs_fewest(many):
    assert [panel.title for panel in many.panels] == ["action extend", "action keep"]
    assert [name.partition(":")[0] for name, _ in many.panels[0].names] == [
        "init focus", "init mean", "init omp", "init random",
    ]  # fmt: skip
    placed = [index for panel in many.panels for _, index in panel.names]
    assert sorted(placed) == [index for _, index in many.names]


def test_behind_a_name_in_a_panel_stands_the_last_value(many):
    shown = {name for panel in many.panels for name, _ in panel.names}
    assert {"init mean: 3.02", "init mean: 4.02"} & shown
    assert all(name.rpartition(": ")[2] in many.description for name in shown)


def test_panels_have_one_scale_and_show_the_lines_of_the_others_in_grey(many):
    first, second = many.for_python().axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_xlim() == second.get_xlim()
    for axes in (first, second):
        inks = [line.get_color() for line in axes.lines if len(line.get_xdata()) > 2]
        assert len(inks) == 8
        grey = [line for line in axes.lines if line.get_linewidth() < 1]
        assert len(grey) == 4


def test_what_an_axis_is_cut_to_holds_the_second_half_of_every_line(many):
    low, top = many.for_python().axes[0].get_ylim()
    late = [3 + at + place / 10 for at in (0, 1) for place in range(4)]
    assert low < min(late) < max(late) < top < 6.5
    assert "second half" in many.caption


def test_the_numbers_of_panels_stay_in_the_csv_and_answer_the_pointer_once(many):
    text = unquote(many.csv).partition(",")[2]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 8 * 20
    assert {row["line"] for row in rows} == {name for name, _ in many.names}
    told = re.findall(r"<title>line: ([^\n]*)", many.wide)
    assert set(told) == {name for name, _ in many.names}
    assert len(told) == len(set(re.findall(r'<circle cx="[\d.]+" cy="[\d.]+"', many.wide)))
    assert "<title>" not in many.narrow


def test_a_crowded_panel_is_split_again_and_axes_that_go_together_are_said_once():
    rows = []
    lines = [("replace", 0)] * 7 + [("replace", 1)] * 4 + [("extend", 0)] * 5 + [("keep", 0)]
    for rate, (kind, layers) in enumerate(lines):
        axes = {"graft.inserted_before": layers, "graft.inserted_after": layers}
        axes |= {"tokenizer.action": kind, "training.learning_rate": rate}
        rows += cell_rows("xpt", 16_000, 0, 3 + rate / 10, **axes)
    drawing = plots.learning(collect(rows), 16_000)
    both = "inserted_before/after"
    alone = f"{both} 0, action keep, learning_rate 16"
    assert {panel.title: len(panel.names) for panel in drawing.panels} == {
        f"{both} 0, action replace": 7,
        f"{both} 1, action replace": 4,
        f"{both} 0, action extend": 5,
        alone: 1,
    }
    (name,) = (panel.names[0][0] for panel in drawing.panels if panel.title == alone)
    assert name == "XPT: 4.61"


def test_without_another_axis_methods_stand_in_order_beside_the_reference():
    methods = ("xpt", "xpt-sp", "lapt", "adapters", "mono-trans", "xpt-no-itl", "scratch")
    rows = [
        row
        for size in (1_000, 4_000)
        for at, method in enumerate(methods)
        for row in cell_rows(method, size, 0, 3 + at / 10 - size / 10_000)
    ]
    drawing = plots.against_data(collect(rows), BITS)
    assert [len(panel.names) for panel in drawing.panels] == [4, 4]
    assert all(panel.names[0][0] == "scratch" for panel in drawing.panels)


def test_a_figure_is_not_shown_twice_where_every_label_names_an_initializer():
    found = collect(crossed())
    sections = page.figures(found, RESAMPLING)
    assert len(sections["loss_figures"]) == 1
    assert sections["initializer_figures"] == []
