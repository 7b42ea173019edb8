import json
import re

import pytest

from lingraft.report import figure, plots
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
