"""Measures of a tokenizer on a text: fertility, coverage, what comes back from its tokens."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

import regex
from tokenizers import normalizers

from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError
from lingraft.tokenizer.files import kind_of, plain_backend
from lingraft.tokenizer.state import MERGING, WORD_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

CHUNK = 10_000
FEWEST_COVERED, FEWEST_KEPT = 0.99, 0.9
"""Shares below which a vocabulary does not suit a text."""
FEWEST_BACK = 0.98
"""Share of a text that must come back from its tokens."""
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
        gives back exactly; `text_kept`, the share of running characters, as the normaliser spells
        them, that it gives back in any order: those in unknown tokens are lost by a vocabulary of
        bytes, which could spell them, and left out in others; `marks_kept`, the share of accents,
        vowel signs and joiners that the normaliser leaves. Shares are in [0, 1]; None where there
        is nothing to divide by.
    """
    backend = plain_backend(tokenizer)
    normaliser = backend.normalizer or normalizers.Sequence([])
    unknown, in_bytes = tokenizer.unk_token_id, kind_of(tokenizer) in MERGING
    rows = words = characters = size = visible = tokens = unknowns = hidden = exact = 0
    marks = kept = read = back = 0
    for chunk in batched(sentences, CHUNK):
        rows += len(chunk)
        split = [sentence.split() for sentence in chunk]
        words += sum(map(len, split))
        characters += sum(map(len, chunk))
        size += sum(len(sentence.encode()) for sentence in chunk)
        visible += sum(map(_visible, chunk))
        ids = [row.ids for row in backend.encode_batch_fast(chunk, add_special_tokens=False)]
        tokens += sum(map(len, ids))
        marks += sum(map(_marks, chunk))
        kept += sum(_marks(normaliser.normalize_str(sentence)) for sentence in chunk)
        known = _known(backend, chunk, ids, unknown)
        unknowns += sum(row.count(unknown) for row in ids)
        hidden += sum(_visible(a) - _visible(b) for a, b in zip(chunk, known, strict=True))
        decoded = backend.decode_batch(ids, skip_special_tokens=False)
        exact += sum(a == b for a, b in zip(chunk, decoded, strict=True))
        now = _came_back(backend, chunk if in_bytes else known, ids, decoded, unknown)
        read, back = read + now[0], back + now[1]
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
        "text_kept": back / read if read else None,
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
            "the model learns nothing; let tokenizer.action make or add pieces ('new', 'append'), "
            "or raise tokenizer.character_coverage",
            100 * (1 - covered),
            language,
        )
    if kept is not None and kept < FEWEST_KEPT:
        logger.warning(
            "tokenizer: it takes away %.1f %% of the accents, vowel signs and joiners of the %s "
            "text, as the source's does; a new vocabulary (tokenizer.action = 'new') keeps them",
            100 * (1 - kept),
            language,
        )


def warn_of_source(language: str, share: float | None) -> None:
    """Say in the log that the source does not read a whole text, by the share that comes back."""
    if share is not None and share < FEWEST_BACK:
        logger.warning(
            "tokenizer: only %.1f %% of the %s text comes back from the source's own tokens: what "
            "the source scores on it is not of the whole text",
            100 * share,
            language,
        )


def check_kept(whose: str, share: float | None) -> None:
    """Tell how much text a tokenizer keeps; refuse one that loses what no model would then read.

    Args:
        whose: what the log and the error call the tokenizer.
        share: of the text that comes back from its tokens; None for no text.

    Raises:
        DataError: it is below `FEWEST_BACK`.
    """
    if share is None:
        return
    if share < FEWEST_BACK:
        raise DataError(
            f"{whose}: only {share:.1%} of the text comes back from its tokens, {FEWEST_BACK:.0%} "
            "must: the vocabulary lacks bytes or letters; let tokenizer.action add or make pieces "
            "('extend', 'append', 'source'), or take a model whose vocabulary has them"
        )
    logger.info("%s: %.2f %% of the text comes back from its tokens", whose, 100 * share)


def _came_back(
    backend: Tokenizer,
    texts: Sequence[str],
    ids: Sequence[list[int]],
    decoded: Sequence[str],
    unknown: int | None,
) -> tuple[int, int]:
    """Count visible characters of normalised texts, and those that their known ids give back."""
    normaliser = backend.normalizer or normalizers.Sequence([])
    read = back = 0
    for text, row, again in zip(texts, ids, decoded, strict=True):
        if unknown in row:
            again = backend.decode([i for i in row if i != unknown], skip_special_tokens=False)
        before, after = (
            Counter("".join(normaliser.normalize_str(side).replace(WORD_START, " ").split()))
            for side in (text, again)
        )
        read, back = read + before.total(), back + (before & after).total()
    return read, back


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _marks(text: str) -> int:
    return len(MARK.findall(unicodedata.normalize("NFD", text)))


def changed_tokens(
    before: PreTrainedTokenizerFast, after: PreTrainedTokenizerFast, sentences: Iterable[str]
) -> dict[str, float | int | None]:
    """Measure how much of a text falls into other tokens than before.

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


def _known(
    backend: Tokenizer, texts: Sequence[str], ids: Sequence[list[int]], unknown: int | None
) -> list[str]:
    """Return texts without what stands in unknown tokens."""
    known = list(texts)
    for index, row in enumerate(ids):
        if unknown not in row:
            continue
        encoded = backend.encode(texts[index], add_special_tokens=False)  # the ids have no offsets
        letters = list(texts[index])
        for token, (start, end) in zip(encoded.ids, encoded.offsets, strict=True):
            if token == unknown:
                letters[start:end] = [" "] * (end - start)
        known[index] = "".join(letters)
    return known
