"""The pages of research/ are made from the committed rows and notes."""

import re
from pathlib import Path

import pytest
from script_modules import load

from lingraft.errors import DataError

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "research"
SCRIPTS = "research/scripts"
document, archive = load("results_page", SCRIPTS), load("archive", SCRIPTS)
FIGURE = "](../figures/"


def test_the_results_page_is_made_from_the_committed_rows():
    """After a change: python research/scripts/results_page.py."""
    made = document.files(FOLDER)
    page = made.pop(document.PAGE)
    assert (FOLDER / document.PAGE).read_text(encoding="utf-8") == page
    shown = {part.partition(")")[0] for part in page.split(FIGURE)[1:]}
    assert shown == {name.removeprefix("figures/") for name in made}
    assert document.files(FOLDER) == {document.PAGE: page, **made}


def test_the_page_of_the_source_grid_is_made_from_the_committed_rows():
    """After a change: python research/scripts/source_grid_page.py."""
    page, figure = load("source_grid_page", SCRIPTS).made().items()
    assert page[0].read_text(encoding="utf-8") == page[1]
    assert f"{FIGURE}{figure[0].name})" in page[1]


def test_the_page_of_the_translation_study_is_made_from_the_committed_rows():
    """After a change: python research/scripts/translation_page.py."""
    page, *figures = load("translation_page", SCRIPTS).made().items()
    assert page[0].read_text(encoding="utf-8") == page[1]
    assert len(figures) == 8
    assert all(f"{FIGURE}{path.name})" in page[1] for path, _ in figures)


def test_links_of_the_pages_lead_somewhere():
    lost = []
    for page in (*FOLDER.glob("pages/*.md"), FOLDER / "README.md"):
        targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        paths = [target for target in targets if "://" not in target and "/figures/" not in target]
        lost += [f"{page.name}: {path}" for path in paths if not (page.parent / path).exists()]
    assert lost == []


def test_a_figure_of_a_label_that_no_cell_has_is_an_error_that_names_the_labels(tmp_path):
    (tmp_path / "notes").mkdir()
    archive.write("study-demo", archive.lines("study-demo"), tmp_path / "rows")
    (tmp_path / "notes/study-demo.md").write_text("<!-- figure of:\nA = scrach\n-->\n", "utf-8")
    with pytest.raises(DataError, match="no cell is called 'scrach'; there are XPT; scratch; auto"):
        document.files(tmp_path)


def test_tables_are_replaced_by_name_and_rows_stay(tmp_path):
    rows = archive.of_study("study-demo")[:3]
    archive.write("study-x", rows, tmp_path)
    archive.keep("study-x", {"one": [{"a": 1}], "two": [{"b": "가"}]}, tmp_path)
    archive.keep("study-x", {"one": [{"a": 2}, {"a": 3}]}, tmp_path)
    assert archive.of_study("study-x", tmp_path) == rows
    assert archive.table("study-x", "one", tmp_path) == [{"a": 2}, {"a": 3}]
    assert archive.table("study-x", "two", tmp_path) == [{"b": "가"}]
