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

from lingraft.errors import DataError
from lingraft.optional import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path, PurePath

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

BLOCK_BYTES = 1 << 18
HEAD_BYTES = 4_096
MAX_LINE_BYTES = 10_000_000
"""Longer lines are skipped without being held in memory."""
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


def _zstandard(path: Path, _mode: str) -> Any:
    """Open a .zst file; unlike zstandard's own reader, Arrow's refuses one that is cut short."""
    return require("pyarrow", str(path), "data").input_stream(str(path), compression="zstd")


COMPRESSED: dict[str, Any] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".zst": _zstandard,
}
"""Openers of compressed files, by suffix."""
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass
class Counts:
    """Counts of what was read and left out.

    Attributes:
        dropped: documents or sentences left out, by reason.
        documents: documents seen, those left out included.
        samples: for each reason the first few texts that were left out, cut short.
        changed: what was changed while reading, by kind.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    documents: int = 0
    samples: dict[str, list[str]] = field(default_factory=dict)
    changed: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, text: str = "") -> None:
        """Count a document that is left out while reading."""
        self.documents += 1
        self.count(reason, text)

    def count(self, reason: str, text: str) -> None:
        """Count a thing that is left out; what there is of it is an example."""
        self.dropped[reason] += 1
        self.show(reason, text)

    def show(self, reason: str, text: str) -> None:
        """Keep an example, if there are not enough yet."""
        examples = self.samples.setdefault(reason, []) if text.strip() else None
        if examples is not None and len(examples) < SAMPLES:
            examples.append(text[:SAMPLE_CHARACTERS])

    def warn(self) -> None:
        """Log what was left out, where no stage counts it; what is empty is no loss."""
        for reason, count in self.dropped.items():
            if reason != EMPTY:
                logger.warning("%s documents left out: %s", f"{count:,}", reason)


def kind(path: PurePath) -> str:
    """Return the suffix of a file in small letters, without that of its compression.

    Wikimedia names parts of a dump by their pages: articles1.xml-p1p41242.bz2.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return re.sub(r"(?<=\.xml)-p\d+p\d+\Z", "", suffixes[-1]) if suffixes else ""


def delimiter_of(head: str) -> str:
    """Return what parts the cells of a table: what its first line has most of.

    A line of one column has none, so that all of a line is its cell.
    """
    delimiter = max(",;\t", key=head.count)
    return delimiter if delimiter in head else "\x1f"


@contextlib.contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn what a broken or unreadable file raises into one line that names it.

    Raises:
        DataError: in place of the errors of gzip, lzma, zlib and the operating system.
    """
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        cause = getattr(error, "strerror", None) or f"broken or cut short ({error})"
        raise DataError(f"{path}: cannot be read: {cause}; get the file again") from None


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a plain or compressed file for reading its bytes."""
    with COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as plain:
        yield io.BufferedReader(plain, BLOCK_BYTES)


def check_text(path: Path, head: bytes) -> None:
    """Refuse a file whose first bytes show that it is no UTF-8 text.

    Raises:
        DataError: another encoding or another kind of file.
    """
    if head.startswith(UTF16) or head.count(0) > NUL_SHARE * len(head):
        raise DataError(
            f"{path}: is UTF-16 or no text, and only UTF-8 is read; convert it "
            "(iconv -f UTF-16 -t UTF-8) or leave it out"
        )


def raw_lines(
    path: Path, max_bytes: int, span: tuple[int, int] | None = None
) -> Iterator[bytes | None]:
    r"""Give the lines of a file without their ends; None stands for a line above `max_bytes`.

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
        mark = len(stream.read(3)) if not start and head.startswith(codecs.BOM_UTF8) else 0
        while (end is None or start < end) and (line := stream.readline(max_bytes + 2)):
            if len(line.rstrip(b"\r\n")) > max_bytes:
                start += mark + _skip_line(stream, line)
                yield None
            else:
                start += mark + len(line)
                yield line.rstrip(b"\r\n")
            mark = 0


def _skip_line(stream: io.BufferedReader[Any], line: bytes) -> int:
    """Go to the end of the line of which `line` is the beginning; return the length of all."""
    length = len(line)
    while line and not line.endswith(b"\n"):
        line = stream.readline(BLOCK_BYTES)
        length += len(line)
    return length


def text_lines(path: Path, reading: Counts, span: tuple[int, int] | None = None) -> Iterator[str]:
    """Give the lines of a UTF-8 file; long and broken ones are counted in `reading`.

    Raises:
        DataError: as `raw_lines`, and when a tenth of the lines is not UTF-8 (nine tenths of fewer
            than 20); of a file in pieces its first one decides.
    """
    good = broken = long = returns = 0
    for line in raw_lines(path, MAX_LINE_BYTES, span):
        if line is None:
            reading.drop(LINE_TOO_LONG)
            long += 1
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8, line.decode("utf-8", "replace"))
            broken += 1
            continue
        good += bool(text.strip())
        if good == 1:
            returns = max(returns, text.count("\r"))
        yield text
    is_beginning = not (span and span[0])
    if is_beginning and long and not (good or broken):
        raise DataError(
            f"{path}: holds lines of more than {MAX_LINE_BYTES // 10**6} MB alone; write a "
            "sentence, a document or a JSON object a line"
        )
    if is_beginning and good == 1 and returns > 1:
        raise DataError(f"{path}: ends its lines with CR alone; convert it (tr '\\r' '\\n')")
    odds = BROKEN_SHARE if broken >= MANY_BROKEN else WRONG_ENCODING_ODDS
    if is_beginning and broken > odds * good:
        raise DataError(
            f"{path}: {broken:,} of its {broken + good:,} lines are not UTF-8, so it is binary or "
            "in another encoding; convert it, for example: iconv -f EUC-KR (or LATIN1) -t UTF-8"
        )


def json_value(line: str) -> Any:
    """Return the JSON value of a line; halves of surrogate pairs become U+FFFD.

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
    """Return a text without the lines that words are missing in."""
    if HOLE not in text:
        return text
    return "\n".join(line for line in text.split("\n") if HOLE not in line)


def portions(items: Iterable[Item], most: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Give lists of items whose sizes add up to `most`; the last item of each goes over it."""
    portion, total = list[Item](), 0
    for item in items:
        portion.append(item)
        total += size(item)
        if total >= most:
            yield portion
            portion, total = [], 0
    if portion:
        yield portion


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Give the items in lists of at most `size`."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
