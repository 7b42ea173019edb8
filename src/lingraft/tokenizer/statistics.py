"""How well a tokenizer fits a text: fertility, coverage, unknown rate, exact round trip."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

import regex
from tokenizers import normalizers

from lingraft.corpus.readers.lines import batched
from lingraft.tokenizer.files import plain_backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

CHUNK = 10_000
FEWEST_COVERED, FEWEST_KEPT = 0.99, 0.9
"""Shares below which a vocabulary does not suit a text."""
# Accents and vowel signs in decomposed text, and the joiners of words.
MARK = regex.compile(r"[\p{M}\u200c\u200d]")


def statistics(
    tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]
) -> dict[str, float | int | None]:
    """Measure a tokenizer on sentences.

    Args:
        tokenizer: any tokenizer with a `tokenizers` backend.
        sentences: text; special tokens spelt out in it count as text.

    Returns:
        `sentences`; `words`, between white space; `characters`, code points with the spaces between
        words; `tokens`, without the special ones around a sentence; `tokens_per_word` (fertility);
        `characters_per_token`; `bytes_per_token`, in UTF-8; `unknown_rate`, the share of tokens
        that are the unknown token;
        `character_coverage`, the share of running characters, white space left out, that are not
        inside an unknown token; `round_trip`, the share of sentences that decode(encode(sentence))
        gives back exactly; `marks_kept`, the share of accents, vowel signs and joiners that the
        tokenizer's normaliser leaves. Shares are in [0, 1]; None where there is nothing to divide
        by.
    """
    backend = plain_backend(tokenizer)
    normaliser = backend.normalizer or normalizers.Sequence([])
    unknown = tokenizer.unk_token_id
    rows = words = characters = size = visible = tokens = unknowns = hidden = exact = 0
    marks = kept = 0
    for chunk in batched(sentences, CHUNK):
        rows += len(chunk)
        split = [sentence.split() for sentence in chunk]
        words += sum(map(len, split))
        characters += sum(map(len, chunk))
        size += sum(len(sentence.encode()) for sentence in chunk)
        visible += sum(len(word) for parts in split for word in parts)
        ids = [row.ids for row in backend.encode_batch_fast(chunk, add_special_tokens=False)]
        tokens += sum(map(len, ids))
        marks += sum(map(_marks, chunk))
        kept += sum(_marks(normaliser.normalize_str(sentence)) for sentence in chunk)
        affected = [sentence for sentence, row in zip(chunk, ids, strict=True) if unknown in row]
        unknowns += sum(row.count(unknown) for row in ids)
        hidden += _hidden_characters(backend, affected, unknown)
        decoded = backend.decode_batch(ids, skip_special_tokens=False)
        exact += sum(a == b for a, b in zip(chunk, decoded, strict=True))
    return {
        "sentences": rows,
        "words": words,
        "characters": characters,
        "tokens": tokens,
        "tokens_per_word": tokens / words if words else None,
        "characters_per_token": characters / tokens if tokens else None,
        "bytes_per_token": size / tokens if tokens else None,
        "unknown_rate": unknowns / tokens if tokens else None,
        "character_coverage": 1 - hidden / visible if visible else None,
        "round_trip": exact / rows if rows else None,
        "marks_kept": min(1.0, kept / marks) if marks else None,
    }


def warn(language: str, found: Mapping[str, float | int | None]) -> None:
    """Say in the log what of a text a tokenizer loses.

    Args:
        language: of the text.
        found: what `statistics` found in it.
    """
    covered, kept = found["character_coverage"], found["marks_kept"]
    if covered is not None and covered < FEWEST_COVERED:
        logger.warning(
            "tokenizer: %.1f %% of the characters of the %s text are in unknown tokens, of which "
            "the model learns nothing; let tokenizer.kind make or add pieces ('source', 'append'), "
            "or raise tokenizer.character_coverage",
            100 * (1 - covered),
            language,
        )
    if kept is not None and kept < FEWEST_KEPT:
        logger.warning(
            "tokenizer: it takes away %.1f %% of the accents, vowel signs and joiners of the %s "
            "text, as the source's does; a new vocabulary (tokenizer.kind = 'source') keeps them",
            100 * (1 - kept),
            language,
        )


def _marks(text: str) -> int:
    return len(MARK.findall(unicodedata.normalize("NFD", text)))


def changed_tokens(
    before: PreTrainedTokenizerFast, after: PreTrainedTokenizerFast, sentences: Iterable[str]
) -> dict[str, float | int | None]:
    """How much of a text falls into other tokens than it did.

    Args:
        before: the source's tokenizer.
        after: the one that was made of it.
        sentences: the text.

    Returns:
        `sentences` and `tokens` (of the tokenizer before), and the share of these tokens that
        `changed`: at whose place in the sentence there is another piece now.
    """
    rows = tokens = same = 0
    sides = [plain_backend(before), plain_backend(after)]
    for chunk in batched(sentences, CHUNK):
        rows += len(chunk)
        encoded = [backend.encode_batch(chunk, add_special_tokens=False) for backend in sides]
        for old, new in zip(*encoded, strict=True):
            placed = [Counter(zip(row.tokens, row.offsets, strict=True)) for row in (old, new)]
            tokens += len(old.ids)
            same += (placed[0] & placed[1]).total()
    share = 1 - same / tokens if tokens else None
    return {"sentences": rows, "tokens": tokens, "changed": share}


def _hidden_characters(backend: Tokenizer, sentences: list[str], unknown: int) -> int:
    """Visible characters inside unknown tokens; encoded again, for the fast way has no offsets."""
    hidden = 0
    for sentence, row in zip(
        sentences, backend.encode_batch(sentences, add_special_tokens=False), strict=True
    ):
        for token, (start, end) in zip(row.ids, row.offsets, strict=True):
            if token == unknown:
                hidden += sum(not character.isspace() for character in sentence[start:end])
    return hidden
