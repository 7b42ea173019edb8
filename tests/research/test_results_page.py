"""The pages of research/ are made from the committed rows and notes."""

from pathlib import Path

import pytest
from script_modules import load

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


@pytest.mark.parametrize(("script", "figures"), [("source_grid_page", 1), ("translation_page", 8)])
def test_pages_of_studies_are_made_from_the_committed_rows(script, figures):
    """After a change: python research/scripts/SCRIPT.py."""
    (path, text), *drawn = load(script, SCRIPTS).made().items()
    assert path.read_text(encoding="utf-8") == text
    assert len(drawn) == figures
    assert all(f"{FIGURE}{figure.name})" in text for figure, _ in drawn)


def test_tables_are_replaced_by_name_and_rows_stay(tmp_path):
    rows = archive.of_study("study-demo")[:3]
    archive.write("study-x", rows, tmp_path)
    archive.keep("study-x", {"one": [{"a": 1}], "two": [{"b": "가"}]}, tmp_path)
    archive.keep("study-x", {"one": [{"a": 2}, {"a": 3}]}, tmp_path)
    assert archive.of_study("study-x", tmp_path) == rows
    assert archive.table("study-x", "one", tmp_path) == [{"a": 2}, {"a": 3}]
    assert archive.table("study-x", "two", tmp_path) == [{"b": "가"}]
