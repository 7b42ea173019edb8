"""Tokenised text on disk: one flat file of ids, one of offsets; only a chunk is in memory.

`{split}.bin` holds the ids of all rows one after the other (uint16 where the vocabulary allows,
else uint32), special tokens included; `{split}.offsets.npy` where each row begins, and the end
(uint64); `{split}.json` the type and the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.rundir import read_json, write_json
from lingraft.tokenizer import plain_backend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Array = np.ndarray[Any, Any]

CHUNK_LINES = 10_000
SMALL = 2**16


def encode(
    tokenizer: PreTrainedTokenizerFast, text_path: Path, out: Path, split: str, max_tokens: int
) -> dict[str, int]:
    """Tokenise a file of text, a line a sentence.

    A sentence of more than `max_tokens` tokens becomes several rows, each with its own special
    tokens; nothing is lost. Special tokens spelt out in the text are text.

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
    dtype = np.uint16 if len(tokenizer) <= SMALL else np.uint32
    backend = plain_backend(tokenizer)
    prefix, suffix = _special_ids_around(backend)
    room = max_tokens - len(prefix) - len(suffix)
    assert room > 0, f"max_tokens {max_tokens} leaves no room for text"
    cut = empty = 0
    lengths: list[Array] = []
    with (
        (out / f"{split}.bin").open("wb") as file,
        progress(f"tokenizing {split}", None, "sentences") as ticker,
    ):
        for lines in _chunks(text_path):
            rows: list[int] = []
            sizes: list[int] = []
            for encoded in backend.encode_batch_fast(lines, add_special_tokens=False):
                ids = encoded.ids
                empty += not ids
                cut += len(ids) > room
                for start in range(0, len(ids), room):
                    part = ids[start : start + room]
                    rows += prefix
                    rows += part
                    rows += suffix
                    sizes.append(len(prefix) + len(part) + len(suffix))
            np.array(rows, dtype=dtype).tofile(file)
            lengths.append(np.array(sizes, dtype=np.int32))
            ticker.advance(len(lines))
    sizes_N = np.concatenate([np.zeros(1, np.int32), *lengths])
    offsets = np.cumsum(sizes_N, dtype=np.uint64)
    np.save(out / f"{split}.offsets.npy", offsets)
    counts = {"sentences": len(offsets) - 1, "tokens": int(offsets[-1]), "cut": cut, "empty": empty}
    write_json(out / f"{split}.json", {"dtype": np.dtype(dtype).name, **counts})
    return counts


def _special_ids_around(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """The special tokens before and after a sentence."""
    encoded = backend.encode("0")
    text = encoded.special_tokens_mask.index(0)
    end = len(encoded.ids) - encoded.special_tokens_mask[::-1].index(0)
    return encoded.ids[:text], encoded.ids[end:]


def _chunks(path: Path) -> Iterator[list[str]]:
    chunk: list[str] = []
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                chunk.append(line.rstrip("\n"))
                if len(chunk) == CHUNK_LINES:
                    yield chunk
                    chunk = []
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; run the corpus stage first") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); run the corpus stage again") from None
    if chunk:
        yield chunk


@dataclass(frozen=True)
class Tokens:
    """The rows of one split, read from disk as they are asked for."""

    ids: Array
    """All rows, one after the other; mapped, not loaded."""
    offsets: Array
    """[rows or more] where each row begins in `ids`."""
    lengths: Array
    """[rows] tokens in each row, special ones included (int32)."""

    @classmethod
    def open(cls, folder: Path, split: str) -> Tokens:
        """Open what `encode` wrote.

        Raises:
            DataError: a file is missing, or they do not belong together.
        """
        head = read_json(folder / f"{split}.json")
        path = folder / f"{split}.bin"
        try:
            offsets = np.load(folder / f"{split}.offsets.npy")
            size = path.stat().st_size
        except (OSError, ValueError) as error:
            raise DataError(
                f"{folder}/{split}: tokenised text is missing or broken ({error}); delete {folder} "
                "and run again "
                "with --resume"
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
                "--resume"
            )
        ids = np.memmap(path, dtype=dtype, mode="r") if expected else np.empty(0, dtype)
        return cls(ids, offsets, np.diff(offsets).astype(np.int32))

    def __len__(self) -> int:
        """How many rows."""
        return len(self.lengths)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Rows by index, each a view of the mapped file."""
        starts = self.offsets[indices].astype(np.int64)
        lengths = self.lengths[indices]
        return [
            self.ids[start : start + length] for start, length in zip(starts, lengths, strict=True)
        ]

    def subset(self, indices: Array) -> Tokens:
        """Some of the rows, in the order that is given; nothing is copied."""
        return Tokens(self.ids, self.offsets[indices], self.lengths[indices])

    def counts(self, size: int) -> Array:
        """[size] how often each id occurs in the rows, counted a stretch of rows at a time."""
        total = np.zeros(size, dtype=np.int64)
        for start in range(0, len(self), CHUNK_LINES):
            rows = self.rows(np.arange(start, min(start + CHUNK_LINES, len(self))))
            total += np.bincount(np.concatenate(rows), minlength=size)
        return total
