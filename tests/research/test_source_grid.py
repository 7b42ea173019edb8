"""The scripts of the source x target grid."""

from __future__ import annotations

import pytest
from script_modules import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data():
    return vars(load("build_source_grid_data", "research/scripts"))


@pytest.fixture(scope="module")
def page():
    return vars(load("source_grid_page", "research/scripts"))


def test_documents_are_stretches_of_lines_and_hold_them_all(data):
    lines = [f"line {number}" for number in range(45)]
    found = list(data["documents"](lines, "x"))
    assert [key for key, _ in found] == ["x-00000", "x-00001", "x-00002"]
    assert "\n".join(text for _, text in found).split("\n") == lines


def test_paragraphs_are_those_that_all_languages_have(data, tmp_path, monkeypatch):
    sides = {"de": {"one": "eins", "two": "zwei"}, "ja": {"two": "二", "three": "三"}}
    by_file = {
        data["HELP"].format(code): [f"{a}\t{b}" for a, b in sides[code].items()] for code in sides
    }
    names = data["shared_paragraphs"].__globals__
    monkeypatch.setitem(names, "LANGUAGES", {"de": "de", "ja": "ja"})
    monkeypatch.setitem(names, "lines", lambda path: by_file[str(path.relative_to(tmp_path))])
    assert data["shared_paragraphs"](tmp_path) == {"en": ["two"], "de": ["zwei"], "ja": ["二"]}


def test_a_source_is_judged_by_what_it_does_for_the_other_targets(page):
    final = {"ko": {"en": 3.0, "ja": 2.0}, "es": {"en": 1.0, "ja": 3.0}, "zh": {"ja": 4.0}}
    found = page["elsewhere"](final)
    assert found["ko"]["en"] == pytest.approx(-1.0)  # 1.0 less the mean of es, 2.0
    assert found["ko"]["ja"] == pytest.approx((1.0 + 0.0) / 2)
    assert found["zh"] == {"ja": pytest.approx((-0.5 + 1.0) / 2)}
