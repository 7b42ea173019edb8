"""Tokenised text on disk: one flat file of ids, one of offsets; only a chunk is in memory.

`{split}.bin` holds the ids of all rows one after the other (uint16 where the vocabulary allows,
else uint32), special tokens included; `{split}.offsets.npy` where each row begins, and the end
(uint64); `{split}.documents.npy` the row at which each document begins (int64); `{split}.json` the
type and the counts.

Special tokens that a text spells out, such as <mask>: they are text, or unknown.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import models
from transformers import PreTrainedTokenizerFast

from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError, reading
from lingraft.files import write_json
from lingraft.log import progress
from lingraft.rundir import read_json
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.frame import special_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Tokenizer
    from transformers import BatchEncoding, PreTrainedTokenizerBase


Array = np.ndarray[Any, Any]

CHUNK_LINES = 10_000
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
    around, starts = special_ids_around(tokenizer.backend_tokenizer), document_starts(text_path)
    return write_rows(tokenizer, chunks_of(text_path), starts, around, max_tokens, out / split)


def write_rows(
    tokenizer: PreTrainedTokenizerFast,
    chunks: Iterator[list[str]],
    starts: Array,
    around: tuple[list[int], list[int]],
    longest: int,
    stem: Path,
    *,
    cuts: bool = True,
    special: bool = False,
) -> dict[str, int]:
    """Tokenise texts and write the files of a split.

    Args:
        tokenizer: the tokenizer.
        chunks: the texts, some at a time.
        starts: the texts at which documents begin.
        around: special tokens before and after a row's text.
        longest: tokens of a row at most.
        stem: the files, but for the ends of their names.
        cuts: whether what is longer becomes several rows; else it is only counted.
        special: whether special tokens that a text spells are those, as in chats.

    Returns:
        As `encode`.
    """
    dtype = np.dtype(np.uint16 if len(tokenizer) <= SMALL else np.uint32)
    prefix, suffix = (np.array(ids, dtype) for ids in around)
    most, read_as = longest - len(prefix) - len(suffix), without_special(tokenizer, dtype.type)
    assert most > 0, f"{longest} tokens leave no room for text"
    first_rows, sizes = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    lines = rows_before = cut = empty = 0
    backend = plain_backend(tokenizer, special=special)
    with (
        Path(f"{stem}.bin").open("wb") as file,
        progress(f"tokenizing {stem.name}", None, "sentences" if cuts else "documents") as bar,
    ):
        for text_ids, lengths in _encoded(backend, chunks, dtype):
            ids = text_ids if read_as is None else read_as[text_ids]
            empty += int((lengths == 0).sum())
            cut += int((lengths > most).sum())
            room = most if cuts else int(lengths.max(initial=1))
            pieces = -(-lengths // room)
            at = rows_before + np.cumsum(pieces) - pieces
            here = starts[np.searchsorted(starts, lines) : np.searchsorted(starts, lines + len(at))]
            first_rows.append(at[here - lines])
            lines, rows_before = lines + len(at), rows_before + int(pieces.sum())
            rows, row_sizes = _with_specials(ids, lengths, room, prefix, suffix)
            rows.tofile(file)
            sizes.append(row_sizes)
            bar.advance(len(lengths))
    offsets = np.zeros(rows_before + 1, np.uint64)
    np.cumsum(np.concatenate(sizes), dtype=np.uint64, out=offsets[1:])
    np.save(f"{stem}.offsets.npy", offsets)
    documents = np.unique(np.concatenate(first_rows))
    # a document without any token begins where the next one does, or behind the last row
    np.save(f"{stem}.documents.npy", documents[documents < rows_before])
    counts = {"sentences": rows_before, "tokens": int(offsets[-1]), "cut": cut, "empty": empty}
    write_json(Path(f"{stem}.json"), {"dtype": dtype.name, **counts})
    return counts


def _encoded(
    backend: Tokenizer, chunks: Iterator[list[str]], dtype: np.dtype[Any]
) -> Iterator[tuple[Array, Array]]:
    """Yield the ids of a chunk of texts, one after the other, and how many each text has.

    The library tokenises the next chunk (in Rust, without Python's lock) while this one is used.
    """
    with ThreadPoolExecutor(max_workers=1) as worker:
        encode = functools.partial(backend.encode_batch_fast, add_special_tokens=False)
        waiting = worker.submit(encode, next(chunks, []))
        while encodings := waiting.result():
            waiting = worker.submit(encode, next(chunks, []))
            lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
            ids = chain.from_iterable(encoding.ids for encoding in encodings)
            yield np.fromiter(ids, dtype, int(lengths.sum())), lengths


def document_starts(text_path: Path) -> Array:
    """Return the lines at which a corpus file's documents begin; without such marks all is one."""
    path = text_path.with_suffix(".documents.npy")
    return np.load(path, mmap_mode="r") if path.is_file() else np.zeros(1, np.int64)


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
    with (
        reading(path, "run the corpus stage again"),
        path.open(encoding="utf-8", newline="\n") as file,
    ):
        yield from batched((line.rstrip("\n") for line in file), CHUNK_LINES)


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
    """[documents] the row at which each document begins; None for a part of a text."""

    @classmethod
    def open(cls, folder: Path, split: str) -> Tokens:
        """Open what `encode` wrote.

        Raises:
            DataError: a file is missing, or they do not belong together.
        """
        head, path = read_json(folder / f"{split}.json"), folder / f"{split}.bin"
        dtype, again = np.dtype(head["dtype"]), f"delete {folder} and run again with --update"
        with reading(folder / split, again):
            offsets = np.asarray(np.load(folder / f"{split}.offsets.npy", mmap_mode="r"))
            starts = np.load(folder / f"{split}.documents.npy", mmap_mode="r")
            bytes_there = path.stat().st_size
        counts = (bytes_there // dtype.itemsize, len(offsets) - 1, int(offsets[-1]))
        if counts != (head["tokens"], head["sentences"], head["tokens"]):
            raise DataError(f"{path}: is not whole; {again}")
        ids = np.memmap(path, dtype=dtype, mode="r") if head["tokens"] else np.empty(0, dtype)
        return cls(ids, offsets, np.diff(offsets).astype(np.int32), starts)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lengths)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Return rows by index, each a view of the mapped file."""
        starts = self.offsets[indices].astype(np.int64)
        ends = starts + self.lengths[indices]
        return [self.ids[start:end] for start, end in zip(starts, ends, strict=True)]

    def documents(self) -> list[Array]:
        """Return the indices of each document's rows, in order.

        Raises:
            DataError: nobody knows where they begin.
        """
        if self.starts is None:
            raise DataError("a part of a text does not say where its documents begin")
        return np.split(np.arange(len(self)), self.starts[1:])

    def subset(self, indices: Array) -> Tokens:
        """Return some of the rows, in the order that is given; nothing is copied."""
        return Tokens(self.ids, self.offsets[indices], self.lengths[indices])

    def counts(self, size: int) -> Array:
        """Count how often each id occurs in the rows, [size]."""
        total = np.zeros(size, dtype=np.int64)
        for rows in self.chunks():
            total += np.bincount(np.concatenate(rows), minlength=size)
        return total

    def chunks(self) -> Iterator[list[Array]]:
        """Yield all rows in order, some thousands at a time."""
        for start in range(0, len(self), CHUNK_LINES):
            yield self.rows(np.arange(start, min(start + CHUNK_LINES, len(self))))


def without_special(tokenizer: PreTrainedTokenizerBase, dtype: type = np.int64) -> Array | None:
    """Return [V] each id, but unknown for special ones that a text can spell; None without any.

    Unigram segments a text into them, whatever its tokenizer is told, for they are its pieces.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    if not isinstance(tokenizer.backend_tokenizer.model, models.Unigram):
        return None
    read_as: Array = np.arange(max(tokenizer.get_vocab().values()) + 1, dtype=dtype)
    read_as[sorted(special_ids(tokenizer))] = unknown
    return read_as


def as_text(ids: Sequence[int], around: Sequence[int], read_as: Array | None) -> Array:
    """Return the token ids of a text in which only those around it are special.

    Args:
        ids: what a tokenizer makes of the text with `split_special_tokens`.
        around: 1 for each special token that stands around it (`special_tokens_mask`).
        read_as: of `without_special`.
    """
    row: Array = np.array(ids, dtype=np.int64)
    return row if read_as is None else np.where(around, row, read_as[row])


def cut(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int, read_as: Array | None
) -> BatchEncoding:
    """Tokenise texts so that only the tokens around them are special.

    Args:
        tokenizer: any.
        texts: one or more.
        longest: tokens, those around a text included; what is beyond is cut off.
        read_as: of `without_special`.

    Returns:
        `input_ids`, an array a text, and `special_tokens_mask`.
    """
    encoded = tokenizer(
        list(texts),
        truncation=True,
        max_length=longest,
        return_special_tokens_mask=True,
        split_special_tokens=True,
    )
    pairs = zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)
    encoded["input_ids"] = [as_text(ids, around, read_as) for ids, around in pairs]
    return encoded
