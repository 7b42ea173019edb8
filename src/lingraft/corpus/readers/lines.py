"""Lines of a plain or compressed file, one at a time, with clear errors for broken files."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import gzip
import io
import itertools
import json
import logging
import lzma
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lingraft.corpus.extras import require
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

BLOCK_BYTES = 1 << 18
# A Zstandard block of a few bytes can stand for 128 KiB: small bites bound what one call gives.
ZSTD_BITE_BYTES = 1 << 10
HEAD_BYTES = 4_096
SAMPLES, SAMPLE_CHARACTERS = 3, 300  # of what is dropped
NUL_SHARE = 0.05
# Random bytes give about one valid line in a hundred, a legacy encoding its ASCII lines.
WRONG_ENCODING_ODDS = 9
# Of a western one many lines are plain ASCII: the lines without accents, which would be left.
MANY_BROKEN, BROKEN_SHARE = 20, 0.1

LINE_TOO_LONG = "line too long"
BROKEN_UTF8 = "broken UTF-8"
BROKEN_JSON = "broken JSON"
EMPTY = "empty"
# Half of a surrogate pair, which JSON can write (\ud800) and UTF-8 cannot.
SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT_CHARACTER = "\ufffd"
HOLE = "\U0010fffd"
"""Stands, until text is cut into sentences, where a reader left out words of one."""

COMPRESSED = {
    ".gz": b"\x1f\x8b\x08",
    ".xz": b"\xfd7zXZ\x00",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": b"BZh",
}
# Checked in this order: the UTF-32 mark begins with the UTF-16 one.
NOT_TEXT = {
    codecs.BOM_UTF32_LE: "UTF-32 text; convert it: iconv -f UTF-32 -t UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8",
    **{magic: f"{suffix} data; give the file that suffix" for suffix, magic in COMPRESSED.items()},
    b"PAR1": "a Parquet file; give it the suffix .parquet",
    b"PK\x03\x04": "a zip archive; unpack it",
    b"%PDF-": "a PDF file; extract its text first",
}


@dataclass
class Reading:
    """What has been read so far.

    Attributes:
        dropped: documents left out while reading, by reason.
        documents: documents seen, those left out included.
        languages: by field of rows that names one, the first two of its values.
        samples: for each reason the first few texts that were left out, cut short.
        changed: what was changed while reading, by kind.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    documents: int = 0
    languages: dict[str, list[str]] = field(default_factory=dict)
    samples: dict[str, list[str]] = field(default_factory=dict)
    changed: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, text: str = "") -> None:
        """Count a document that is left out; what there is of it is an example."""
        self.documents += 1
        self.dropped[reason] += 1
        if text.strip() and len(examples := self.samples.setdefault(reason, [])) < SAMPLES:
            examples.append(text[:SAMPLE_CHARACTERS])

    def warn(self) -> None:
        """Say what was left out, where no stage counts it; what is empty is no loss."""
        for reason, count in self.dropped.items():
            if reason != EMPTY:
                logger.warning("%s documents left out: %s", f"{count:,}", reason)


class Pieces(io.RawIOBase):
    """A stream of bytes that come in pieces, some of which may be empty."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self.pieces = filter(None, pieces)
        self.pending = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.pending:
            self.pending = memoryview(next(self.pieces, b""))
        count = min(len(buffer), len(self.pending))
        buffer[:count] = self.pending[:count]
        self.pending = self.pending[count:]
        return count


def _zstd_frames(raw: io.BufferedIOBase) -> Iterator[bytes]:
    """Decompress Zstandard; unlike the library's own reader, notice a frame that is cut short."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)  # zstd --long=31
    frame: Any = None
    while bite := raw.read(ZSTD_BITE_BYTES):
        while bite:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(bite)
            bite = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError


def kind(path: Path) -> str:
    """The suffix of a file in small letters, without that of its compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextlib.contextmanager
def reading_errors(path: Path, outcome: str = "nothing was kept") -> Iterator[None]:
    """Turn what a broken or unreadable file raises into one line that names it.

    Args:
        path: the file.
        outcome: what became of the part before the damage.

    Raises:
        DataError: always in place of the errors of gzip, lzma, zlib, zstandard and the operating
            system.
    """
    try:
        yield
    except EOFError:
        raise DataError(
            f"{path}: is cut short (the {path.suffix} stream ends early); {outcome}; "
            "copy or download the file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise _broken(path, error, outcome) from None
    except OSError as error:
        if error.errno is None:  # bz2 gives no number
            raise _broken(path, error, outcome) from None
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:
        # zstandard is optional, so its error class cannot be named in the clause.
        if type(error).__module__.split(".")[0] != "zstandard":
            raise
        raise _broken(path, error, outcome) from None


def _broken(path: Path, error: Exception, outcome: str) -> DataError:
    return DataError(
        f"{path}: broken {path.suffix} data ({error}); {outcome}; copy or download the file again"
    )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a plain or compressed file for reading its bytes.

    Raises:
        DataError: the file cannot be opened, or is not of the kind that its suffix says.
    """
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(io.BufferedReader(io.FileIO(path), BLOCK_BYTES))
        suffix = path.suffix.lower()
        if suffix not in COMPRESSED:
            yield raw
            return
        _check_magic(path, suffix, raw.peek(8)[:8])
        if suffix == ".gz":
            plain: Any = stack.enter_context(gzip.GzipFile(fileobj=raw))
        elif suffix == ".xz":
            plain = stack.enter_context(lzma.LZMAFile(raw))
        elif suffix == ".bz2":
            plain = stack.enter_context(bz2.BZ2File(raw))
        else:
            require("zstandard", str(path), "data")
            plain = Pieces(_zstd_frames(raw))
        yield stack.enter_context(io.BufferedReader(plain, BLOCK_BYTES))


def _check_magic(path: Path, suffix: str, head: bytes) -> None:
    magic = COMPRESSED[suffix]
    if magic.startswith(head[: len(magic)]) and len(head) < len(magic):
        raise EOFError
    skippable_zstd = suffix == ".zst" and head[1:4] == b"\x2a\x4d\x18"
    if not (head.startswith(magic) or skippable_zstd):
        raise DataError(
            f"{path}: is not {suffix} data, whatever its name says (it begins with {head[:4]!r}); "
            "rename it or leave it out"
        )


def check_text(path: Path, head: bytes) -> None:
    """Refuse a file whose first bytes show that it is no UTF-8 text.

    Args:
        path: named in the message.
        head: first bytes, decompressed; 4 KiB are enough.

    Raises:
        DataError: another encoding or another kind of file.
    """
    for magic, content in NOT_TEXT.items():
        if head.startswith(magic):
            raise DataError(f"{path}: holds {content}; only UTF-8 text is read")
    if head.count(0) > NUL_SHARE * len(head):
        raise DataError(
            f"{path}: holds NUL bytes, so it is binary or UTF-16; "
            "convert it (iconv -f UTF-16LE -t UTF-8) or leave it out"
        )


def raw_lines(
    path: Path, max_bytes: int, span: tuple[int, int] | None = None
) -> Iterator[bytes | None]:
    r"""The lines of a file without their line ends; None stands for a line above `max_bytes`.

    Lines end at ``\n``; a ``\r`` before it goes too. A UTF-8 byte order mark is left out.

    Args:
        path: a text file, plain or compressed (by its suffix).
        max_bytes: longer lines are skipped in pieces of 256 KiB, never held.
        span: only the lines whose first byte lies in it, so that spans which cover a file give
            every line once; None gives all. The file must not be compressed.

    Raises:
        DataError: the file is unreadable, cut short, broken, or not text.
    """
    start, end = span or (0, None)
    with reading_errors(path), opened(path) as stream:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        check_text(path, head)
        if start:
            stream.seek(start - 1)
            start += _skip_line(stream, stream.readline(BLOCK_BYTES)) - 1
        # The mark is part of the first line.
        mark = len(stream.read(3)) if not start and head.startswith(b"\xef\xbb\xbf") else 0
        while (end is None or start < end) and (line := stream.readline(max_bytes + 2)):
            if len(line.rstrip(b"\r\n")) > max_bytes:
                start += mark + _skip_line(stream, line)
                yield None
            else:
                start += mark + len(line)
                yield line.rstrip(b"\r\n")
            mark = 0


def _skip_line(stream: io.BufferedReader[Any], line: bytes) -> int:
    """Go to the end of the line of which `line` is the beginning; the length of all of it."""
    length = len(line)
    while line and not line.endswith(b"\n"):
        line = stream.readline(BLOCK_BYTES)
        length += len(line)
    return length


def text_lines(
    path: Path, max_bytes: int, reading: Reading, span: tuple[int, int] | None = None
) -> Iterator[str]:
    """The lines of a UTF-8 file; long and broken ones are counted in `reading` and left out.

    The arguments are those of `raw_lines`, and what counts.

    Raises:
        DataError: as `raw_lines`, and when a tenth of the lines is not UTF-8 (nine tenths of fewer
            than 20); of a file in pieces its first one decides.
    """
    good = broken = 0
    for line in raw_lines(path, max_bytes, span):
        if line is None:
            reading.drop(LINE_TOO_LONG)
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8, line.decode("utf-8", "replace"))
            broken += 1
            continue
        good += bool(text.strip())
        yield text
    odds = BROKEN_SHARE if broken >= MANY_BROKEN else WRONG_ENCODING_ODDS
    if broken > odds * good and not (span and span[0]):
        raise DataError(
            f"{path}: {broken:,} of its {broken + good:,} lines are not UTF-8, so it is binary or "
            "in another encoding; convert it, for example: iconv -f EUC-KR (or LATIN1) -t UTF-8"
        )


def json_value(line: str) -> Any:
    """The JSON value of a line; halves of surrogate pairs become U+FFFD, as broken characters do.

    The sentences that hold one are then dropped, and counted, as damaged.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    value = json.loads(line)
    if "\\ud" in line or "\\uD" in line:
        plain = json.dumps(value, ensure_ascii=False)
        if SURROGATE.search(plain):
            return json.loads(SURROGATE.sub(REPLACEMENT_CHARACTER, plain))
    return value


def without_holes(text: str) -> str:
    """A text without the lines that words are missing in."""
    if HOLE not in text:
        return text
    return "\n".join(line for line in text.split("\n") if HOLE not in line)


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
