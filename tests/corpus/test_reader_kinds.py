"""Dumps, crawls, pages and rows: the kind of a file decides how it is read."""

import bz2
import gzip
import json
from pathlib import Path

import pytest

from lingraft.corpus.readers import documents
from lingraft.corpus.readers.documents import Document
from lingraft.corpus.readers.lines import Reading
from lingraft.recipe import Corpus

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DUMP = """<mediawiki xml:lang="ko"><siteinfo><dbname>kowiki</dbname></siteinfo><page>
<title>제목</title><ns>0</ns><id>5</id><revision><id>7</id><text>'''제목'''은 [[글]]이다.</text>
</revision></page></mediawiki>"""
WET = (
    "WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://a.kr/b\r\n"
    "WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: text/plain\r\n"
    "Content-Length: 21\r\n\r\n제목은 글이다.\r\n\r\n"
)
JSON = '{"id": 5, "text": "제목은 글이다."}\n'


def read(path: Path) -> tuple[list[Document], Reading]:
    section, reading = Corpus(text=(str(path),)), Reading()
    found = documents.resolve(section.text)
    return [one for source in found for one in documents.read(source, section, reading)], reading


@pytest.mark.parametrize(
    ("name", "text", "identifier"),
    [
        ("kowiki.xml", DUMP, "kowiki:5"),
        ("kowiki.xml.bz2", DUMP, "kowiki:5"),
        ("a.json.gz", JSON, "5"),
        ("a.html", "<html><body><main><p>제목은 글이다.</p></main></body></html>", None),
        ("a.md", "제목은 *글*이다.\n", None),
        ("a.wet.gz", WET, "http://a.kr/b"),
    ],
)
def test_the_kind_of_a_file_decides_how_it_is_read(
    tmp_path: Path, name: str, text: str, identifier: str | None
):
    data = text.encode()
    packed = {".bz2": bz2.compress, ".gz": gzip.compress}.get(Path(name).suffix, bytes)(data)
    (tmp_path / name).write_bytes(packed)
    [document], reading = read(tmp_path)
    assert document.text.strip() == "제목은 글이다."
    assert document.id == identifier or identifier is None
    assert reading.documents == 1


def test_title_and_revision_of_an_article_stay_with_it(tmp_path: Path):
    (tmp_path / "kowiki.xml").write_text(DUMP)
    [document], _ = read(tmp_path / "kowiki.xml")
    assert document.metadata == {"title": "제목", "revision": 7}


def test_of_the_xml_files_in_a_directory_only_dumps_are_read(tmp_path: Path):
    (tmp_path / "kowiki.xml.bz2").write_bytes(bz2.compress(DUMP.encode()))
    (tmp_path / "sitemap.xml").write_text("<urlset></urlset>")
    assert [source.name for source in documents.resolve([tmp_path])] == [
        str(tmp_path / "kowiki.xml.bz2")
    ]


def test_title_and_address_of_a_row_stay_with_it(tmp_path: Path):
    row = {"text": "글", "title": "제목", "url": "http://a.kr/b", "revision": None, "views": 3}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    parquet.write_table(arrow.table({key: [row[key]] for key in row}), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        [document], _ = read(tmp_path / name)
        assert document.metadata == {"title": "제목", "url": "http://a.kr/b"}
