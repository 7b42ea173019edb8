import bz2
import gzip
import lzma
import random
import tracemalloc
from pathlib import Path

import pytest

from lingraft.corpus.readers.lines import BROKEN_UTF8, LINE_TOO_LONG, Reading, raw_lines, text_lines
from lingraft.errors import DataError

zstandard = pytest.importorskip("zstandard")

COMPRESS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXT = "".join(f"줄 {number}: {random.Random(number).random()}\n" for number in range(400)).encode()


def lines(path: Path, max_bytes: int = 1_000) -> list[str]:
    return list(text_lines(path, max_bytes, Reading()))


def error_of(path: Path) -> str | None:
    try:
        lines(path)
    except DataError as error:
        return str(error)
    return None


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_gives_the_lines_of_the_plain_one(tmp_path: Path, suffix: str):
    packed = written(tmp_path, f"a.txt{suffix}", COMPRESS[suffix](TEXT))
    assert lines(packed) == TEXT.decode().splitlines()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_several_streams_in_one_file_are_read_one_after_the_other(tmp_path: Path, suffix: str):
    packed = COMPRESS[suffix](b"one\n") + COMPRESS[suffix](b"two\n")
    assert lines(written(tmp_path, f"a.txt{suffix}", packed)) == ["one", "two"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_what_is_broken_behind_a_stream_is_not_taken_for_the_end(tmp_path: Path, suffix: str):
    one, two = COMPRESS[suffix](b"one\n"), COMPRESS[suffix](b"two\n")
    for behind in (b"XX" + two[2:], b"and so on, and so on"):
        path = written(tmp_path, f"a.txt{suffix}", one + behind)
        assert (error_of(path) or "").startswith(f"{path}: broken {suffix} data")


def test_zstandard_of_long_windows_is_read(tmp_path: Path):
    """As `zstd --long=31` writes it: a frame of one uncompressed block, window 2 GiB."""
    head = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3])
    data = b"one\ntwo\n"
    block = (len(data) << 3 | 1).to_bytes(3, "little") + data
    assert lines(written(tmp_path, "a.txt.zst", head + block)) == ["one", "two"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_file_cut_anywhere_is_said_to_be_cut_short(tmp_path: Path, suffix: str):
    packed = COMPRESS[suffix](TEXT)
    cuts = [*range(12), *range(12, len(packed), 97), *range(len(packed) - 12, len(packed))]
    for cut in cuts:
        path = written(tmp_path, f"cut.txt{suffix}", packed[:cut])
        with pytest.raises(DataError, match=r"is cut short .*nothing was kept"):
            lines(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_flipped_byte_in_a_compressed_file_is_a_data_error_or_harmless(
    tmp_path: Path, suffix: str
):
    packed = COMPRESS[suffix](TEXT)
    failures = 0
    for place in range(0, len(packed), 31):
        damaged = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
        path = written(tmp_path, f"bad.txt{suffix}", damaged)
        message = error_of(path)
        if message is not None:
            assert "\n" not in message
            assert path.name in message
            failures += 1
    assert failures > 10


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_plain_file_with_a_compressed_name_is_refused(tmp_path: Path, suffix: str):
    with pytest.raises(DataError, match=rf"is not \{suffix} data"):
        lines(written(tmp_path, f"a.txt{suffix}", b"plain text\n"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("안녕".encode("utf-16"), "UTF-16 text; convert it"),
        ("안녕".encode("utf-32"), "UTF-32 text; convert it"),
        ("plain ascii\n".encode("utf-16-le"), "NUL bytes"),
        (gzip.compress(TEXT), ".gz data; give the file that suffix"),
        (b"PAR1 and so on", "a Parquet file"),
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
    path = written(tmp_path, "a.txt", b"good\n\xff\xfe bad\nalso good\n")
    assert list(text_lines(path, 1_000, reading)) == ["good", "also good"]
    assert reading.dropped == {BROKEN_UTF8: 1}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_exactly_the_limit_is_kept_and_one_byte_more_is_not(tmp_path: Path, end: bytes):
    reading = Reading()
    path = written(tmp_path, "a.txt", end.join([b"x" * 10, b"y" * 11, b"z" * 30, b"w"]))
    assert list(text_lines(path, 10, reading)) == ["x" * 10, "w"]
    assert reading.dropped == {LINE_TOO_LONG: 2}


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_line_of_100_megabytes_is_never_held(tmp_path: Path, suffix: str):
    path = tmp_path / f"long.txt{suffix}"
    compress = COMPRESS.get(suffix, bytes)
    path.write_bytes(compress(b"x" * 100_000_000 + b"\nshort\n"))
    reading = Reading()
    tracemalloc.start()
    try:
        assert list(text_lines(path, 100_000, reading)) == ["short"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reading.dropped == {LINE_TOO_LONG: 1}
    assert peak < 80_000_000


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    assert lines(written(tmp_path, "a.txt", b"\xef\xbb\xbfone\ntwo")) == ["one", "two"]


@pytest.mark.parametrize("size", [1, 7, 50, 200, 5_000])
def test_spans_that_cover_a_file_give_every_line_once_in_order(tmp_path: Path, size: int):
    text = b"\xef\xbb\xbf" + "첫 줄\r\n\n".encode() + b"x" * 300 + "\n둘\n셋\n끝".encode()
    path = written(tmp_path, "a.txt", text)
    ends = [*range(size, len(text), size), len(text)]
    spans = zip([0, *ends[:-1]], ends, strict=True)
    found = [line for span in spans for line in raw_lines(path, 100, span)]
    assert found == list(raw_lines(path, 100))
    assert len(found) == 6
    assert None in found
