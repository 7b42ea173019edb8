"""Gold links and sentences out of every format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lingraft.crosslingual import bitext, links
from lingraft.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

SENTENCES = [("das haus ist klein", "the house is small"), ("ja", "yes , sir")]
SURE = [{(0, 0), (1, 1), (3, 3)}, {(0, 0)}]
POSSIBLE = [{(2, 2), (2, 3)}, set()]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def texts(folder: Path) -> list[Path]:
    sides = zip(*SENTENCES, strict=True)
    return [
        written(folder, name, "\n".join(side) + "\n")
        for name, side in zip(("test.de", "test.en"), sides, strict=True)
    ]


def triples(base: int, marked: bool) -> str:
    lines = []
    for number, (sure, possible) in enumerate(zip(SURE, POSSIBLE, strict=True), 26):
        mark = " S" if marked else ""
        lines += [f"{number:04d} {i + base} {j + base}{mark}" for i, j in sorted(sure)]
        lines += [f"{number:04d}  {i + base} {j + base} P" for i, j in sorted(possible)]
    return "\n".join(lines) + "\n"


def pharaoh(base: int, numbered: bool = False) -> str:
    lines = []
    for number, (sure, possible) in enumerate(zip(SURE, POSSIBLE, strict=True)):
        own = [f"{i + base}-{j + base}" for i, j in sure]
        own += [f"{i + base}p{j + base}" for i, j in possible]
        lines.append((f"{number}\t" if numbered else "") + " ".join(own))
    return "\n".join(lines) + "\n"


def rows(possible: list[set[tuple[int, int]]]) -> str:
    records = [
        {"src": source, "tgt": target.split(), "sure": sorted(sure), "possible": sorted(more)}
        for (source, target), sure, more in zip(SENTENCES, SURE, possible, strict=True)
    ]
    return "".join(json.dumps(record) + "\n" for record in records)


FORMATS = {
    "XLM-Align": (triples(1, marked=True), None),
    "XLM-Align without a mark is sure": (triples(1, marked=False), None),
    "XLM-Align from 0": (triples(0, marked=True), 0),
    "Pharaoh": (pharaoh(0), None),
    "Pharaoh from 1": (pharaoh(1), 1),
    "fast_align": (pharaoh(0, numbered=True), None),
    "fast_align from 1": (pharaoh(1, numbered=True), 1),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_links(name: str, tmp_path: Path) -> None:
    content, base = FORMATS[name]
    gold = links.read("de-en", written(tmp_path, "gold", content), texts(tmp_path), base=base)
    assert [set(one.sure) for one in gold.gold] == SURE
    assert [set(one.possible) for one in gold.gold] == [
        sure | more for sure, more in zip(SURE, POSSIBLE, strict=True)
    ]
    assert gold.pairs[1].target == ("yes", ",", "sir")


@pytest.mark.parametrize("superset", [False, True])
def test_json_lines_may_list_sure_links_among_the_possible_ones(
    superset: bool, tmp_path: Path
) -> None:
    everything = [sure | more for sure, more in zip(SURE, POSSIBLE, strict=True)]
    path = written(tmp_path, "gold.jsonl", rows(everything if superset else POSSIBLE))
    gold = links.read("de-en", path)
    assert [set(one.sure) for one in gold.gold] == SURE
    assert [set(one.possible) for one in gold.gold] == everything


def test_a_link_that_is_both_sure_and_possible_counts_as_sure(tmp_path: Path) -> None:
    path = written(tmp_path, "gold", "0-0 0p0 1p1\n0-0\n")
    first = links.read("x", path, texts(tmp_path)).gold[0]
    assert (first.sure, first.possible) == (frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))


def test_links_outside_are_left_out_or_kept_when_asked_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "gold", "0-0 4-0 1p9\n0-0\n")
    with pytest.raises(DataError, match="the link 4-0 lies outside its sentences of 4 and 4"):
        links.read("x", path, texts(tmp_path))
    dropped = links.read("x", path, texts(tmp_path), outside="drop")
    assert dropped.outside == 2
    assert dropped.gold[0].possible == {(0, 0)}
    missed = links.read("x", path, texts(tmp_path), outside="miss")
    assert missed.outside == 2
    assert missed.gold[0].sure == {(0, 0), (4, 0)}


@pytest.mark.parametrize(("content", "said"), [("1-2 2-1\n1-1\n", True), ("1-2 2-1\n0-1\n", False)])
def test_a_set_that_links_no_first_word_is_suspected_to_count_from_1(
    content: str, said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, "gold", content)
    sides = [written(tmp_path, "a", "a b c\na b\n"), written(tmp_path, "b", "a b c\na b\n")]
    links.read("x", path, sides)
    assert ("give base=1" in caplog.text) is said


def test_what_pharaoh_writes_is_read_back() -> None:
    found = ((0, 0), (3, 12), (10, 2))
    assert links.pharaoh(found) == "0-0 3-12 10-2"
    assert links.parsed(links.pharaoh(found)) == found
    assert links.parsed("") == ()


@pytest.mark.parametrize("form", ["files", "table", "rows"])
def test_sentences_are_read_from_two_files_a_table_or_json_lines(form: str, tmp_path: Path) -> None:
    table = "".join(f"{source}\t{target}\n" for source, target in SENTENCES)
    paths: Any = {
        "files": texts(tmp_path),
        "table": [written(tmp_path, "both.tsv", table)],
        "rows": [written(tmp_path, "both.jsonl", rows(POSSIBLE))],
    }[form]
    found = list(bitext.read(paths))
    assert [(pair.source, pair.target) for pair in found] == [
        (tuple(source.split()), tuple(target.split())) for source, target in SENTENCES
    ]


def test_files_are_grouped_into_texts(tmp_path: Path) -> None:
    a, b, c, d = (tmp_path / name for name in ("a.de", "a.en", "b.tsv.gz", "c.jsonl"))
    assert bitext.grouped([a, b, c, d]) == [(a, b), (c,), (d,)]
    assert bitext.grouped([c, a, b]) == [(c,), (a, b)]
    with pytest.raises(DataError, match="has no second side"):
        bitext.grouped([a, b, c, a])


def test_a_no_break_space_is_within_a_word(tmp_path):
    """As in fast_align, eflomal and SimAlign, whose links are by the same words."""
    text, rows = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    text.write_text("10\u00a0km  weit\tten\u3000km far\n", encoding="utf-8")
    rows.write_text('{"src": "10\u00a0km  weit", "tgt": ["ten\u3000km", "far"]}', encoding="utf-8")
    for path in (text, rows):
        (pair,) = bitext.read([path])
        assert (pair.source, pair.target) == (("10\u00a0km", "weit"), ("ten\u3000km", "far"))
