import bz2
import gzip
import lzma
import random
import tracemalloc
from pathlib import Path

import pytest

from lingraft.corpus.readers.lines import BROKEN_UTF8, LINE_TOO_LONG, Reading, raw_lines, text_lines
from lingraft.errors import DataError

COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
TEXT = "".join(f"줄 {number}: {random.Random(number).random()}\n" for number in range(400)).encode()


def lines(path: Path) -> list[str]:
    return list(text_lines(path, Reading()))


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
def test_a_compressed_file_that_is_cut_or_damaged_is_one_line_or_harmless(
    tmp_path: Path, suffix: str
):
    packed = COMPRESS[suffix](TEXT)
    cuts = [*range(1, 12), *range(12, len(packed), 197), *range(len(packed) - 12, len(packed))]
    for data in (b"plain text\n", *(packed[:cut] for cut in cuts)):
        with pytest.raises(DataError, match=rf"a\.txt\{suffix}: cannot be read: broken or cut"):
            lines(written(tmp_path, f"a.txt{suffix}", data))
    failures = []
    for place in range(0, len(packed), 31):
        damaged = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
        try:
            lines(written(tmp_path, f"a.txt{suffix}", damaged))
        except DataError as error:
            failures.append(str(error))
    assert len(failures) > 10
    assert not any("\n" in message for message in failures)


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
    assert "\n" not in str(caught.value)


def test_broken_lines_are_counted_and_the_others_kept(tmp_path: Path):
    reading = Reading()
    path = written(tmp_path, "a.txt", b"\xef\xbb\xbfgood\n\xff\xfe bad\nalso good\n")
    assert list(text_lines(path, reading)) == ["good", "also good"]
    assert reading.dropped == {BROKEN_UTF8: 1}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_exactly_the_limit_is_kept_and_one_byte_more_is_not(tmp_path: Path, end: bytes):
    reading = Reading()
    path = written(tmp_path, "a.txt", end.join([b"x" * 10, b"y" * 11, b"z" * 30, b"w"]))
    assert list(text_lines(path, reading, max_bytes=10)) == ["x" * 10, "w"]
    assert reading.dropped == {LINE_TOO_LONG: 2}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_of_100_megabytes_is_never_held(tmp_path: Path, suffix: str):
    path = tmp_path / f"long.txt{suffix}"
    path.write_bytes(COMPRESS.get(suffix, bytes)(b"x" * 100_000_000 + b"\nshort\n"))
    tracemalloc.start()
    try:
        assert list(text_lines(path, Reading())) == ["short"]
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
