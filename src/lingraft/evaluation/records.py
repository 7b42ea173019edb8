"""Records that compare two models beside the averages: blocks of the test text, and words.

Two models scored on the same text are compared block by block (paired bootstrap): a hard passage is
hard for both. Words are the same for every tokenizer, but a word with an unknown token, or one that
the tokenizer changes, is dropped for its model; the records of the words tell on which ones all
models can be compared.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import reading
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.stats import Difference

Array = np.ndarray[Any, Any]
Blocks = list[list[float]]
"""By block, the sum of a quantity and the count that it is to be divided by."""

BLOCKS = 50
NEXT_TOKEN = "next-token"
"""Name of the metrics of every token of a text, where masked ones go by their scheme."""
WORDS_FILE = "words.tsv"
BEFORE_FILE = "before-words.tsv"
"""The same words as the source scored them."""
HEAD = ("word", "characters", "tokens", "right", "nats")


@dataclass(frozen=True)
class WordRecord:
    """Word as one model scored it."""

    word: str
    """Key: hash of its sentence, and its place there in characters."""
    characters: int
    tokens: int
    """0 if the model dropped the word: it has an unknown token or more than are read, or its
    tokenizer changes it."""
    right: int
    """Tokens that were the model's first choice."""
    nats: float

    @property
    def scored(self) -> bool:
        return self.tokens > 0

    @property
    def exact(self) -> bool:
        return self.scored and self.right == self.tokens

    @property
    def block(self) -> int:
        """Return the number of the word's block, of BLOCKS; words of one sentence share it."""
        return int(self.word.partition(":")[0], 16) * BLOCKS >> 64


@dataclass(frozen=True)
class Common:
    """Several models on the words that none of them dropped."""

    words: int
    dropped: float
    """Share of the chosen words that at least one model dropped."""
    bits_per_character: tuple[float | None, ...]
    """By model; None where no word is left."""


def key(sentence: str, start: int, end: int) -> str:
    """Return a name for a word that is the same for every tokenizer."""
    digest = hashlib.blake2b(sentence.encode(), digest_size=8).hexdigest()
    return f"{digest}:{start}-{end}"


def rounded(value: float) -> float:
    """Round to six significant digits: as much as a sum over a block is good for."""
    return float(f"{value:.6g}")


def blocks(sums: Array, counts: Array, where: Array | None = None) -> Blocks:
    """Add up a quantity by block.

    Args:
        sums: [N] of each sentence or word.
        counts: [N] what the sums are over.
        where: [N] which of `BLOCKS` each is in; by its place in the text if not given.
    """
    place, number = (by_place(len(sums)), 0) if where is None else (where, BLOCKS)
    totals = np.bincount(place, weights=sums, minlength=number)
    sizes = np.bincount(place, weights=counts, minlength=number)
    return [[rounded(t), rounded(n)] for t, n in zip(totals.tolist(), sizes.tolist(), strict=True)]


def by_place(number: int) -> Array:
    """Return each sentence's block [number]: BLOCKS pieces of the text, or one a sentence if fewer.

    A piece is contiguous, so that sentences of one document, which resemble each other, mostly stay
    together and the intervals are not too narrow.
    """
    return np.arange(number) * min(BLOCKS, number) // max(number, 1)


def word_blocks(records: Sequence[WordRecord]) -> dict[str, Blocks]:
    """Return blocks of bits per character, and of words exactly right."""
    words = [record for record in records if record.scored]
    where = np.array([record.block for record in words], dtype=np.int64)
    bits = np.array([record.nats / math.log(2) for record in words])
    right = np.array([float(record.exact) for record in words])
    characters = np.array([float(record.characters) for record in words])
    return {
        "bits_per_character": blocks(bits, characters, where),
        "exact": blocks(right, np.ones(len(words)), where),
    }


def word_metrics(records: Sequence[WordRecord]) -> dict[str, Any]:
    """Average over the words that the model did not drop.

    Returns:
        words, dropped, characters, bits_per_character and exact (percent); the last two are None if
        every word was dropped.
    """
    words = [record for record in records if record.scored]
    characters = sum(record.characters for record in words)
    nats = math.fsum(record.nats for record in words)
    return {
        "words": len(words),
        "dropped": len(records) - len(words),
        "characters": characters,
        "bits_per_character": nats / math.log(2) / characters if characters else None,
        "exact": 100 * sum(record.exact for record in words) / len(words) if words else None,
    }


@dataclass(frozen=True)
class Paired:
    """Two models on the words that both score."""

    words: int
    bits: tuple[float, float]
    """Per character, of the first model and of the second."""
    difference: Difference | None
    """The first's less the second's, by a paired bootstrap over blocks of the text; None for too
    little text."""


def paired(own: Iterable[WordRecord], other: Iterable[WordRecord]) -> Paired | None:
    """Compare two models by the words that both score.

    Args:
        own: of the first model.
        other: of the second, of the same words in the same order.

    Returns:
        None where there is no such word.
    """
    both = zip(own, other, strict=True)
    common = [(first, second) for first, second in both if first.scored and second.scored]
    if not common:
        return None
    where = np.array([first.block for first, _ in common])
    characters = np.array([float(first.characters) for first, _ in common])
    bits_2W = np.array([[record.nats / math.log(2) for record in pair] for pair in common]).T
    bits_2B = np.array([np.bincount(where, bits_W, BLOCKS) for bits_W in bits_2W])
    characters_B = np.bincount(where, weights=characters, minlength=BLOCKS)
    ours, theirs = (bits_2W.sum(1) / characters.sum()).tolist()
    return Paired(len(common), (ours, theirs), Resampling().between_texts(bits_2B, characters_B))


def text_of(records: Iterable[WordRecord]) -> str:
    """Format the records as a table with tabs; a dropped word has 0 tokens."""
    lines = ["\t".join(HEAD)]
    lines += [f"{r.word}\t{r.characters}\t{r.tokens}\t{r.right}\t{r.nats:.6g}" for r in records]
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[WordRecord]:
    """Read the records of a words.tsv.

    Raises:
        DataError: the file is missing or broken.
    """
    with reading(path, "run the evaluation stage again"):
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        if tuple(head.split("\t")) != HEAD:
            raise ValueError(f"its columns are {head.split()}")
        rows = [line.split("\t") for line in lines]
        return [WordRecord(w, int(c), int(t), int(r), float(nats)) for w, c, t, r, nats in rows]


def on_common(files: Sequence[Path]) -> Common | None:
    """Score several models on the words that none of them dropped.

    Args:
        files: a words.tsv for each model.

    Returns:
        None if the models were not asked for the same words: another test text or evaluation seed.

    Raises:
        DataError: a file is missing or broken.
    """
    tables = [{record.word: record for record in read(path)} for path in files]
    if any(table.keys() != tables[0].keys() for table in tables):
        return None
    common = [word for word in tables[0] if all(records[word].scored for records in tables)]
    measured = [word_metrics([records[word] for word in common]) for records in tables]
    return Common(
        words=len(common),
        dropped=1 - len(common) / len(tables[0]) if tables[0] else 0.0,
        bits_per_character=tuple(metrics["bits_per_character"] for metrics in measured),
    )
