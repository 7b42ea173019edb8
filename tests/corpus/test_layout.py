"""Text as people have it: wrapped, numbered, with empty lines; read as what it is, and told."""

import json
import logging
import random
import textwrap
from pathlib import Path
from typing import Any

import pytest

from lingraft.corpus import stage
from lingraft.corpus.readers import documents, layout
from lingraft.corpus.readers.layout import Layout
from lingraft.corpus.readers.lines import Reading
from lingraft.recipe import Corpus

WORDS = (
    "the", "house", "stands", "near", "a", "river", "and", "people", "know", "international",
    "rules", "about", "mountains",
)  # fmt: skip


def paragraphs(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join(" ".join(rng.choices(WORDS, k=14)).capitalize() + f" {n}." for _ in range(4))
        for n in range(count)
    ]


def texts(path: Path, **changes: Any) -> list[str]:
    section = Corpus(text=(str(path),), **changes)
    sources = documents.laid_out(documents.resolve(section.text), section)
    return [one.text for s in sources for one in documents.read(s, section, Reading())]


def kept(path: Path, out: Path, **changes: Any) -> tuple[set[str], dict[str, Any]]:
    out.mkdir()
    section = Corpus(text=(str(path),), valid=0.1, test=0.1, **changes)
    result = stage.prepare(section, "en", out)
    lines = (line for split in out.glob("*.txt") for line in split.read_text().splitlines())
    return set(lines), result


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_wrapped_lines_are_joined_and_told(
    tmp_path: Path, between: str, caplog: pytest.LogCaptureFixture
):
    whole = paragraphs(60)
    path, plain = tmp_path / "book.txt", tmp_path / "plain.txt"
    path.write_text(between.join(textwrap.fill(text, 66) for text in whole))
    plain.write_text("\n".join(whole))
    with caplog.at_level(logging.INFO, logger="lingraft"):
        found, result = kept(path, tmp_path / "wrapped")
    assert found == kept(plain, tmp_path / "whole")[0]
    unit = "a paragraph" if between == "\n" else "what stands between empty lines"
    (told,) = result["guesses"]
    assert told.startswith(f"{path}: lines are wrapped at 66 characters and joined; {unit} is a")
    assert f"corpus: {told}" in caplog.messages
    assert result["changed"][layout.JOINED] > 200
    assert f"{result['changed'][layout.JOINED]:,} changed: {layout.JOINED}" in caplog.text


def test_wrapped_documents_of_a_table_are_joined(tmp_path: Path):
    text = "\n\n".join(textwrap.fill(one, 66) for one in paragraphs(20))
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    assert texts(tmp_path / "a.jsonl")[0].split("\n\n") == paragraphs(20)
    assert texts(tmp_path / "a.jsonl", split_sentences=False) == [text]


def test_a_hyphen_at_a_lines_end_goes_only_where_the_word_stands_elsewhere():
    lines = ["an inter-", "national rule, a well-", "known Vor-", "und Nachteil, soft\u00ad", "ly"]
    text = "an international rule, a well-known Vor- und Nachteil, softly"
    assert list(layout.joined(lines, 12, {"international"})) == [text]


@pytest.mark.parametrize(
    "lines",
    [
        [" ".join(random.Random(n).choices(WORDS, k=12)) + "." for n in range(300)],
        [" ".join(random.Random(n).choices(WORDS, k=8)) for n in range(300)],
        [textwrap.fill(text, 66).title() for text in paragraphs(80)],
    ],
)
def test_lines_that_nobody_wrapped_stay(tmp_path: Path, lines: list[str]):
    (tmp_path / "a.txt").write_text("\n".join(lines))
    expected = [line for text in lines for line in text.splitlines()]
    assert texts(tmp_path / "a.txt") == expected


def test_a_table_of_numbers_and_sentences_gives_its_sentences(tmp_path: Path):
    rows = [f"{n}\t{text}" for n, text in enumerate(paragraphs(50))]
    (tmp_path / "eng-sentences.txt").write_text("\n".join([*rows, "no number"]))
    assert texts(tmp_path / "eng-sentences.txt") == [*paragraphs(50), "no number"]
    _, result = kept(tmp_path / "eng-sentences.txt", tmp_path / "out")
    assert "lines are number TAB sentence" in result["guesses"][0]


@pytest.mark.parametrize(
    ("lines", "files", "asked", "expected"),
    [
        (["one", "two", "", "three", "four", "", "five", "six"], 1, None, "block"),
        (["one", "two", "three", "four", "five", "six", "", "seven"], 1, None, "line"),
        (["one", "", "two", "", "three"], 1, None, "line"),
        (["one", "two"], 25, None, "file"),
        (["one", "two", "", "three", "four", "", "five"], 25, "block", "block"),
        (["one", "two", "", "three", "four", "", "five"], 1, "line", "line"),
        (["one", "two"], 1, "file", "file"),
    ],
)
def test_what_a_document_is_is_guessed_and_told_unless_the_recipe_says_it(
    tmp_path: Path, lines: list[str], files: int, asked: Any, expected: str
):
    for number in range(files):
        (tmp_path / f"{number}.txt").write_text("\n".join(lines))
    section = Corpus(text=(str(tmp_path),), document=asked)
    sources = documents.laid_out(documents.resolve(section.text), section)
    assert {source.layout for source in sources} == {Layout(expected)}
    (told,) = documents.guesses(sources)
    assert f"{Layout(expected).told} (a guess; set corpus.document" in told
    assert (f"and {files - 1} more" in told) == (files > 1)
