"""The pages of research/ are made from the committed rows and notes.

The README's table and picture are made from the committed rows of the demo's study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    assert (FOLDER / document.PAGE).read_text("utf-8") == page
    shown = {part.partition(")")[0] for part in page.split(FIGURE)[1:]}
    assert shown == {name.removeprefix("figures/") for name in made}
    assert document.files(FOLDER) == {document.PAGE: page, **made}


@pytest.mark.parametrize(("script", "figures"), [("source_grid_page", 1), ("translation_page", 8)])
def test_pages_of_studies_are_made_from_the_committed_rows(script, figures):
    """After a change: python research/scripts/SCRIPT.py."""
    (path, text), *drawn = load(script, SCRIPTS).made().items()
    assert path.read_text("utf-8") == text
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


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo() -> Any:
    return load("readme_demo")


@pytest.fixture(scope="module")
def rows(demo: Any) -> list[Any]:
    """The committed rows of the demo's methods."""
    return load("archive", "research/scripts").read("study-demo")


def test_the_readme_is_made_of_the_committed_rows(demo: Any, rows: list[Any]) -> None:
    """After a change: make demo-seeds."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert demo.rewritten(readme, rows) == readme
    drawn, path = demo.picture(), "docs/assets/text.svg"
    assert (ROOT / path).read_text("utf-8") == drawn.svg
    assert f"]({path})" in readme
