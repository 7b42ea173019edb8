"""The bytes of a dump, decompressed, whole or block by block."""

from __future__ import annotations

import bz2
import contextlib
import io
import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import MeteredFile, Reading, opened, reading_errors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

READ_BYTES = 1 << 16
CHUNK_BYTES = 1 << 20
# A bz2 stream header (block size 1-9) and the magic of its first block; an end-of-stream magic
# follows the header of an empty stream.
STREAM_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
STREAM_START_BYTES = 10
BOUNDARY = b""
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a dump that can be read on its own.

    The pages of a block are those whose first byte lies in it, so that blocks which cover a file
    give every page once, wherever the compressor cut.

    Attributes:
        path: the dump.
        start: byte of the file at which it begins; 0 or the start of a bz2 stream.
        end: byte of the file at which the next block begins, or the size of the file.
    """

    path: Path
    start: int
    end: int


def blocks(path: Path, target_bytes: int) -> list[Block]:
    """Cut a dump into blocks that can be read in parallel.

    A multistream bz2 file is cut at the starts of its streams, which are byte-aligned: from every
    multiple of `target_bytes` the next one is looked for, so that only about a stream a block is
    read. The index that Wikimedia publishes beside its dumps is not needed.

    Args:
        path: the dump.
        target_bytes: compressed bytes a block should hold.

    Returns:
        One block or more; always one when the file is no multistream bz2.

    Raises:
        DataError: the file cannot be read.
    """
    with dump_errors(path):
        size = path.stat().st_size
        starts = [0]
        if path.suffix.lower() == ".bz2" and not _is_utf16(path):
            with path.open("rb") as file:
                while starts[-1] + target_bytes < size:
                    offset = _next_stream(file, starts[-1] + target_bytes)
                    if offset is None:
                        break
                    starts.append(offset)
    return [Block(path, start, end) for start, end in zip(starts, [*starts[1:], size], strict=True)]


def _is_utf16(path: Path) -> bool:
    """Whether a bz2 file holds UTF-16, whose streams cannot be told apart in the middle."""
    for chunk in _bz2_chunks(Block(path, 0, path.stat().st_size), Reading()):
        return chunk[:2] in UTF16_MARKS
    return False


def _next_stream(file: io.BufferedReader, position: int) -> int | None:
    file.seek(position)
    buffer = b""
    while data := file.read(READ_BYTES):
        buffer += data
        if match := STREAM_START.search(buffer):
            return file.tell() - len(buffer) + match.start()
        buffer = buffer[-(STREAM_START_BYTES - 1) :]
    return None


def chunks(block: Block, reading: Reading) -> Generator[bytes]:
    """The UTF-8 bytes of a block, decompressed, in pieces of at most 1 MiB (UTF-16: 2 MiB).

    Past the end of the block the following streams come too, after one `BOUNDARY` (an empty
    piece): the last page of the block may end there. The caller stops when it has that page.

    Args:
        block: what to read; only bz2 can begin after 0.
        reading: counts the bytes taken from the disk.

    Raises:
        DataError: the file is unreadable, cut short, broken, or not of the kind its suffix says.
    """
    with dump_errors(block.path):
        if block.path.suffix.lower() == ".bz2":
            source = _bz2_chunks(block, reading)
        else:
            source = _plain_chunks(block.path, reading)
        with contextlib.closing(source):
            first = next(source, b"")
            if block.start == 0 and first[:2] in UTF16_MARKS:
                yield from _from_utf16(block.path, first, source)
            elif first:
                yield first
                yield from source


def _plain_chunks(path: Path, reading: Reading) -> Generator[bytes]:
    with opened(path, reading) as stream:
        # Of a file that is cut short `read` gives nothing of the last piece; `read1` gives what
        # there is, but only on the decompressor itself, not on the buffer around it.
        inner = stream.raw
        source = inner if isinstance(inner, io.BufferedIOBase) else stream
        while data := source.read1(CHUNK_BYTES):
            yield data


def _bz2_chunks(block: Block, reading: Reading) -> Generator[bytes]:
    with io.BufferedReader(MeteredFile(block.path, reading), READ_BYTES) as file:
        file.seek(block.start)
        data = b""
        while True:
            position = file.tell() - len(data)
            if len(data) < STREAM_START_BYTES:
                data += file.read(READ_BYTES)
            if not data:
                return
            if block.start < block.end <= position:
                yield BOUNDARY
            if len(data) < STREAM_START_BYTES:
                raise EOFError
            if not STREAM_START.match(data):
                raise OSError(f"no bz2 stream begins at byte {position:,}")
            decompressor = bz2.BZ2Decompressor()
            while not decompressor.eof:
                if decompressor.needs_input and not data:
                    data = file.read(READ_BYTES)
                    if not data:
                        raise EOFError
                piece = decompressor.decompress(data, CHUNK_BYTES)
                data = b""
                if piece:
                    yield piece
            data = decompressor.unused_data


def _from_utf16(path: Path, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    decoder = getincrementaldecoder("utf-16")()
    try:
        yield decoder.decode(first).encode()
        for chunk in rest:
            yield decoder.decode(chunk).encode()
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        raise DataError(
            f"{path}: broken UTF-16 ({error}); the pages before it were read; "
            "copy or download the file again"
        ) from None


@contextlib.contextmanager
def dump_errors(path: Path) -> Iterator[None]:
    """Turn what a broken or unreadable dump raises into one line that names it.

    Raises:
        DataError: as `reading_errors`.
    """
    with reading_errors(path, "the complete pages before it were read"):
        try:
            yield
        except EOFError:
            raise cut_short(path) from None


def cut_short(path: Path) -> DataError:
    """The error for a dump that ends early."""
    return DataError(
        f"{path}: is cut short (</mediawiki> is missing); the complete pages before the cut were "
        "read; copy or download the file again"
    )
