"""Measures of a tokenizer on a text: fertility, coverage, what comes back from its tokens."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

import regex
from tokenizers import normalizers

from lingraft.corpus.readers.lines import batched
from lingraft.errors import DataError
from lingraft.tokenizer.files import kind_of, plain_backend, state_of
from lingraft.tokenizer.state import BYTE_OF, MERGING, WORD_START, missing_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerFast

    Found = dict[str, float | int | None]

logger = logging.getLogger(__name__)

CHUNK = 10_000
LEAST = {"character_coverage": 0.99, "marks_kept": 0.9}
"""Shares below which a vocabulary does not suit a text."""
FEWEST_BACK = 0.98
"""Share of a text that must come back from its tokens."""
# Accents and vowel signs in decomposed text, and the joiners of words.
MARK = regex.compile(r"[\p{M}\u200c\u200d]")


def statistics(tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]) -> Found:
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
    unknown, in_bytes = tokenizer.unk_token_id, kind_of(tokenizer) in MERGING
    n: Counter[str] = Counter()
    for chunk in batched(sentences, CHUNK):
        encoded = backend.encode_batch(chunk, add_special_tokens=False)
        for text, row in zip(chunk, encoded, strict=True):
            n.update(_counts(text, row, backend, unknown, in_bytes=in_bytes))

    def share(part: str, whole: str) -> float | None:
        return n[part] / n[whole] if n[whole] else None

    marks = share("marks left", "marks")
    return {
        **{key: n[key] for key in ("sentences", "words", "characters", "tokens")},
        "tokens_per_word": share("tokens", "words"),
        "characters_per_token": share("characters", "tokens"),
        "bytes_per_token": share("bytes", "tokens"),
        "unknown_rate": share("unknown", "tokens"),
        "character_coverage": share("covered", "visible"),
        "round_trip": share("exact", "sentences"),
        "text_kept": share("back", "read"),
        "marks_kept": None if marks is None else min(1.0, marks),
    }


def _counts(
    text: str, row: Encoding, backend: Tokenizer, unknown: int | None, *, in_bytes: bool
) -> dict[str, int]:
    """Count what `statistics` divides, in one sentence and its tokens."""
    normaliser = backend.normalizer or normalizers.Sequence([])
    known, ids = _without(unknown, text, row), [i for i in row.ids if i != unknown]
    again = backend.decode(ids, skip_special_tokens=False)
    read, back = (
        Counter("".join(normaliser.normalize_str(side).replace(WORD_START, " ").split()))
        for side in (text if in_bytes else known, again)
    )
    return {
        "sentences": 1,
        "words": len(text.split()),
        "characters": len(text),
        "bytes": len(text.encode()),
        "tokens": len(row),
        "unknown": len(row) - len(ids),
        "visible": _visible(text),
        "covered": _visible(known),
        "exact": again == text,
        "read": read.total(),
        "back": (read & back).total(),
        "marks": _marks(text),
        "marks left": _marks(normaliser.normalize_str(text)),
    }


def _without(unknown: int | None, text: str, row: Encoding) -> str:
    """Return a text without what stands in unknown tokens."""
    letters = list(text)
    for token, (start, end) in zip(row.ids, row.offsets, strict=True):
        if token == unknown:
            letters[start:end] = " " * (end - start)
    return "".join(letters)


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _marks(text: str) -> int:
    return len(MARK.findall(unicodedata.normalize("NFD", text)))


def warn(language: str, found: Found) -> None:
    """Log what of a text a tokenizer loses: `found` by `statistics`."""
    for key, least in LEAST.items():
        if (share := found[key]) is not None and share < least:
            logger.warning(
                "tokenizer: %s of the %s text is %.1f %%; tokenizer.action = 'new' keeps more",
                *(key.replace("_", " "), language, 100 * share),
            )


def warn_of_bytes(tokenizer: PreTrainedTokenizerFast, sentences: Iterable[str]) -> None:
    """Log which bytes of UTF-8 a vocabulary of bytes lacks, and how much of a text they take."""
    lacking = {BYTE_OF[piece] for piece in missing_bytes(state_of(tokenizer)) if piece in BYTE_OF}
    if lacking:
        count = Counter(chain.from_iterable(sentences))
        lost = sum(n for letter, n in count.items() if not lacking.isdisjoint(letter.encode()))
        logger.warning(
            "tokenizer: it lacks %d bytes (%s), and loses %s of %s characters of the text without "
            "a sign; tokenizer.action = 'append' adds them",
            *(len(lacking), bytes(sorted(lacking)).hex(" "), f"{lost:,}", f"{count.total():,}"),
        )


def check_kept(whose: str, share: float | None) -> None:
    """Refuse a tokenizer that loses text which no model would then read.

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
            "must; let tokenizer.action add or make pieces, or take a model whose vocabulary has "
            "them"
        )
    logger.info("%s: %.2f %% of the text comes back from its tokens", whose, 100 * share)
