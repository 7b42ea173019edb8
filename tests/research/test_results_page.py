from pathlib import Path

import pytest
from script_modules import load
from synthetic_study import failed_rows, initialiser_rows, study_rows

from lingraft.errors import DataError
from lingraft.report.table import markdown, row, table
from lingraft.study.rows import append

ROOT = Path(__file__).parents[2]
document = load("results_page")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "results"
    path.mkdir()
    return path


@pytest.mark.slow
def test_the_committed_results_are_those_of_the_committed_rows():
    """After a change: python research/scripts/results_page.py."""
    made = document.files(ROOT / "docs" / "results", ROOT / "recipes")
    committed = {
        str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "results").glob("*.svg")
    }
    assert {name for name in made if name.endswith(".svg")} == committed
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, name


def test_without_results_the_document_says_so(folder, tmp_path):
    made = document.files(folder, tmp_path)
    assert list(made) == ["results.md"]
    assert "No study has been run yet." in made["results.md"]
    assert document.files(tmp_path / "nowhere", tmp_path) == made


def test_a_study_gives_tables_figures_and_the_notes_beside_it(folder, tmp_path):
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000)) + initialiser_rows()
    append(folder / "demo.jsonl", rows + failed_rows("lapt", 1_000, 0))
    (folder / "demo.notes.md").write_text("We think **much** of it.\n", encoding="utf-8")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "demo.toml").write_text("", encoding="utf-8")
    made = document.files(folder, tmp_path / "recipes")
    text = made["results.md"]
    assert "## demo\n\nWe think **much** of it.\n" in text
    assert "[demo.toml](../recipes/demo.toml)" in text
    assert "### 4,000 sentences\n\n| method | PPL |" in text
    assert "`lapt-1000-0` failed: ran out of memory" in text
    figures = [name for name in made if name.endswith(".svg")]
    assert len(figures) == 8
    for name in figures:
        assert f"]({name})" in text
        assert made[name].startswith("<svg")


def test_a_figure_stands_beside_what_was_found_and_nowhere_else(folder, tmp_path):
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000))
    append(folder / "demo.jsonl", rows)
    notes = folder / "demo.notes.md"
    notes.write_text("Found.\n\n<!-- figure: losses-4000 -->\n\nMore.\n", encoding="utf-8")
    text = document.files(folder, tmp_path)["results.md"]
    path = "](results/demo-losses-4000.svg)"
    assert text.count(path) == 1
    assert text.index("Found.") < text.index(path) < text.index("More.")


def test_a_figure_of_some_labels_calls_them_by_their_names_in_the_notes(folder, tmp_path):
    append(folder / "demo.jsonl", study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000)))
    notes = folder / "demo.notes.md"
    notes.write_text("Found.\n\n<!-- figure of:\nfrom nothing = scratch\n-->\n\nMore.\n", "utf-8")
    made = document.files(folder, tmp_path)
    drawn = made["results/demo-chosen-4000.svg"]
    assert "from nothing" in drawn
    assert "XPT" not in drawn
    text = made["results.md"]
    path = "](results/demo-chosen-4000.svg)"
    assert text.index("Found.") < text.index(path) < text.index("More.")
    assert "Last values: from nothing: " in text


def test_a_figure_of_a_label_that_no_cell_has_is_an_error_that_names_the_labels(folder, tmp_path):
    append(folder / "demo.jsonl", study_rows(methods=["xpt", "scratch"], sizes=(1_000,)))
    (folder / "demo.notes.md").write_text("<!-- figure of:\nA = scrach\n-->\n", "utf-8")
    with pytest.raises(DataError, match="no cell is called 'scrach'; there are XPT; scratch"):
        document.files(folder, tmp_path)


def test_of_a_wide_table_the_main_columns_stand_outside_the_fold(folder, tmp_path):
    append(folder / "demo.jsonl", study_rows(methods=["xpt", "scratch"], sizes=(1_000,)))
    text = document.files(folder, tmp_path)["results.md"]
    outside, fold = text.split('<details markdown="1">', 1)
    assert "| method | PPL | hits@1 |" in outside
    assert "| hits@5 |" not in outside
    assert "| hits@5 |" in fold.split("</details>")[0]
    widths = [line.count("|") - 1 for line in outside.splitlines() if line.startswith("|")]
    assert max(widths) <= 8


def test_one_size_has_no_data_efficiency_and_of_several_figures_the_first_is_shown(
    folder, tmp_path
):
    append(folder / "one.jsonl", study_rows(methods=["xpt", "scratch"], sizes=(1_000,)))
    append(folder / "two.jsonl", study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000)))
    one, two = document.files(folder, tmp_path)["results.md"].split("\n## two\n")
    assert "How many times more sentences scratch needs" not in one
    assert "How many times more sentences scratch needs" in two
    data = two.split("### What more data brings")[1]
    shown, hidden = data.split("<details", 1)
    assert shown.count("![") == 1
    assert "3 more figures</summary>\n\n![" in hidden


def test_what_holds_for_all_studies_stands_at_the_top(folder, tmp_path):
    append(folder / "demo.jsonl", study_rows(methods=["xpt"], sizes=(1_000,), seeds=(0,)))
    (folder / "page.notes.md").write_text("## Beware\n", encoding="utf-8")
    text = document.files(folder, tmp_path)["results.md"]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Beware", "## How to read the tables", "## demo"]


def test_studies_stand_in_the_order_of_their_names_and_are_the_same_every_time(folder, tmp_path):
    rows = study_rows(methods=["xpt", "scratch"], sizes=(1_000, 4_000), seeds=(0,))
    for name in ("b", "a"):
        append(folder / f"{name}.jsonl", rows)
    made = document.files(folder, tmp_path)
    assert made["results.md"].index("## a\n") < made["results.md"].index("## b\n")
    assert document.files(folder, tmp_path) == made


def test_the_document_names_no_folder_of_this_machine(folder, tmp_path):
    append(folder / "demo.jsonl", study_rows(methods=["xpt"], sizes=(1_000,), seeds=(0,)))
    assert str(tmp_path) not in "".join(document.files(folder, tmp_path).values())


def test_a_table_of_long_rows_stands_behind_a_fold_alone():
    less = table("less", ("less a", "PPL", "MRR"), [row("b", "−1.0 [−2.0, 0.0] p 0.1", "9" * 150)])
    made = document.folded(less, ("PPL", "MRR"), "what it is")
    assert made.startswith('<details markdown="1"><summary>what it is</summary>\n\n| less a |')
    assert made.count("| less a |") == 1


def test_a_table_of_main_columns_alone_has_no_fold_however_many_they_are():
    names = [f"l{number}" for number in range(9)]
    wide = table("wide", ("method", *names), [row("a", *names)])
    assert document.folded(wide, names) == markdown(wide)
    assert document.folded(wide, names[1:]).startswith("| method | l1 |")
    assert "All 10 columns" in document.folded(wide)
