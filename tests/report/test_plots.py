"""Figures: what is drawn, its numbers, and that equal data gives equal bytes."""

import csv
import io
import json
import re
import tomllib
from urllib.parse import unquote

import pytest
import tomli_w

from lingraft.report import plots
from lingraft.report.figure import COLOURS, Figure, Line
from lingraft.report.pages import sections
from lingraft.report.variants import labelled


@pytest.fixture
def found(build):
    return labelled([build().whole().run])


def numbers_of(figure):
    """The rows of its CSV."""
    head, _, text = figure.csv.partition(",")
    assert head == "data:text/csv;charset=utf-8"
    return list(csv.reader(io.StringIO(unquote(text))))


def test_tokens_go_on_counting_where_the_next_phase_begins(found):
    x, _ = plots.curve(found[0].phases, "valid", "loss")
    assert x == [step * 2_048 for step in (50, 100, 150, 220, 270, 320, 370, 420)]
    spans = plots.losses(found).spans
    assert spans == [(0, 170 * 2_048, "phase-1"), (170 * 2_048, 430 * 2_048, "phase-2")]


def test_long_curves_are_averaged_in_equal_runs(found, monkeypatch):
    whole_x, whole_y = plots.curve(found[0].phases, "train", "loss")
    monkeypatch.setattr(plots, "MAX_POINTS", 10)
    x, y = plots.curve(found[0].phases, "train", "loss")
    assert (len(whole_x), len(x)) == (43, 9)
    assert y[0] == pytest.approx(sum(whole_y[:5]) / 5)


def test_the_axis_of_tokens_goes_to_the_end_of_training_not_to_the_last_logged_step(build):
    run = build().whole().run
    done = json.loads(run.stage("phase-2").done_path.read_text())
    done["result"]["tokens"] = 900 * 2_048
    run.stage("phase-2").done_path.write_text(json.dumps(done))
    for plot in (plots.losses(labelled([run])), plots.learning_rates(labelled([run]))):
        (axes,) = plot.drawn().axes
        left, right = axes.get_xlim()
        assert (left, right) == (0, pytest.approx(1_070 * 2_048 * 1.01))


def test_a_line_of_one_point_is_seen(build):
    run = build().whole().run
    rows = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    first = next(row for row in rows if row["kind"] == "train")
    run.metrics_path.write_text(json.dumps(first) + "\n")
    (axes,) = plots.learning_rates(labelled([run])).drawn().axes
    assert axes.lines[0].get_marker() == "o"


def test_the_csv_has_every_number_of_the_curves_and_the_bands(found):
    head, *rows = numbers_of(plots.losses(found))
    assert head == ["line", "tokens", "loss (nats per predicted token)"]
    own = [row for row in rows if row[0] == "XPT, validation"]
    x, y = plots.curve(found[0].phases, "valid", "loss")
    assert [float(row[1]) for row in own] == x
    assert [float(row[2]) for row in own] == pytest.approx(y)
    banded = Line("a, b", (1, 2), (3, 4), 0, band=((2, 3), (4, 5)))
    head, *rows = numbers_of(Figure("f", ("x", "y"), [banded], "", ""))
    assert head[3:] == ["lowest", "highest"]
    assert rows == [["a, b", "1", "3", "2", "4"], ["a, b", "2", "4", "3", "5"]]


def test_an_svg_takes_its_colours_from_light_and_dark_and_holds_no_date(found):
    svg = plots.losses(found).svg
    body = svg.partition("</style>")[2]
    assert "var(--c0)" in body
    assert "var(--c1)" in body
    assert "currentColor" in body
    assert not set(COLOURS) & set(re.findall(r"#[0-9a-f]{6}\b", body))
    assert "prefers-color-scheme:dark" in svg
    assert plots.losses(found).svg == svg
    assert {"unigram entropy", "phase-1", "phase-2"} <= set(re.findall(r">([^<]+)</text>", svg))


def test_names_of_a_figure_are_escaped_and_those_without_letters_in_the_font_do_no_harm():
    lines = [Line(name, (0, 1), (1, 2), at) for at, name in enumerate(("<script>", "문서"))]
    figure = Figure("f", ("<x>", "y"), lines, "", "")
    assert "<script>" not in figure.svg
    assert "문서" in figure.svg


def test_sizes_stand_where_the_points_are():
    line = Line("a", (1_000, 4_000, 16_000), (3, 2, 1), 7)
    (axes,) = Figure("f", ("sentences", "y"), [line], "", "", over_sizes=True).drawn().axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["1,000", "4,000", "16\u00a0k"]


def test_many_lines_stand_in_one_figure_with_one_legend():
    lines = [Line(f"model {at}", (0, 1), (at, at + 1), at) for at in range(14)]
    figure = Figure("f", ("x", "y"), lines, "", "").drawn()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 14
    looks = {(line.get_color(), str(line._dash_pattern)) for line in figure.axes[0].lines}
    assert len(looks) == 14


def test_nothing_logged_gives_no_figure(build):
    found = labelled([build().corpus().run])
    assert plots.losses(found) is None
    assert plots.learning_rates(found) is None


def test_a_run_of_many_steps_stays_small(build):
    builder = build(baselines=[]).whole()
    rows = builder.run.metrics()
    start = {**rows[0], "phase": "phase-2"}
    many = [{**start, "step": 300 + step, "tokens": 100 * step} for step in range(20_000)]
    text = "".join(json.dumps(row) + "\n" for row in rows + many)
    builder.run.metrics_path.write_text(text, encoding="utf-8")
    assert len(plots.losses(labelled([builder.run])).svg) < 60_000


def test_a_stream_that_is_read_with_two_objectives_has_two_names(build):
    run = build(baselines=[]).whole().run
    keys = ("loss/ko/mlm", "loss/en-ko/tlm", "loss/en-ko/ca-mlm")
    rows = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    lines = [row | (dict.fromkeys(keys, 1.0) if row["kind"] == "valid" else {}) for row in rows]
    run.metrics_path.write_text("".join(json.dumps(row) + "\n" for row in lines))
    shown = plots.stream_losses(labelled([run]))
    assert [line.name for line in shown.lines] == ["ko", "en-ko/tlm", "en-ko/ca-mlm"]


def test_learning_rates_of_parts_stand_in_the_table_of_phases_and_the_curve_points_there(build):
    run = build().whole().run
    assert "their own" not in plots.learning_rates(labelled([run])).caption
    path = run.path / "recipe.toml"
    data = tomllib.loads(path.read_text())
    data["phases"][1]["optimizer"]["rates"] = {"embeddings": 8e-3}
    path.write_text(tomli_w.dumps(data))
    variants = labelled([run])
    rates = sections.schedule(variants[:1])
    place = [column.title for column in rates.columns].index("peak rate")
    assert [row.cells[place].text for row in rates.rows] == ["0.002", "0.002; embeddings 0.008"]
    assert "Parts that have their own" in plots.learning_rates(variants).caption
