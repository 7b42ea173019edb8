"""The kind of a file decides how it is read; what cannot be read is counted or one line."""

import bz2
import gzip
import itertools
import json
import logging
import lzma
import random
import sys
from pathlib import Path

import pytest

from lingraft.corpus import inputs
from lingraft.corpus.readers import columns, documents as readers, lines, parallel
from lingraft.corpus.readers.columns import MORE_CELLS, NO_TEXT_FIELD, NOT_WHERE
from lingraft.corpus.readers.documents import Document
from lingraft.corpus.readers.layout import TextSource
from lingraft.corpus.readers.lines import BROKEN_JSON, BROKEN_UTF8, EMPTY, Counts
from lingraft.errors import DataError
from lingraft.recipe import Corpus

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = {"a": "첫 문서", "b": "둘째 문서\n두 줄", 3: "끝"}
JSONL = "".join(json.dumps({"id": name, "text": ROWS[name]}) + "\n" for name in ROWS).encode()
EXPECTED = [Document(str(name), text) for name, text in ROWS.items()]
DUMP = """<mediawiki xml:lang="ko"><siteinfo><dbname>kowiki</dbname></siteinfo><page>
<title>제목</title><ns>0</ns><id>5</id><revision><id>7</id><text>'''제목'''은 [[글]]이다.</text>
</revision></page></mediawiki>""".encode()
WET = (
    "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.kr/b\r\n"
    "WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: text/plain\r\n"
    "Content-Length: 21\r\n\r\n제목은 글이다.\r\n\r\n"
).encode()
PAGE = "<html><body><main><p>제목은 글이다.</p></main></body></html>".encode()
ONE = "제목은 글이다."


def read(path: Path | str, **changes: object) -> tuple[list[Document], Counts]:
    section, reading = Corpus(text=(str(path),), **changes), Counts()
    found = readers.resolve(section.text)
    return [one for source in found for one in readers.read(source, section, reading)], reading


def is_refused(path: Path, data: bytes) -> bool:
    path.write_bytes(data)
    try:
        if path.suffix == ".tmx":
            list(parallel.read([path], ("en", "ko"), Counts()))
        else:
            read(path)
    except DataError as error:
        return path.name in str(error) or pytest.fail(str(error))
    return False


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("A.JSONL", JSONL, EXPECTED),
        ("a.b.json.gz", gzip.compress(JSONL, mtime=0), EXPECTED),
        ("a.jsonl.xz", lzma.compress(JSONL), EXPECTED),
        ("a.ndjson.bz2", bz2.compress(JSONL), EXPECTED),
        ("kowiki.xml", DUMP, [("kowiki:5", ONE)]),
        ("kowiki.xml.bz2", bz2.compress(DUMP), [("kowiki:5", ONE)]),
        ("ko-articles1.xml-p1p412.bz2", bz2.compress(DUMP), [("kowiki:5", ONE)]),
        ("a.html", PAGE, [(readers.content_id(ONE), ONE)]),
        ("a.wet.gz", gzip.compress(WET), [("http://a.kr/b", ONE)]),
    ],
)
def test_the_kind_of_a_file_decides_how_it_is_read(tmp_path, name, data, expected):
    (tmp_path / name).write_bytes(data)
    documents, reading = read(tmp_path)
    assert [(one.id, one.text.strip()) for one in documents] == expected
    assert (reading.documents, reading.dropped) == (len(expected), {})


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hub:a/b", ("a/b", None, None, "train")),
        ("hub:a/b:ko#test", ("a/b", "ko", None, "test")),
        ("hub:a/b:ko@refs/convert/parquet", ("a/b", "ko", "refs/convert/parquet", "train")),
    ],
)
def test_a_hub_dataset_is_asked_for_by_name_configuration_and_revision(monkeypatch, name, asked):
    datasets = pytest.importorskip("datasets")

    def load_dataset(dataset, config, *, revision, split, **_):
        return [{"text": f"{(dataset, config, revision, split)}"}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert read(name)[0][0].text == str(asked)
    assert inputs.texts([name]) == [name]


def test_a_missing_package_is_told_before_the_first_of_many_files_is_read(tmp_path, monkeypatch):
    for name in ("a.txt", "b.xml.bz2"):
        (tmp_path / name).write_bytes(b"x\n")
    monkeypatch.setitem(sys.modules, "mwparserfromhell", None)
    with pytest.raises(DataError, match=r'needs the package .*pip install "lingraft\[wiki\]"'):
        readers.resolve([tmp_path])


def test_a_folder_gives_its_files_of_text_and_tells_the_others(tmp_path, caplog):
    texts = ("a.txt", "b/1.txt", "b/2.txt.xz", "source.txt")
    others = (".hidden.txt", ".git/x.txt", "README.md", "readme.txt", "LICENSE.txt.gz", "a.docx")
    made = ("ko/.lock", "ko/train/00000.jsonl", "run/.lock", "run/corpus/train.txt")
    for name in (*texts, *others, *made):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "b" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "again.txt").symlink_to(tmp_path / "b/1.txt")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing")
    names = [Path(one.name).relative_to(tmp_path) for one in readers.resolve([tmp_path])]
    assert list(map(str, names)) == ["a.txt", "again.txt", "b/2.txt.xz", "source.txt"]
    with caplog.at_level(logging.INFO, logger="lingraft"):
        readers.tell([tmp_path, "hub:a/b"])
    assert len(caplog.messages) == 1
    assert {"1 .docx", "1 .md", "1 .txt"} < set(
        caplog.text.strip().split("not read: ")[1].split(", ")
    )
    with pytest.raises(DataError, match="unfinished corpora of lingraft"):
        readers.resolve([tmp_path / "ko"])
    (tmp_path / "ko" / "corpus.json").write_text('{\n "fingerprint": "x"}\n')
    (shard,) = readers.resolve([tmp_path / "ko"])
    assert shard.name == str(tmp_path / "ko/train/00000.jsonl")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wikimedia/wikipedia", "written hub:wikimedia/wikipedia"),
        ("a.docx", r"unknown kind of file; allowed: .txt .jsonl .ndjson .json .csv .parquet .xml"),
        ("b.parquet.gz", "unknown kind of file"),
        ("folder", "no text in this directory"),
        ("hub:a/b@", "a revision behind an @"),
    ],
)
def test_what_cannot_be_resolved_is_a_data_error(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    for file in ("a.docx", "b.parquet.gz"):
        (tmp_path / file).write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=message):
        readers.resolve([name])


def test_bad_json_lines_are_counted_by_reason_with_three_examples(tmp_path: Path):
    lines = [
        b'{"text": "good"}', b'{"text": ', b"[" * 100_000, b'{"text": null}', b'["a list"]',
        b'{"text": "\xff"}', b"", b'{"text": " "}', b'{"text": ' + b"1" * 5_000 + b"}", b"{broken",
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    documents, reading = read(tmp_path / "a.jsonl")
    assert [document.text for document in documents] == ["good"]
    assert reading.documents == len(lines)
    assert reading.dropped == {BROKEN_JSON: 4, NO_TEXT_FIELD: 2, BROKEN_UTF8: 1, EMPTY: 2}
    assert list(map(len, reading.samples[BROKEN_JSON])) == [9, 300, 300]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b'[\n {"text": "x"},\n {"text": "y"}\n]\n', "is one array; write one obj"),
        ("a.json", b"plain\ntext\n", "a line must be one JSON object"),
        ("a.json", b'{"content": "x", "n": 1}\n', "its fields are content, n; set corpus.text"),
        ("a.json", b'{"text": {"ko": "x"}}\n' * 9, "its fields are text; set corpus.text"),
        ("a.json", b'{"text": null}\n' * 9, "its fields are text; set corpus.text"),
        ("a.csv", b"id,body\n1,x\n", "its fields are id, body; set corpus.text_column"),
        ("a.csv", b'text\n"nie geschlossen\n', "is no CSV .*unexpected end"),
        ("a.csv", b"id,text\n1,Yes, or no\n2,No\n3,So, so\n", "2 of its 3 lines have more cells"),
    ],
)
def test_a_table_without_any_text_says_what_it_holds(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


def test_an_array_on_one_line_is_refused_however_long(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 50)
    (tmp_path / "a.json").write_text(json.dumps([{"text": "x" * 40}] * 5))
    with pytest.raises(DataError, match="is one array; write one object a line"):
        read(tmp_path / "a.json")


def test_a_table_of_one_column_has_whole_lines(tmp_path: Path):
    (tmp_path / "a.csv").write_text('text\nFirst, we go; then we sleep.\n"Quoted, it is whole."\n')
    documents, reading = read(tmp_path / "a.csv")
    texts = [document.text for document in documents]
    assert texts == ["First, we go; then we sleep.", "Quoted, it is whole."]
    (tmp_path / "b.csv").write_text("id,text\n1,Yes,\n2,No\n3,So, so\n")
    documents, reading = read(tmp_path / "b.csv")
    assert ([document.text for document in documents], dict(reading.dropped)) == (
        ["Yes", "No"],
        {MORE_CELLS: 1},
    )


def test_rows_without_text_at_the_beginning_of_a_part_are_counted(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(columns, "FIRST_ROWS", 10)
    path, section = tmp_path / "a.jsonl", Corpus(text=("x",))
    path.write_bytes(b'{"text": null}\n' * 90 + b'{"text": "x"}\n' * 30)
    size = path.stat().st_size
    for spans in ((None,), ((0, 300), (300, 600), (600, size))):  # the first one has no text
        reading = Counts()
        sources = [TextSource("a.jsonl", path, span) for span in spans]
        assert sum(1 for one in sources for _ in readers.read(one, section, reading)) == 30
        assert reading.dropped == {NO_TEXT_FIELD: 90}


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "hub"])
def test_fields_inside_fields_are_named_with_a_point(tmp_path: Path, name: str):
    languages = (("Haus", "de"), ("집", "ko"), ("Baum", "de"), ("tree", None))
    rows = [
        {"doc": {"body": {"text": text}}, "id": f"d{n}", "meta": {"lang": lang}}
        for n, (text, lang) in enumerate(languages)
    ]
    if name == "a.parquet":
        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / name)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / ("train.jsonl" if name == "hub" else name)).write_text(lines)
    place = f"hub:{tmp_path}" if name == "hub" else tmp_path / name
    documents, reading = read(place, where={"meta.lang": "de"}, text_column="doc.body.text")
    assert documents == [("d0", "Haus"), ("d2", "Baum")]
    assert reading.dropped == {NOT_WHERE: 2}
    with pytest.raises(DataError, match=r"no text in the field 'doc.title'; its fields are doc"):
        read(place, text_column="doc.title")


@pytest.mark.parametrize(
    ("odd", "message"),
    [(b'{"content": "x"}\n', "set corpus.text"), (b"\xb0\xed\xbe\xe7\n", "are not UTF-8")],
)
def test_a_bad_stretch_of_a_file_is_no_reason_to_refuse_it_but_its_beginning_is(
    tmp_path: Path, odd: bytes, message: str
):
    path, section = tmp_path / "a.jsonl", Corpus(text=("x",))
    path.write_bytes(b'{"text": "x"}\n' * 50 + odd * 400 + b'{"text": "x"}\n' * 50)
    size = path.stat().st_size
    spans = itertools.pairwise([0, *range(400, size, 400), size])
    sources = [TextSource("a.jsonl", path, span) for span in spans]
    assert sum(1 for one in sources for _ in readers.read(one, section, Counts())) == 100
    path.write_bytes(odd * 400 + b'{"text": "x"}\n' * 50)
    with pytest.raises(DataError, match=message):
        list(readers.read(sources[0], section, Counts()))


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".csv", ".parquet", ".txt.gz", ".txt.xz"])
def test_random_bytes_never_raise_anything_but_data_errors(tmp_path: Path, suffix: str):
    generator = random.Random(suffix)
    start = {".gz": b"\x1f\x8b\x08\0", ".xz": b"\xfd7zXZ\0"}.get(Path(suffix).suffix, b"")
    for trial in range(60):
        noise = generator.randbytes(generator.choice([0, 1, 5, 50, 3_000]))
        if trial % 3 == 0:
            signs = b'{}[]":,text \n\r\t\x00\xff\xed\xa0\x80'
            noise = bytes(generator.choice(signs) for _ in noise)
        is_refused(tmp_path / f"fuzz{suffix}", (start if trial % 2 else b"") + noise)


PAGES = DUMP.replace(
    b"</page>", b"</page>" + DUMP[DUMP.index(b"<page>") : -len("</mediawiki>")] * 40
)
UNIT = '<tu><tuv xml:lang="en"><seg>A</seg></tuv><tuv xml:lang="ko"><seg>글</seg></tuv></tu>' * 9
WHOLE = {
    "a.txt.bz2": bz2.compress(JSONL * 9),
    "a.jsonl.xz": lzma.compress(JSONL * 9),
    "a.warc": WET * 4,
    "a.warc.gz": gzip.compress(WET) * 4,
    "a.tmx": f"<tmx><body>{UNIT}</body></tmx>".encode(),
    "a.xml": PAGES,
    "a.xml.bz2": bz2.compress(PAGES),
    "a.xml.gz": gzip.compress(PAGES),
    "a.xml.xz": lzma.compress(PAGES),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_file_raises_nothing_but_data_errors(tmp_path: Path, name: str):
    rng, refused = random.Random(name), 0
    for _ in range(60):
        whole = WHOLE[name]
        data = bytearray(whole[: rng.randrange(1, len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(rng.choice([0, 1, 5, 200])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        refused += is_refused(tmp_path / name, bytes(data))
    assert refused >= 10


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_csv_is_read_by_its_fields(tmp_path: Path, comma: str):
    rows = [["id", "text", "lang"], ["a", f'"말{comma} 그리고 ""말""\n둘째 줄"', "ko"],
            ["b", "이웃", "de"], ["c"]]  # fmt: skip
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(comma.join, rows)).encode())
    documents, reading = read(path)
    assert documents == [Document("a", f'말{comma} 그리고 "말"\n둘째 줄'), Document("b", "이웃")]
    assert reading.dropped == {NO_TEXT_FIELD: 1}
    assert [one.id for one in read(path, where={"lang": "de"})[0]] == ["b"]
