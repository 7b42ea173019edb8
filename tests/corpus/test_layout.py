"""Text as people have it: wrapped, numbered, packed; read as what it is, and told."""

import bz2
import gzip
import json
import logging
import lzma
import random
import textwrap
import tracemalloc
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lingraft.corpus import stage
from lingraft.corpus.readers import documents, layout
from lingraft.corpus.readers.layout import TextLayout
from lingraft.corpus.readers.lines import BROKEN_UTF8, LINE_TOO_LONG, Counts, raw_lines, text_lines
from lingraft.errors import DataError
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
    return [one.text for s in sources for one in documents.read(s, section, Counts())]


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


HINDI = "भारत दक्षिण एशिया में स्थित एक देश है जिसकी सीमाएँ कई देशों से मिलती हैं संस्कृति विद्यार्थियों"
KOREAN = "파일을 마지막으로 저장한 사람과 새로운 문서를 여는 방법이 여기 있고 그것은 매우 쉽다"
VIETNAMESE = unicodedata.normalize("NFD", "người việt nam nói tiếng việt và họ sống ở một")


def terminal(text: str) -> int:
    """Columns, by the database of Unicode."""
    marks = sum(unicodedata.category(letter) in ("Mn", "Me", "Cf") for letter in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(one) in "WF" for one in text)


def filled(words: list[str], width: int, measure: Callable[[str], int]) -> str:
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        lines[-1:] = [longer] if measure(longer) <= width else [lines[-1], word]
    return "\n".join(lines)


@pytest.mark.parametrize("measure", [len, terminal])
@pytest.mark.parametrize("words", [HINDI, KOREAN, VIETNAMESE], ids=["hi", "ko", "vi"])
def test_text_is_wrapped_at_characters_or_at_columns(
    words: str, measure: Callable[[str], int], tmp_path: Path
):
    rng, path = random.Random(0), tmp_path / "a.txt"
    whole = [rng.choices(words.split(), k=60) for _ in range(30)]
    path.write_text("\n\n".join(filled(one, 60, measure) for one in whole), "utf-8")
    assert texts(path) == [" ".join(one) for one in whole]
    (told,) = documents.guesses(
        documents.laid_out(documents.resolve([str(path)]), Corpus(text=("x",)))
    )
    assert ("at 60 columns" in told) is (measure is terminal)


@pytest.mark.parametrize(
    "letters",
    [
        "การประชุมครั้งนี้เป็นไปได้ด้วยดี",
        "這是一個很長的句子，我們每天都寫中文。",
        "これは「日本語」の、とても長い文章です。",
    ],
    ids=["th", "zh", "ja"],
)
def test_no_space_stands_between_lines_of_scripts_without_spaces(letters: str, tmp_path: Path):
    rng, path = random.Random(0), tmp_path / "a.txt"
    whole = ["".join(rng.choices(letters, k=600)) for _ in range(20)]
    wrapped = ("\n".join(one[n : n + 40] for n in range(0, 600, 40)) for one in whole)
    path.write_text("\n\n".join(wrapped), "utf-8")
    assert texts(path) == whole


def test_lines_and_paragraphs_of_chinese_that_nobody_wrapped_stay(tmp_path: Path):
    rng, path, han = (
        random.Random(0),
        tmp_path / "a.txt",
        "的一是在不了有和人這中大為上個國我以要他",
    )
    lines = ["".join(rng.choices(han, k=rng.randint(16, 21))) for _ in range(300)]
    path.write_text("\n".join(lines), "utf-8")
    assert texts(path) == lines
    whole = ["".join(rng.choices(han, k=20 * n + rng.randint(2, 15))) + "。" for n in range(3, 33)]
    wrapped = (one[n : n + 20] for one in whole for n in range(0, len(one), 20))
    path.write_text("\n".join(wrapped), "utf-8")
    assert texts(path) == whole


def test_wrapped_documents_of_a_table_are_joined(tmp_path: Path):
    text = "\n\n".join(textwrap.fill(one, 66) for one in paragraphs(20))
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    assert texts(tmp_path / "a.jsonl")[0].split("\n\n") == paragraphs(20)
    assert texts(tmp_path / "a.jsonl", split_sentences=False) == [text]


def test_a_hyphen_at_a_lines_end_goes_only_where_the_word_stands_elsewhere():
    lines = ["an inter-", "national rule, a well-", "known Vor-", "und Nachteil, soft\u00ad", "ly"]
    text = "an international rule, a well-known Vor- und Nachteil, softly"
    assert list(layout.joined(lines, (12, False), {"international"})) == [text]


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
    assert {source.layout for source in sources} == {TextLayout(expected)}
    (told,) = documents.guesses(sources)
    assert f"{TextLayout(expected).told} (a guess; set corpus.document" in told
    assert (f"and {files - 1} more" in told) == (files > 1)


COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
TEXT = "".join(f"줄 {number}: {random.Random(number).random()}\n" for number in range(400)).encode()


def lines(path: Path) -> list[str]:
    return list(text_lines(path, Counts()))


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_gives_the_lines_of_the_plain_ones(tmp_path: Path, suffix: str):
    packed = COMPRESS[suffix](TEXT) + COMPRESS[suffix](b"two\n")
    expected = [*TEXT.decode().splitlines(), "two"]
    assert lines(written(tmp_path, f"a.txt{suffix}", packed)) == expected


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_that_is_cut_is_one_line(tmp_path: Path, suffix: str):
    packed = COMPRESS[suffix](TEXT)
    cuts = [*range(1, 12), *range(12, len(packed), 197), *range(len(packed) - 12, len(packed))]
    for data in (b"plain text\n", *(packed[:cut] for cut in cuts)):
        with pytest.raises(DataError, match=rf"a\.txt\{suffix}: cannot be read: broken or cut"):
            lines(written(tmp_path, f"a.txt{suffix}", data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("안녕".encode("utf-16"), "is UTF-16 or no text"),
        ("안녕".encode("utf-32"), "is UTF-16 or no text"),
        ("plain ascii\n".encode("utf-16-le"), r"convert it \(iconv -f UTF-16"),
        ("한국어 문장입니다.\n".encode("euc-kr") * 3, "3 of its 3 lines are not UTF-8"),
        ((b"no accent\n" * 7 + "größer\n".encode("latin-1")) * 20, "20 of its 160 lines are not"),
        (random.Random(0).randbytes(50_000), "lines are not UTF-8, so it is binary"),
    ],
)
def test_what_is_not_utf8_text_is_refused_by_name(tmp_path: Path, data: bytes, message: str):
    with pytest.raises(DataError, match=message) as caught:
        lines(written(tmp_path, "odd.txt", data))
    assert "odd.txt" in str(caught.value)


def test_broken_lines_are_counted_and_the_others_kept(tmp_path: Path):
    reading = Counts()
    path = written(tmp_path, "a.txt", b"\xef\xbb\xbfgood\n\xff\xfe bad\nalso good\n")
    assert list(text_lines(path, reading)) == ["good", "also good"]
    assert reading.dropped == {BROKEN_UTF8: 1}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_exactly_the_limit_is_kept_and_one_byte_more_is_not(
    tmp_path: Path, end: bytes, monkeypatch
):
    monkeypatch.setattr("lingraft.corpus.readers.lines.MAX_LINE_BYTES", 10)
    reading = Counts()
    path = written(tmp_path, "a.txt", end.join([b"x" * 10, b"y" * 11, b"z" * 30, b"w"]))
    assert list(text_lines(path, reading)) == ["x" * 10, "w"]
    assert reading.dropped == {LINE_TOO_LONG: 2}


def test_lines_that_end_as_on_an_old_mac_are_refused(tmp_path: Path):
    path = written(tmp_path, "a.txt", b"One line.\rAnother line.\rA third one.\r")
    with pytest.raises(DataError, match="ends its lines with CR alone"):
        list(text_lines(path, Counts()))


def test_a_file_of_nothing_but_too_long_lines_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("lingraft.corpus.readers.lines.MAX_LINE_BYTES", 10)
    path = written(tmp_path, "a.txt", b"x" * 11)
    with pytest.raises(DataError, match=r"a\.txt: holds lines of more than .* alone"):
        list(text_lines(path, Counts()))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_of_100_megabytes_is_never_held(tmp_path: Path, suffix: str):
    path = tmp_path / f"long.txt{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(b"x" * 100_000_000 + b"\nshort\n"))
    tracemalloc.start()
    try:
        assert list(text_lines(path, Counts())) == ["short"]
        assert tracemalloc.get_traced_memory()[1] < 80_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1, 7, 50, 5_000])
def test_spans_that_cover_a_file_give_every_line_once_in_order(tmp_path: Path, size: int):
    text = b"\xef\xbb\xbf" + "첫 줄\r\n\n".encode() + b"x" * 300 + "\n둘\n셋\n끝".encode()
    path = written(tmp_path, "a.txt", text)
    ends = [*range(size, len(text), size), len(text)]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    found = [line for span in spans for line in raw_lines(path, 100, span)]
    assert found == list(raw_lines(path, 100))
    assert len(found) == 6
    assert None in found
