"""Figures: what is drawn, and that equal data gives equal bytes."""

import json
import re

import pytest

from lingraft.report import figure
from lingraft.report.figure import COLOURS, Figure, Series
from lingraft.report.variants import labelled


@pytest.fixture
def found(build):
    return labelled([build().whole().run])


def test_tokens_go_on_counting_where_the_next_phase_begins(found):
    x, _ = figure.curve(found[0].phases, "valid", "loss")
    assert x == [step * 2_048 for step in (50, 100, 150, 220, 270, 320, 370, 420)]
    spans = figure.losses(found).spans
    assert spans == [(0, 170 * 2_048, "phase-1"), (170 * 2_048, 430 * 2_048, "phase-2")]


def test_the_axis_of_tokens_goes_to_the_end_of_training_not_to_the_last_logged_step(build):
    run = build().whole().run
    done = json.loads(run.stage("phase-2").done_path.read_text())
    done["result"]["tokens"] = 900 * 2_048
    run.stage("phase-2").done_path.write_text(json.dumps(done))
    (axes,) = figure.losses(labelled([run])).drawn().axes
    assert axes.get_xlim() == (0, pytest.approx(1_070 * 2_048 * 1.01))
    assert figure.losses(labelled([build("new").corpus().run])) is None


def test_an_svg_takes_its_colours_from_light_and_dark_and_holds_no_date(found):
    svg = figure.losses(found).svg
    body = svg.partition("</style>")[2]
    assert "var(--c1)" in body
    assert "currentColor" in body
    assert not set(COLOURS) & set(re.findall(r"#[0-9a-f]{6}\b", body))
    assert "prefers-color-scheme:dark" in svg
    assert figure.losses(found).svg == svg
    assert {"unigram entropy", "phase-1", "phase-2"} <= set(re.findall(r">([^<]+)</text>", svg))


def test_names_of_a_figure_are_escaped_and_those_without_letters_in_the_font_do_no_harm():
    lines = [Series(name, (0, 1), (1, 2), at) for at, name in enumerate(("<script>", "문서"))]
    figure = Figure("f", ("<x>", "y"), lines, "")
    assert "<script>" not in figure.svg
    assert "문서" in figure.svg


def test_many_lines_over_sizes_differ_and_stand_at_their_points():
    lines = [Series(f"model {at}", (1_000, 4_000, 16_000), (at, 2, 1), at) for at in range(14)]
    figure = Figure("f", ("sentences", "y"), lines, "", over_sizes=True).drawn()
    (legend,), (axes,) = figure.legends, figure.axes
    assert len(legend.get_texts()) == 14
    assert len({(line.get_color(), str(line._dash_pattern)) for line in axes.lines}) == 14
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1,000", "4,000", "16\u00a0k"]
