import csv
import io
import json
import math
import re
import tomllib
from urllib.parse import unquote

import pytest
import tomli_w
from matplotlib.figure import Figure

from lingraft.report import figure, plots, points
from lingraft.report.pages import sections
from lingraft.report.variants import labelled


@pytest.fixture
def found(build):
    return labelled([build().whole().run])


def test_tokens_go_on_counting_where_the_next_phase_begins(found):
    points = plots.curve(found[0].phases, "valid", "loss")
    assert points.x == tuple(step * 2_048 for step in (50, 100, 150, 220, 270, 320, 370, 420))
    assert plots.boundaries(found[0].phases) == [
        (0.0, 170 * 2_048, "phase-1"), (170 * 2_048, 430 * 2_048, "phase-2"),
    ]  # fmt: skip


def test_long_curves_are_averaged_in_equal_runs(found):
    whole = plots.curve(found[0].phases, "train", "loss")
    short = plots.curve(found[0].phases, "train", "loss", most=10)
    assert len(whole.x) == 43
    assert len(short.x) == 9
    assert short.y[0] == pytest.approx(sum(whole.y[:5]) / 5)


def test_the_axis_of_tokens_goes_to_the_end_of_training_not_to_the_last_logged_step(build):
    run = build().whole().run
    done = json.loads(run.stage("phase-2").done_path.read_text())
    done["result"]["tokens"] = 900 * 2_048
    run.stage("phase-2").done_path.write_text(json.dumps(done))
    ended = labelled([run])
    for plot in (plots.losses(ended), plots.learning_rates(ended)):
        axes = Figure().add_subplot()
        plot.draw(axes, "wide")
        left, right = axes.get_xlim()
        assert left < 50 * 2_048
        assert 1_070 * 2_048 <= right < 1.05 * 1_070 * 2_048


def test_a_line_of_one_point_is_seen(build):
    """After a few steps one of them is logged: the figure of learning rates was empty."""
    run = build().whole().run
    rows = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    first = next(row for row in rows if row["kind"] == "train")
    run.metrics_path.write_text(json.dumps(first) + "\n")
    axes = Figure().add_subplot()
    plots.learning_rates(labelled([run])).draw(axes, "wide")
    seen = [line for line in axes.lines if len(line.get_xdata()) == 1]
    assert [line.get_marker() for line in seen] == ["o"]
    axes = Figure().add_subplot()
    plots.learning_rates(labelled([build("several").whole().run])).draw(axes, "wide")
    assert {line.get_marker() for line in axes.lines} == {"None"}


def test_figures_hold_no_reference_to_anything_outside_and_no_prologue(found):
    for plot in (plots.losses(found), plots.learning_rates(found)):
        for svg in (plot.wide, plot.narrow):
            assert svg.startswith("<svg")
            assert not re.search(r"https?:|xmlns|<style|<metadata|<!", svg)


def test_names_in_the_figures_are_used_once_and_every_reference_resolves(found):
    figures = [plots.losses(found), plots.learning_rates(found)]
    svg = "".join(figure.wide + figure.narrow for figure in figures)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) <= set(ids)


def numbers_of(figure):
    """Its CSV, as a page's link holds it."""
    head, _, text = figure.csv.partition(",")
    assert head == "data:text/csv;charset=utf-8"
    return list(csv.DictReader(io.StringIO(unquote(text))))


def test_the_numbers_of_a_figure_are_its_csv(found):
    rows = numbers_of(plots.losses(found))
    points = plots.curve(found[0].phases, "valid", "loss")
    ours = [row for row in rows if row["line"] == "XPT, validation"]
    assert [float(row["tokens"]) for row in ours] == list(points.x)
    assert [float(row["loss (nats per predicted token)"]) for row in ours] == pytest.approx(
        points.y
    )
    assert {row["line"] for row in rows} == {
        "XPT, training", "XPT, validation", "scratch, training", "scratch, validation",
    }  # fmt: skip


def test_the_pointer_is_told_the_numbers_where_they_stand(found):
    svg = plots.losses(found).wide
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    places = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="6"><title>([^<]+)<', svg)
    valid = plots.curve(found[0].phases, "valid", "loss")
    told = [place for place in places if place[2].startswith("line: XPT, validation")]
    assert f"loss (nats per predicted token): {valid.y[0]:.4g}" in told[0][2]
    assert [float(x) for x, _, _ in told] == sorted(float(x) for x, _, _ in told)
    assert all(0 < float(x) < width and 0 < float(y) < height for x, y, _ in places)
    # the markers of the drawn line stand where the pointer is answered
    drawn = re.search(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*fill: var\(--c0\)', svg)
    assert [float(value) for value in drawn.groups()] == pytest.approx(
        [float(told[0][0]), float(told[0][1])], abs=0.06
    )
    assert "<title>" not in plots.losses(found).narrow


def test_a_figure_of_many_points_answers_the_pointer_at_some_of_them(found):
    def draw(axes, form):
        figure.line(axes, range(5_000), range(5_000), 0)

    many = figure.Figure("many", draw, (("model", 0),), "", "")
    assert many.wide.count("<title>") <= points.MOST
    assert len(numbers_of(many)) == 5_000


def test_names_are_escaped_where_the_pointer_is_told(found):
    def draw(axes, form):
        figure.line(axes, [1.0, 2.0], [3.0, math.nan], 0)

    evil = figure.Figure("evil", draw, (("<script>", 0),), "", "")
    assert "<script" not in evil.wide
    assert evil.wide.count("line: &lt;script&gt;") == 1  # what is no number has no place
    assert [row["line"] for row in numbers_of(evil)] == ["<script>"]


def test_colours_come_from_the_page_so_that_dark_mode_works(found):
    svg = plots.losses(found).wide
    assert "var(--c0)" in svg
    assert "var(--c1)" in svg
    assert "currentColor" in svg
    assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) <= {"#000000", "#ffffff"}


def test_the_figure_is_described_for_those_who_do_not_see_it(found):
    assert re.search(r"scratch: validation loss \d\.\d\d after", plots.losses(found).description)


def test_equal_runs_give_equal_bytes(found):
    assert plots.losses(found).wide == plots.losses(found).wide


def test_the_figure_of_the_losses_marks_unigram_entropy_and_phases(found):
    svg = plots.losses(found).wide
    assert "unigram entropy" in svg
    assert "phase-1" in svg
    assert "phase-2" in svg


def test_small_numbers_on_an_axis_keep_the_digits_that_tell_them_apart(found):
    labels = re.findall(r">([\d.]+)</text>", plots.learning_rates(found).wide)
    assert labels == ["0", "0", "0.0006", "0.0012", "0.0018"]


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
    assert len(plots.losses(labelled([builder.run])).wide) < 60_000


@pytest.mark.parametrize(("letters", "columns"), [(7, 3), (30, 2), (60, 1), (200, 1)])
def test_a_legend_has_as_many_columns_as_its_longest_name_has_room_for(letters, columns):
    names = ["a", "b", "c", "n" * letters]
    assert figure._columns(figure.SIZES["wide"][0], names) == columns
    assert figure._columns(figure.SIZES["wide"][0], []) == 0
    assert figure._columns(figure.SIZES["wide"][0], names[-1:]) == 1


def test_names_that_a_legend_has_no_room_for_are_written_smaller():
    wide, size = figure.SIZES["wide"][0], figure.RC["font.size"]
    assert figure._letters(wide, ["n" * 60, "a"]) is None
    assert figure._letters(wide, ["n" * 110, "a"]) < 0.8 * size


def test_learning_rates_of_parts_stand_in_the_table_of_phases_and_the_curve_points_there(build):
    run = build().whole().run
    assert "their own" not in plots.learning_rates(labelled([run])).caption
    path = run.path / "recipe.toml"
    data = tomllib.loads(path.read_text())
    data["phases"][1]["optimizer"]["rates"] = {"embeddings": 8e-3}
    path.write_text(tomli_w.dumps(data))
    variants = labelled([run])
    table = sections.schedule(variants[:1])
    place = [column.title for column in table.columns].index("peak rate")
    assert [row.cells[place].text for row in table.rows] == ["0.002", "0.002; embeddings 0.008"]
    assert "Parts that have their own (Phases, peak rate)" in plots.learning_rates(variants).caption
