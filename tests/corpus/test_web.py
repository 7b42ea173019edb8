import gzip
import time
from pathlib import Path

import pytest

from lingraft.corpus.readers import markup
from lingraft.corpus.readers.layout import TextSource
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Counts
from lingraft.errors import DataError
from lingraft.recipe import Corpus

pytest.importorskip("fastwarc")
pytest.importorskip("resiliparse")

PAGE = """<!doctype html><html><head><title>표제</title><meta charset="{0}">
<script>alert("코드")</script><style>p {{}}</style></head><body>
<nav><ul><li><a href="/">홈</a><li><a href="/x">소개</a></ul></nav>
<div><div><main><article><h1>제목</h1><p>첫 문단은 <b>여기</b> 있다.<br>둘째 줄.
<ul><li>첫 항목<li>끝 항목</ul><p>끝 문단 &amp; 인용.</article></main></div></div>
<footer>저작권</footer></body></html>"""


def read(path: Path, data: bytes) -> tuple[list[tuple[object, str]], dict[str, int]]:
    path.write_bytes(data)
    reader = markup.read_html if path.suffix == ".html" else markup.read_crawl
    reading = Counts()
    found = list(reader(TextSource(path.name, path), Corpus(text=("x",)), reading))
    return found, dict(reading.dropped)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "euc-kr"])
def test_html_gives_its_main_text_in_the_encoding_it_names(tmp_path: Path, encoding: str):
    [(_, text)], _ = read(tmp_path / "a.html", PAGE.format(encoding).encode(encoding))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines == [
        "제목", "첫 문단은 여기 있다.", "둘째 줄.", "첫 항목", "끝 항목", "끝 문단 & 인용.",
    ]  # fmt: skip


def test_a_page_cut_anywhere_is_read_or_counted(tmp_path: Path):
    data = PAGE.format("utf-8").encode()
    for end in range(0, len(data), 13):
        texts, dropped = read(tmp_path / "a.html", data[:end])
        assert len(texts) + sum(dropped.values()) == 1


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (b"<html><script>x()</script></html>", markup.NO_MAIN_TEXT),
        (("<p>" + "가" * 4_000_000).encode(), LINE_TOO_LONG),
        (PAGE.format("undefined").encode("euc-kr"), markup.UNKNOWN_ENCODING),
        (b"<!-- </div> -->" + b"<div>" * 20_000 + b"here is text", markup.NESTED_TOO_DEEPLY),
    ],
)
def test_a_page_without_text_is_counted_at_once(tmp_path: Path, page: bytes, reason: str):
    """20,000 elements within each other took 9 seconds."""
    start = time.monotonic()
    assert read(tmp_path / "a.html", page) == ([], {reason: 1})
    assert time.monotonic() - start < 2


def record(kind: str, media: str, body: bytes, address: str = "http://a.example/1") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\n"
        "WARC-Record-ID: <urn:uuid:cc8c6d87-9e37-4705-8d4d-4c777d07370e>\r\n"
        f"WARC-Target-URI: {address}\r\nWARC-Date: 2026-11-21T06:15:23Z\r\n"
        f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def response(
    page: bytes, *, status: str = "200 OK", media: str = "text/html", extra: str = ""
) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\n{extra}\r\n".encode()
    return record("response", "application/http; msgtype=response", head + page)


def page(text: str, encoding: str = "utf-8") -> bytes:
    return f"<html><body><main><p>{text}</p></main></body></html>".encode(encoding)


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_pages_come_with_their_address_and_what_wget_keeps_of_itself_does_not(
    tmp_path: Path, suffix: str
):
    chunks = b"%x\r\n" % len(packed := gzip.compress(page("셋째"))) + packed + b"\r\n0\r\n\r\n"
    extra = "Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n"
    log = "<metadata://gnu.org/software/wget/warc/wget.log>"
    records = [
        response(page("첫 쪽이다.")),
        record("request", "application/http", b"GET /"),
        response(page("둘째 쪽이다.", "euc-kr"), media="text/html; charset=EUC-KR"),
        response(chunks, extra=extra),
        record("resource", "text/plain", b"HTTP request sent", log),
        record("conversion", "text/plain", "줄 하나\n줄 둘".encode(), "<http://a.example/2>"),
    ]
    pack = gzip.compress if suffix.endswith("gz") else bytes
    found, dropped = read(tmp_path / f"a{suffix}", b"".join(map(pack, records)))
    texts = ["첫 쪽이다.", "둘째 쪽이다.", "셋째"]
    expected = [("http://a.example/1", text) for text in texts]
    assert found == [*expected, ("http://a.example/2", "줄 하나\n줄 둘")]
    assert not dropped


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (response(page("없다"), status="404 Not Found"), markup.NOT_OK),
        (response(b"\x89PNG", media="image/png"), markup.NOT_TEXT),
        (
            response(gzip.compress(b"x" * 11_000_000), extra="Content-Encoding: gzip\r\n"),
            LINE_TOO_LONG,
        ),
        (response(b"not gzip at all", extra="Content-Encoding: gzip\r\n"), markup.BROKEN_RECORD),
    ],
)
def test_a_bad_page_is_counted_and_the_next_one_read(tmp_path: Path, bad: bytes, reason: str):
    found, dropped = read(tmp_path / "a.warc", bad + response(page("좋은 쪽.")))
    assert [text for _, text in found] == ["좋은 쪽."]
    assert dropped == {reason: 1}


def test_the_last_record_of_a_crawl_that_was_stopped_is_counted(tmp_path: Path):
    data = response(page("좋은 쪽.")) + response(page("잘린 쪽."))[:-30]
    assert read(tmp_path / "a.warc", data)[1] == {markup.CUT_SHORT: 1}
    with pytest.raises(DataError, match=r"a\.warc"):
        read(tmp_path / "a.warc", b"")
