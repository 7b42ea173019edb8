"""Whole documents as causal models read them: on disk one a row, read in pieces of the context.

A document's text is its lines with a newline between them, and is tokenised as one. It begins with
the special tokens that the tokenizer puts before a text (Llama's <|begin_of_text|>; GPT-2 and Qwen
have none) and ends with the tokenizer's end-of-text token.

A document of more tokens than the context is read in consecutive pieces. Each begins with the
special tokens before a text; where there are none, with the token that the piece before it
predicted last. So every token of a document but its first is predicted once, none from another
document, and each piece's positions start from 0.

Shape letters: D documents, P pieces.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.readers.lines import portions
from lingraft.corpus.streams import read_lines
from lingraft.tokenizer.frame import special_ids
from lingraft.tokenizer.shards import (
    Tokens,
    chunks_of,
    document_starts,
    special_ids_around,
    write_rows,
)
from lingraft.tokenizer.state import MERGING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from lingraft import recipe

logger = logging.getLogger(__name__)
Array = np.ndarray[Any, Any]

BETWEEN_LINES = "\n"
"""Text between two lines of a document: blank lines are gone since the corpus stage."""
AT_ONCE = 1 << 21
"""Characters of documents that are tokenised together, more where one is longer."""


def read(text_path: Path) -> Iterator[str]:
    """Yield the text of each document of a corpus file, in order."""
    lines = chain.from_iterable(chunks_of(text_path))
    for size in chain(np.diff(document_starts(text_path)), (None,)):  # the last to the end
        if document := list(islice(lines, size)):
            yield BETWEEN_LINES.join(document)


BLANK = "\u2424"
SHOWN = str.maketrans({" ": "\u2420", "\t": "\u2409"})
WRITTEN = str.maketrans({"\u2420": " ", "\u2409": "\t", BLANK: ""})
"""Signs for white space that the corpus stage would take away, in text that a model has written."""


def as_lines(text: str) -> str:
    """Write a text so that blank lines and indentation stay; `WRITTEN` takes it back."""
    lines = []
    for line in text.split(BETWEEN_LINES):
        words = line.lstrip(" \t")
        lines.append(line[: len(line) - len(words)].translate(SHOWN) + words or BLANK)
    return BETWEEN_LINES.join(lines)


def lines_within(text_path: Path) -> Iterator[str]:
    """Yield the lines of a corpus file, with the line ends before and behind them in a document."""
    for document in read(text_path):
        lines = document.split(BETWEEN_LINES)
        last = len(lines) - 1
        for number, line in enumerate(lines):
            begin, end = (BETWEEN_LINES if there else "" for there in (number > 0, number < last))
            yield begin + line + end


def reader_for(section: recipe.Tokenizer, source_kind: str) -> Callable[[Path], Iterator[str]]:
    """Return the reader of text for a causal model's vocabulary: it reads text as the model does.

    Some pieces hold the end of a line (in Qwen and Llama 3 a full stop and it), and SentencePiece's
    first word of a line is another piece than that of a text.

    Args:
        section: [tokenizer] of the recipe.
        source_kind: of the source's tokenizer.
    """
    if section.action == "trim":
        return read
    made = section.action not in ("keep", "use") and section.algorithm == "source"
    follows = source_kind in MERGING and made
    return lines_within if follows else read_lines


ENDS = ("<|endoftext|>", "<|end_of_text|>", "<eos>", "</s>")
"""Ends of a text that base models have."""


def end_of_text(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the token behind a document, if any: of chat models the base's, not that of a turn."""
    if tokenizer.eos_token_id is None:
        return []
    ids, special = tokenizer.get_vocab(), special_ids(tokenizer)
    said = [{"role": "user", "content": "0"}, {"role": "assistant", "content": "0"}]
    turns: Any = tokenizer.chat_template and tokenizer.apply_chat_template(said, return_dict=False)
    if tokenizer.eos_token_id not in (turns or ()):
        return [int(tokenizer.eos_token_id)]
    others = (ids[name] for name in ENDS if ids.get(name) in special - {*turns})
    return [next(others, int(tokenizer.eos_token_id))]


def before(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """Return the special tokens that the tokenizer puts before a text; mostly one or none."""
    return special_ids_around(tokenizer.backend_tokenizer)[0]


def cut(lengths_D: Array, specials: int, context: int) -> tuple[Array, Array]:
    """Cut documents into pieces that are read at once.

    A piece is `context` + 1 tokens of its document's row, of which it predicts all but the first
    ones: the special tokens before a text, which take the place of what stands there, or one token.

    Args:
        lengths_D: tokens of each document, special ones included.
        specials: how many stand before a text.
        context: tokens that are read at once.

    Returns:
        [P] the document of each piece, and [P] its first token there.
    """
    own = max(specials, 1)
    step = context + 1 - own
    pieces_D = np.maximum(-(-(lengths_D.astype(np.int64) - own) // step), 0)
    owners = np.repeat(np.arange(len(lengths_D)), pieces_D)
    numbers = np.arange(len(owners)) - (np.cumsum(pieces_D) - pieces_D)[owners]
    return owners, numbers * step


def encode(
    tokenizer: PreTrainedTokenizerFast,
    text_path: Path,
    out: Path,
    split: str,
    max_tokens: int,
    *,
    special: bool = False,
) -> dict[str, int]:
    """Tokenise the documents of a corpus file into the files of `shards`, one a row.

    Args:
        tokenizer: the tokenizer.
        text_path: UTF-8 text, as the corpus stage writes it.
        out: folder that the files go to.
        split: first part of their names.
        max_tokens: of the context, which the model reads at once.
        special: as in `write_rows`, of text that a model has written.

    Returns:
        As `shards.encode`: `sentences` are documents, and `cut` those of more than the context;
        `pieces` is what all of them are read in.
    """
    end = end_of_text(tokenizer)
    if not end and split.endswith("train"):
        logger.warning("the tokenizer has no eos_token, so the model learns no end to stop at")
    texts = (text.translate(WRITTEN) if special else text for text in read(text_path))
    prefix, chunks = before(tokenizer), portions(texts, AT_ONCE, len)
    starts = np.arange(len(document_starts(text_path)))
    around, how = (prefix, end), {"cuts": False, "special": special}
    counts = write_rows(tokenizer, chunks, starts, around, max_tokens + 1, out / split, **how)
    return counts | {"pieces": len(Documents.of(Tokens.open(out, split), max_tokens, prefix))}


@dataclass(frozen=True)
class Documents:
    """The documents of one split in pieces; in place of `Tokens` where an objective reads them."""

    tokens: Tokens
    """A document a row."""
    owners: Array
    """[P] the document of each piece."""
    begins: Array
    """[P] its first token there."""
    context: int
    prefix: Array
    """Special tokens that every piece begins with."""

    @classmethod
    def of(cls, tokens: Tokens, context: int, prefix: Sequence[int] = ()) -> Documents:
        """Cut what is longer than the context; a document of one token predicts nothing.

        Args:
            tokens: a document a row.
            context: tokens that are read at once.
            prefix: special tokens that each row begins with, and each piece is to.
        """
        owners, begins = cut(tokens.lengths, len(prefix), context)
        return cls(tokens, owners, begins, context, np.array(prefix, tokens.ids.dtype))

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.owners)

    @property
    def lengths(self) -> Array:
        """Return the tokens read of each piece, [P] int32, which is as many as are predicted."""
        whole = self.tokens.lengths[self.owners] - 1 - self.begins
        return np.minimum(whole, self.context).astype(np.int32)

    def rows(self, indices: Sequence[int] | Array) -> list[Array]:
        """Return pieces by index: one token more than is read, which is predicted last."""
        subset = self.subset(indices)
        starts = self.tokens.offsets[subset.owners].astype(np.int64) + subset.begins
        ends, ids = starts + subset.lengths + 1, self.tokens.ids
        rows = [ids[start:end] for start, end in zip(starts, ends, strict=True)]
        size = len(self.prefix)
        return [np.concatenate([self.prefix, row[size:]]) for row in rows] if size else rows

    def subset(self, indices: Sequence[int] | Array) -> Documents:
        """Return some of the pieces, in the order that is given."""
        return dataclasses.replace(self, owners=self.owners[indices], begins=self.begins[indices])
