"""Every kind of bad input: one line, exit status 1, no traceback, nothing half-made.

The messages stand in docs/errors.md, which `LINGRAFT_WRITE_DOCS=1 pytest tests/test_bad_input.py`
writes. The cases are in bad_input_cases.py.
"""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from lingraft.pipeline import checks

BAD_INPUT = runpy.run_path(str(Path(__file__).parent / "support" / "bad_input_cases.py"))
CASES, Place = BAD_INPUT["CASES"], BAD_INPUT["Place"]
DOCS = Path(__file__).parents[1] / "docs" / "errors.md"
WRITING = bool(os.environ.get("LINGRAFT_WRITE_DOCS"))
HEAD = """# Error messages

What a user can mend ends with one line on standard error and exit status 1. This table is made by
`tests/test_bad_input.py`, which causes every one of these errors and compares. Not every message is
here. In the examples the source is in `source`, the text in `ko.txt`, the recipe in `recipe.toml`
and the run in `run`.

| what is wrong | what lingraft says |
|---|---|
"""


@pytest.fixture(scope="module")
def rows():
    """Collects the rows; writes the table at the end where that is asked for."""
    collected = {}
    yield collected
    if WRITING:
        assert set(collected) == set(CASES), "run the whole file, in one process"
        DOCS.write_text(HEAD + "".join(collected[wrong] + "\n" for wrong in CASES), "utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch, korean_text, tiny_source, tiny_model, adapted):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "TRACKER_MODULES", dict(checks.TRACKER_MODULES))

    def hide(module):
        monkeypatch.setitem(sys.modules, module, None)

    place = Place(tmp_path, korean_text, (tiny_source, tiny_model, adapted), hide)
    yield place
    if place.lock:
        place.lock.close()


@pytest.mark.parametrize("wrong", CASES)
def test_bad_input_is_one_line_that_the_docs_hold(wrong, place, command, rows):
    arguments = CASES[wrong](place)
    before = finished(place.folder)
    ended = command("--quiet", *arguments)
    said = [line for line in ended.err.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line)]
    assert ended.status == 1
    assert len(said) == 1, ended.err
    assert said[0].startswith("lingraft: ")
    assert "Traceback" not in ended.out + ended.err
    assert not list(place.folder.rglob("*.partial"))
    assert before <= finished(place.folder)
    message = said[0].replace(f"{place.folder}/", "").replace("|", "\\|")
    rows[wrong] = f"| {wrong} | `{message}` |"
    if not WRITING:
        assert rows[wrong] in DOCS.read_text("utf-8").splitlines()


def finished(folder):
    """Finished stages, and files that are not lingraft's: none may go missing."""
    return {path for name in ("done.json", "thesis.tex") for path in folder.rglob(name)}


@pytest.mark.skipif(WRITING, reason="the table is written when all cases are through")
def test_the_table_of_messages_holds_the_cases_and_nothing_else():
    lines = DOCS.read_text("utf-8").removeprefix(HEAD).splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(CASES)
