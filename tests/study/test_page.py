import math
import re
from pathlib import Path

import pytest
from outlines import outline
from synthetic_study import cell_rows, failed_rows, initializer_rows, study_rows
from synthetic_tasks import floor_rows, task_rows

from lingraft.errors import DataError
from lingraft.report import numbers
from lingraft.stats import Resampling
from lingraft.study import grid, page
from lingraft.study.metrics import BITS
from lingraft.study.recipe import Study
from lingraft.study.results import collect
from lingraft.study.rows import MetricRow
from lingraft.study.studydir import StudyDir

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def rows():
    made = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000, 16_000))
    return made + initializer_rows() + failed_rows("lapt", 4_000, 0, f"no room {EVIL}")


@pytest.fixture(scope="module")
def text(rows):
    planned = ["xpt-1000-0", "lapt-4000-0", "adapters-4000-0"]
    study = Study(name="demo", base="base.toml", grids=({"seed": (0,)},))
    return page.render("demo", rows, page.About(planned, study, Path("runs/demo"))).replace(
        "\u00a0", " "
    )


def test_the_page_needs_nothing_from_outside_and_nests(text):
    found = outline(text)
    assert len(found.ids) == len(set(found.ids))
    assert found.headings.count(1) == 1
    assert not re.search(r"url\((?!#)|@import|https?://|<img|<script", text)


def test_a_page_with_tasks_nests_too(rows):
    tasks = task_rows(sizes=(1_000, 4_000, 16_000), seeds=(0,))
    found = outline(page.render("demo", [*rows, *tasks, *floor_rows()]))
    assert len(found.ids) == len(set(found.ids))
    assert "tasks" in found.ids


def test_the_time_of_all_cells_has_that_of_their_fine_tunings(rows):
    tasks = task_rows(sizes=(4_000,), seeds=(0,))
    cells = collect([*rows, *tasks]).cells
    seconds = sum(cell.end.seconds for cell in cells) + sum(row.seconds for row in tasks)
    shown = dict(page._facts(collect([*rows, *tasks]), []))["time of all cells"]
    assert shown == numbers.duration(seconds)
    assert shown != dict(page._facts(collect(rows), []))["time of all cells"]


def test_what_comes_from_the_rows_is_escaped(text):
    assert "no room &lt;script&gt;" in text


def test_failed_cells_stand_with_their_message_and_missing_ones_by_name(text):
    missing = text.partition("still to run")[2].partition("</details>")[0]
    assert "<code>adapters-4000-0</code>" in missing
    assert "lapt-4000-0" not in missing
    assert "<code>lapt-4000-0</code>: no room" in text


def test_every_section_has_its_tables_and_figures(text):
    for name in ("quality", "differences", "data", "factor", "initializers", "curves"):
        assert f'id="{name}"' in text
    section = text.partition('id="factor"')[2].partition("</section>")[0]
    assert section.count("<figure>") == 2
    assert "not reached (&gt; 1.0)" in section


@pytest.mark.parametrize("scheme", ["spans", "infilling"])
def test_a_page_of_encoder_decoders_speaks_of_words_that_are_written(scheme):
    made = cell_rows("xpt", 1_000, 0, 3.0) + cell_rows("scratch", 1_000, 0, 4.0, masks="bbbb")
    rows = [
        row.model_copy(update={"metric": row.metric.replace("mask-only", scheme)})
        if isinstance(row, MetricRow)
        else row
        for row in made
        if getattr(row, "metric", "") != BITS
    ]
    shown = page.render("demo", rows).replace("\u00a0", " ")
    quality = shown.partition('id="quality"')[2].partition("</section>")[0]
    assert "Words of held-out text that the decoder writes" in quality
    assert f"hidden from the encoder ({scheme})" in quality
    assert "2,000 predicted tokens." in quality
    assert "other predicted tokens (another vocabulary); these columns do not compare" in quality
    assert (
        "different predicted tokens (another vocabulary or text): none of these compares" in shown
    )
    assert "masked tokens" not in shown
    assert "bits/char" not in quality
    masked = page.render("demo", made).replace("\u00a0", " ")
    assert "Masked tokens of held-out text" in masked
    assert "of these columns only bits/char compares with the others" in masked


def told(rows):
    """The verdict, with ordinary spaces."""
    return page.verdict(collect(rows), Resampling(200)).replace("\u00a0", " ")


def test_the_verdict_names_the_best_of_the_largest_size_and_what_is_more_than_luck():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000))
    assert told(rows) == (
        "With 4,000 sentences, XPT is best of 2: perplexity 66.2, scratch 204.9. "
        "Its lead over scratch is more than luck (p 0.010)."
    )


def test_a_best_that_has_learnt_nothing_is_said_to_be_no_better_than_guessing():
    rows = [*cell_rows("xpt", 4_000, 0, 6.0), *cell_rows("scratch", 4_000, 0, 6.1)]
    assert "XPT is best of 2: perplexity 403.4" in told(rows)
    said = "But XPT is no better than guessing by token frequency alone (perplexity 400.0)."
    assert told(rows).endswith(said)


def test_methods_that_the_seeds_do_not_tell_apart_are_not_called_different():
    rows = [
        row
        for seed, gain in enumerate((0.4, -0.5, 0.05))
        for row in (
            *cell_rows("xpt", 4_000, seed, 4.0 + gain),
            *cell_rows("scratch", 4_000, seed, 4.0),
            *cell_rows("lapt", 4_000, seed, 5.0),
        )
    ]
    assert "scratch is best of 3" in told(rows)
    assert "Nothing separates it from XPT (p 0." in told(rows)


def test_a_lead_that_is_one_of_other_seeds_is_not_called_more_than_luck():
    rows = []
    for seed in (0, 1):
        rows += [*cell_rows("xpt", 4_000, seed, 4.5), *cell_rows("scratch", 4_000, seed, 4.0)]
    for seed in (2, 3, 4):
        rows += cell_rows("xpt", 4_000, seed, 3.0)
    assert "XPT is best of 2" in told(rows)
    assert "With the seeds that both have, scratch is ahead (p 0." in told(rows)


def test_one_seed_is_said_to_tell_of_the_text_alone():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0,))
    assert "On this test text its lead over scratch is more than luck" in told(rows)
    assert told(rows).endswith("one seed tells nothing of others.")


def test_what_follows_is_the_cells_that_lack_then_seeds_then_a_model(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = Study(name="demo", base="my base.toml", grids=({"seed": (0,)},))
    place = Path("runs/demo")
    made = collect(study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0, 1, 2)))
    lacking = page.next_step(made, page.About(["lapt-4000-0"], study, place))
    assert lacking.command == "lingraft study STUDY --out runs/demo"
    again = ["my.toml", "--jobs", "2"]
    elsewhere = page.next_step(made, page.About(["lapt-4000-0"], study, place, again=again))
    assert elsewhere.command == "lingraft study my.toml --jobs 2 --out runs/demo"
    few = collect(study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0,)))
    assert "3 values or more" in page.next_step(few, page.About([], study, place)).why
    assert page.next_step(made, page.About([], study, place)) is None  # its cells ran elsewhere
    recipe = place / "cells/xpt-4000-0/recipe.toml"
    recipe.parent.mkdir(parents=True)
    recipe.touch()
    model = f"lingraft adapt {recipe} --out runs/xpt"  # with what [set] and rules say
    assert page.next_step(made, page.About([], study, place)).command == model
    waiting = ["xpt-4000-0"]  # for a fine-tuning
    assert page.next_step(made, page.About(waiting, study, place, waiting)) == lacking
    losses = {"auto": 3.0, "scratch": 4.0}
    ruled = collect(
        [
            row
            for seed in range(3)
            for name, loss in losses.items()
            for row in cell_rows(name, 4_000, seed, loss)
        ]
    )
    assert page.next_step(ruled, page.About([], study, place)).command == (
        "lingraft adapt --source SOURCE --text TEXT --lang LANG --minutes 30 --out runs/auto"
    )
    assert page.next_step(collect([]), page.About([], study, place)) is None


def without(rows, metric):
    return [row for row in rows if getattr(row, "metric", "") != metric]


def test_the_verdict_is_by_what_compares_all_models_and_names_those_that_nothing_compares():
    ours = study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0,))
    other = cell_rows("continued", 4_000, 0, 3.9, masks="bbbb")
    assert "continued is best of 3: bits per character 2.340, XPT 2.509, sc" in told(ours + other)
    assert page.leaders(collect(ours + other))[1][0].label == "continued"
    assert "Not compared" not in told(ours + other)
    by_tokens = told(without(ours + other, BITS))
    assert "XPT is best of 2: perplexity" in by_tokens
    assert by_tokens.endswith("Not compared: continued (measured on other tokens or text).")


def test_one_cell_is_told_in_the_singular():
    rows = cell_rows("xpt", 4_000, 0, 3.0)
    assert told(rows) == "1 cell has ended; at the largest size there is nothing to compare."
    rows += cell_rows("xpt", 4_000, 1, 3.0)
    assert told(rows).startswith("2 cells have ended; ")


def test_the_verdict_names_a_model_that_diverged():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(4_000,), seeds=(0,))
    rows += [
        row.model_copy(update={"value": math.nan, "blocks": None})
        if isinstance(row, MetricRow)
        else row
        for row in cell_rows("adapters", 4_000, 0, 3.0)
    ]
    assert told(rows).endswith(" Not compared: Adapters (without a finite PPL).")
    assert "XPT is best of 2" in told(rows)


def test_settings_machine_and_versions_are_on_the_page(text):
    assert "name = &#34;demo&#34;" in text
    assert '<th scope="row">torch</th><td class="long">2.10.0</td>' in text
    assert '<th scope="row">precision</th><td class="long">fp32</td>' in text


def test_a_study_without_results_has_a_page_that_says_so():
    text = page.render("demo", [], page.About(["xpt-1000-0"]))
    assert "No verdict yet: no cell has ended." in text
    assert "Not there yet: no cell has ended." in text
    assert "1 cell is still to run" in text


def test_the_page_is_the_same_byte_for_byte_when_written_again():
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(0,))
    assert page.render("demo", rows) == page.render("demo", rows)


def test_a_page_that_is_not_ours_is_not_written_over(tmp_path):
    own = tmp_path / "report.html"
    own.write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="is no page of lingraft"):
        page.write("demo", [], StudyDir(tmp_path), page.About())
    assert own.read_text(encoding="utf-8") == "mine"


def test_the_page_of_a_study_file_knows_the_cells_that_are_missing(tmp_path):
    base = tmp_path / "base.toml"
    base.write_text(
        'name = "base"\nlanguage = "ko"\n[source]\nmodel = "x"\n[corpus]\ntext = ["x.txt"]\n'
        "[tokenizer]\nvocab_size = 300\n[training]\npreset = 'xpt2021'\n",
        encoding="utf-8",
    )
    study = Study(name="demo", base=str(base), grids=({"method": ("xpt",), "seed": (0, 1)},))
    about = page.About([cell.id for cell in grid.cells(study)], study)
    text = page.write("demo", [], StudyDir(tmp_path / "out"), about).read_text(encoding="utf-8")
    assert "2 cells are still to run" in text
