import gzip
import random
from pathlib import Path

import pytest

from lingraft.corpus.readers import markup
from lingraft.corpus.readers.documents import Source
from lingraft.corpus.readers.lines import LINE_TOO_LONG, Reading
from lingraft.errors import DataError
from lingraft.recipe import Corpus

pytest.importorskip("fastwarc")
pytest.importorskip("resiliparse")


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


def read(path: Path, **changes: object) -> tuple[list[tuple[object, str]], Reading]:
    reading = Reading()
    section = Corpus(text=(str(path),), **changes)  # type: ignore[arg-type]
    return list(markup.read_crawl(Source(path.name, path), section, reading)), reading


def texts(path: Path, data: bytes, **changes: object) -> tuple[list[str], dict[str, int]]:
    path.write_bytes(data)
    found, reading = read(path, **changes)
    return [text for _, text in found], dict(reading.dropped)


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_pages_come_with_their_address(tmp_path: Path, suffix: str) -> None:
    records = [response(page("첫 쪽이다.")), record("request", "application/http", b"GET /"),
               response(page("둘째 쪽이다."))]  # fmt: skip
    pack = gzip.compress if suffix.endswith("gz") else bytes
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"".join(map(pack, records)))
    found, reading = read(path)
    assert found == [("http://a.example/1", "첫 쪽이다."), ("http://a.example/1", "둘째 쪽이다.")]
    assert not reading.dropped


def test_the_text_of_wet_files_is_taken_as_it_is(tmp_path: Path) -> None:
    data = record("warcinfo", "application/warc-fields", b"software: x")
    data += record("conversion", "text/plain", "줄 하나\n줄 둘".encode())
    assert texts(tmp_path / "a.wet", data) == (["줄 하나\n줄 둘"], {})


def test_what_wget_keeps_of_itself_is_no_page(tmp_path: Path) -> None:
    log = b"Resolving a.example... 93.184.216.34\nHTTP request sent, awaiting response... 200 OK"
    address = "<metadata://gnu.org/software/wget/warc/wget.log>"
    data = response(page("The page.")) + record("resource", "text/plain", log, address)
    data += record("resource", "text/plain", b"A page without its header.", "<http://a.example/2>")
    path = tmp_path / "a.warc"
    path.write_bytes(data)
    first, second = read(path)[0]
    assert first == ("http://a.example/1", "The page.")
    assert second == ("http://a.example/2", "A page without its header.")


@pytest.mark.parametrize("media", ["text/html; charset=euc-kr", "text/html; charset=EUC-KR; x=y"])
def test_the_charset_that_the_server_declares_is_taken(tmp_path: Path, media: str) -> None:
    data = response(page("한국어 쪽이다.", "euc-kr"), media=media.partition("; x")[0])
    assert texts(tmp_path / "a.warc", data) == (["한국어 쪽이다."], {})


def test_chunked_and_compressed_pages_are_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(page("눌러 담은 쪽."))
    chunks = b"%x\r\n" % len(packed) + packed + b"\r\n0\r\n\r\n"
    data = response(chunks, extra="Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n")
    assert texts(tmp_path / "a.warc", data) == (["눌러 담은 쪽."], {})


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (response(page("없다"), status="404 Not Found"), markup.NOT_OK),
        (response(b"\x89PNG", media="image/png"), markup.NOT_TEXT),
        (response(page("가" * 1_000)), LINE_TOO_LONG),
        (
            response(gzip.compress(b"x" * 5_000, mtime=0), extra="Content-Encoding: gzip\r\n"),
            LINE_TOO_LONG,
        ),
        (response(b"<script>x()</script>"), markup.NO_MAIN_TEXT),
        (response(b"not gzip at all", extra="Content-Encoding: gzip\r\n"), markup.BROKEN_RECORD),
    ],
)
def test_a_bad_page_is_counted_and_the_next_one_read(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    data = bad + response(page("좋은 쪽."))
    found, dropped = texts(tmp_path / "a.warc", data, max_line_bytes=1_500)
    assert found == ["좋은 쪽."]
    assert dropped == {reason: 1}


def test_the_last_record_of_a_crawl_that_was_stopped_is_counted(tmp_path: Path) -> None:
    data = response(page("좋은 쪽.")) + response(page("잘린 쪽."))[:-30]
    assert texts(tmp_path / "a.warc", data) == (["좋은 쪽."], {markup.CUT_SHORT: 1})


@pytest.mark.parametrize("data", [b"", "그냥 글\n".encode() * 9])
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.warc"):
        texts(tmp_path / "a.warc", data)


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_archives_of_other_bytes_raise_nothing_but_a_data_error(
    tmp_path: Path, suffix: str
) -> None:
    rng = random.Random(0)
    whole = b"".join(response(page(f"{n}번 쪽이다.")) for n in range(4))
    whole = gzip.compress(whole) if suffix.endswith("gz") else whole
    path = tmp_path / f"a{suffix}"
    refusals, dropped = [], 0
    for _ in range(150):
        data = bytearray(whole[: rng.randrange(1, len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(rng.randrange(6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found, counts = texts(path, bytes(data))
        except DataError as error:
            refusals.append(str(error))
        else:
            assert len(found) <= 4
            dropped += bool(counts)
    assert refusals
    assert dropped or suffix.endswith("gz")
    assert not any("\n" in message for message in refusals)
