"""Tokenised text on disk: one flat file of ids, one of offsets; only a chunk is in memory.

`{split}.bin` holds the ids of all rows one after the other (uint16 where the vocabulary allows,
else uint32), special tokens included; `{split}.offsets.npy` where each row begins, and the end
(uint64); `{split}.documents.npy` the row at which each document begins (int64); `{split}.json` the
type and the counts.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.rundir import read_json, write_json
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.spelled import without_special

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerFast

Array = np.ndarray[Any, Any]

CHUNK_LINES = 10_000
STRETCH = 2**20
SMALL = 2**16


def encode(
    tokenizer: PreTrainedTokenizerFast, text_path: Path, out: Path, split: str, max_tokens: int
) -> dict[str, int]:
    """Tokenise a file of text, a line a sentence.

    A sentence of more than `max_tokens` tokens becomes several rows, each with its own special
    tokens; nothing is lost. Special tokens spelt out in the text are text, or unknown where they
    are pieces of the vocabulary (XLM-R, mBART, T5).

    Args:
        tokenizer: the tokenizer.
        text_path: UTF-8 text.
        out: folder that the files go to.
        split: first part of their names.
        max_tokens: longest row, special tokens included.

    Returns:
        `sentences` (rows), `tokens` (special ones included), `cut` (sentences that became several
        rows), `empty` (lines without any token, left out).

    Raises:
        DataError: the text is missing or not UTF-8.
    """
    backend = plain_backend(tokenizer)
    layout = Layout.of(tokenizer, *special_ids_around(backend), max_tokens)
    return write_rows(backend, chunks_of(text_path), document_starts(text_path), layout, out, split)


@dataclass(frozen=True)
class Layout:
    """Layout of texts as rows."""

    prefix: Array
    """Special tokens before a row's text, in the type of the file."""
    suffix: Array
    room: int
    """Tokens of text that fit."""
    cuts: bool = True
    """Whether what is longer becomes several rows; else it is only counted."""
    read_as: Array | None = None
    """[V] what each id of a text becomes; None leaves them."""

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerFast,
        prefix: list[int],
        suffix: list[int],
        longest: int,
        *,
        cuts: bool = True,
    ) -> Layout:
        """Return the layout of rows of at most `longest` tokens."""
        dtype = np.uint16 if len(tokenizer) <= SMALL else np.uint32
        room = longest - len(prefix) - len(suffix)
        assert room > 0, f"{longest} tokens leave no room for text"
        read_as = without_special(tokenizer, dtype)
        return cls(np.array(prefix, dtype), np.array(suffix, dtype), room, cuts, read_as)


def write_rows(
    backend: Tokenizer,
    chunks: Iterator[list[str]],
    starts: Array,
    layout: Layout,
    out: Path,
    split: str,
) -> dict[str, int]:
    """Tokenise texts and write the files of a split.

    Args:
        backend: of the tokenizer.
        chunks: the texts, some at a time.
        starts: the texts at which documents begin.
        layout: of the rows.
        out: folder that the files go to.
        split: first part of their names.

    Returns:
        As `encode`.
    """
    dtype = layout.prefix.dtype
    first_rows: list[Array] = []
    lines = rows_before = 0
    cut = empty = 0
    sizes_path = out / f"{split}.sizes.partial"
    with (
        (out / f"{split}.bin").open("wb") as file,
        sizes_path.open("wb") as sizes,
        progress(
            f"tokenizing {split}", None, "sentences" if layout.cuts else "documents"
        ) as ticker,
    ):
        for text_ids, lengths in _encoded(backend, chunks, dtype):
            ids = text_ids if layout.read_as is None else layout.read_as[text_ids]
            empty += int((lengths == 0).sum())
            cut += int((lengths > layout.room).sum())
            room = layout.room if layout.cuts else int(lengths.max(initial=1))
            pieces = -(-lengths // room)
            at = rows_before + np.cumsum(pieces) - pieces
            here = starts[np.searchsorted(starts, lines) : np.searchsorted(starts, lines + len(at))]
            first_rows.append(at[here - lines])
            lines, rows_before = lines + len(at), rows_before + int(pieces.sum())
            rows, row_sizes = _with_specials(ids, lengths, room, layout.prefix, layout.suffix)
            rows.tofile(file)
            row_sizes.tofile(sizes)
            ticker.advance(len(lengths))
    rows_written, tokens = _save_offsets(sizes_path, out / f"{split}.offsets.npy")
    sizes_path.unlink()
    documents = np.unique(np.concatenate([np.zeros(0, np.int64), *first_rows]))
    # a document without any token begins where the next one does, or behind the last row
    np.save(out / f"{split}.documents.npy", documents[documents < rows_written])
    counts = {"sentences": rows_written, "tokens": tokens, "cut": cut, "empty": empty}
    write_json(out / f"{split}.json", {"dtype": dtype.name, **counts})
    return counts


def _encoded(
    backend: Tokenizer, chunks: Iterator[list[str]], dtype: np.dtype[Any]
) -> Iterator[tuple[Array, Array]]:
    """Yield the ids of a chunk of texts, one after the other, and how many each text has.

    The library tokenises the next chunk (in Rust, without Python's lock) while this one is used.
    """
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting: Future[list[Encoding]] | None = None
        for lines in chunks:
            following = worker.submit(backend.encode_batch_fast, lines, add_special_tokens=False)
            if waiting is not None:
                yield _flat(waiting.result(), dtype)
            waiting = following
        if waiting is not None:
            yield _flat(waiting.result(), dtype)


def document_starts(text_path: Path) -> Array:
    """Return the lines at which a corpus file's documents begin; without such marks all is one."""
    path = text_path.with_suffix(".documents.npy")
    return np.load(path, mmap_mode="r") if path.is_file() else np.zeros(1, np.int64)


def _flat(encodings: list[Encoding], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
    ids = chain.from_iterable(encoding.ids for encoding in encodings)
    return np.fromiter(ids, dtype, int(lengths.sum())), lengths


def _with_specials(
    ids: Array, lengths: Array, room: int, prefix: Array, suffix: Array
) -> tuple[Array, Array]:
    """Cut sentences into rows of at most `room` ids each between special tokens.

    Args:
        ids: of all sentences, one after the other.
        lengths: of each sentence.
        room: longest piece of a sentence.
        prefix: goes before each piece.
        suffix: goes behind it.

    Returns:
        The rows, one after the other, and the size of each (int32).
    """
    pieces = -(-lengths // room)
    text = np.full(int(pieces.sum()), room)  # ids of text in each row
    last = np.cumsum(pieces)[pieces > 0] - 1
    text[last] = (lengths - (pieces - 1) * room)[pieces > 0]
    sizes = text + (len(prefix) + len(suffix))
    ends = np.cumsum(sizes)
    rows = np.empty(int(sizes.sum()), ids.dtype)
    rows[np.add.outer(ends - sizes, np.arange(len(prefix)))] = prefix
    rows[np.add.outer(ends - len(suffix), np.arange(len(suffix)))] = suffix
    before = ends - sizes + len(prefix) - (np.cumsum(text) - text)  # by how much a row's text moves
    rows[np.arange(len(ids)) + np.repeat(before, text)] = ids
    return rows, sizes.astype(np.int32)


def _save_offsets(sizes_path: Path, path: Path) -> tuple[int, int]:
    """Turn the size of each row into where the row begins, a stretch at a time.

    Returns:
        The number of rows, and of tokens.
    """
    rows, total = sizes_path.stat().st_size // 4, 0
    with sizes_path.open("rb") as sizes, path.open("wb") as file:
        header = {"descr": "<u8", "fortran_order": False, "shape": (rows + 1,)}
        np.lib.format.write_array_header_1_0(file, header)
        np.zeros(1, "<u8").tofile(file)
        while len(stretch := np.fromfile(sizes, np.int32, STRETCH)):
            offsets = np.cumsum(stretch, dtype=np.uint64) + np.uint64(total)
            offsets.tofile(file)
            total = int(offsets[-1])
    return rows, total


def special_ids_around(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a sentence."""
    encoded = backend.encode("0")
    text = encoded.special_tokens_mask.index(0)
    end = len(encoded.ids) - encoded.special_tokens_mask[::-1].index(0)
    return encoded.ids[:text], encoded.ids[end:]


def chunks_of(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a corpus file, some thousands at a time.

    Raises:
        DataError: it is missing or not UTF-8.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from batched((line.rstrip("\n") for line in file), CHUNK_LINES)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; run the corpus stage first") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); run the corpus stage again") from None


def _lengths(offsets: Array) -> Array:
    """Return the size of each row ([rows] int32), worked out a stretch at a time."""
    lengths = np.empty(len(offsets) - 1, np.int32)
    for start in range(0, len(lengths), STRETCH):
        lengths[start : start + STRETCH] = np.diff(offsets[start : start + STRETCH + 1])
    return lengths


@dataclass(frozen=True)
class Tokens:
    """The rows of one split, read from disk as they are asked for."""

    ids: Array
    """All rows, one after the other; mapped, not loaded."""
    offsets: Array
    """[rows or more] where each row begins in `ids`; mapped too, where it was opened."""
    lengths: Array
    """[rows] tokens in each row, special ones included (int32)."""
    starts: Array | None = None
    """[documents] the row at which each document begins; None for a part of a text, and for one
    that was written before this was kept."""

    @classmethod
    def open(cls, folder: Path, split: str) -> Tokens:
        """Open what `encode` wrote.

        Raises:
            DataError: a file is missing, or they do not belong together.
        """
        head = read_json(folder / f"{split}.json")
        path = folder / f"{split}.bin"
        try:
            offsets = np.asarray(np.load(folder / f"{split}.offsets.npy", mmap_mode="r"))
            size = path.stat().st_size
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder}/{split}: tokenised text is missing or broken ({error}); delete {folder} "
                "and run again "
                "with --update"
            ) from None
        dtype = np.dtype(head["dtype"])
        expected = head["tokens"] * dtype.itemsize
        if (
            size != expected
            or len(offsets) != head["sentences"] + 1
            or offsets[-1] != head["tokens"]
        ):
            raise DataError(
                f"{path}: has {size} bytes for {len(offsets) - 1} rows, not the {expected} bytes "
                "for "
                f"{head['sentences']} rows that were written; delete {folder} and run again with "
                "--update"
            )
        ids = np.memmap(path, dtype=dtype, mode="r") if expected else np.empty(0, dtype)
        path = folder / f"{split}.documents.npy"
        starts = np.load(path, mmap_mode="r") if path.is_file() else None
        return cls(ids, offsets, _lengths(offsets), starts)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lengths)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Return rows by index, each a view of the mapped file."""
        starts = self.offsets[indices].astype(np.int64)
        lengths = self.lengths[indices]
        return [
            self.ids[start : start + length] for start, length in zip(starts, lengths, strict=True)
        ]

    def documents(self) -> list[Array]:
        """Return the indices of each document's rows, in order.

        Raises:
            DataError: nobody knows where they begin.
        """
        if self.starts is None:
            raise DataError(
                "the tokenised text does not say where its documents begin (it is a part of one, "
                "or of an older version); delete the run's folder tokenizer and run again with "
                "--update"
            )
        return np.split(np.arange(len(self)), self.starts[1:])

    def subset(self, indices: Array) -> Tokens:
        """Return some of the rows, in the order that is given; nothing is copied."""
        return Tokens(self.ids, self.offsets[indices], self.lengths[indices])

    def counts(self, size: int) -> Array:
        """Count how often each id occurs in the rows, [size], a stretch at a time."""
        total = np.zeros(size, dtype=np.int64)
        if len(self.offsets) > len(self):  # all rows, one after the other
            for start in range(0, len(self.ids), STRETCH):
                total += np.bincount(self.ids[start : start + STRETCH], minlength=size)
            return total
        for rows in self.chunks():
            total += np.bincount(np.concatenate(rows), minlength=size)
        return total

    def chunks(self) -> Iterator[list[Array]]:
        """Yield all rows in order, some thousands at a time."""
        for start in range(0, len(self), CHUNK_LINES):
            yield self.rows(np.arange(start, min(start + CHUNK_LINES, len(self))))
