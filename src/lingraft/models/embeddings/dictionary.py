"""Matching by spelling, then by meaning: what MetaXLM does with bilingual lexicons."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from lingraft.corpus import aligned
from lingraft.errors import DataError
from lingraft.models.embeddings.common import ORDER, RowPlan
from lingraft.models.embeddings.match import Cascade, find_matches, lower
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from lingraft.corpus.aligned import Lexicon
    from lingraft.models.embeddings.common import Inputs
    from lingraft.tokenizer.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


def dictionary(inputs: Inputs) -> RowPlan:
    """Copy rows as `match` does; then, for pieces that are whole words, that of a translation.

    Each piece that starts a word and is not matched is looked up in the dictionaries, one after the
    other in the order of `embeddings.lexicons`, as it is spelt, then in lower case. They may be of
    any of the run's languages. Of its translations, in the order of the file, the first that the
    source has as one piece (in the cascade of `match`) gives its row. All others are drawn from
    N(0, 0.02); the padding row is zero.

    Source: MetaXLM (Chi et al. 2021), §3.2, +Dict.

    Differs from the paper: it does not say which of several translations counts; taking the first
    in file order is ours.

    Material: its `embeddings.lexicons` are read.

    Raises:
        DataError: a lexicon cannot be read or is the other way round, or none translates any piece.
    """
    resources = inputs.needed("dictionary").resources
    cascade = Cascade.of(inputs.source)
    matches = find_matches(inputs.source, inputs.target, cascade)
    words = _unmatched(inputs.target, matches)
    swap = resources.source_first
    lexicons = {name: aligned.read_lexicon([name], swap=swap) for name in resources.lexicons}
    for name, of_file in lexicons.items():
        _check_direction(name, of_file, words.values())
    for target_id, word in words.items():
        for of_file in lexicons.values():
            rows = (cascade.find(Canonical(True, m.encode())) for m in _meanings(of_file, word))
            if row := next(filter(None, rows), None):
                matches[target_id] = ("dictionary", row[1])
                break
    found = sum(target_id in matches for target_id in words)
    logger.info("dictionaries: %s of %s new words found", f"{found:,}", f"{len(words):,}")
    if not found:
        raise DataError(
            "embeddings.lexicons: translate no word that is new to the source into one piece of "
            f"the source's vocabulary; {ORDER}"
        )
    return RowPlan(matches)


def _check_direction(name: str, of_file: Lexicon, words: Iterable[str]) -> None:
    """Check that a dictionary has the word of the new language first.

    Raises:
        DataError: more words that the source lacks stand second.
    """
    lacking = {form for word in words for form in (word, lower(word))}
    sides = zip(*of_file.pairs, strict=True)
    first, second = (sum(word in lacking for word in side) for side in sides)
    if second > first:
        raise DataError(
            f"embeddings.lexicons: {name}: seems to be the other way round: {first:,} words that "
            f"are new to the source stand first and {second:,} second; {ORDER}"
        )


def _unmatched(target: Vocabulary, matched: Container[int]) -> dict[int, str]:
    """Return the text of the pieces that start a word and are not matched."""
    words = {}
    for target_id, form in enumerate(target.canonical):
        if form is not None and target_id not in matched and form.word_start:
            with contextlib.suppress(UnicodeDecodeError):
                words[target_id] = form.text.decode()
    return words


def _meanings(of_file: Lexicon, word: str) -> list[str]:
    """Return the translations of a word as it is spelt, else in lower case."""
    return of_file.translations.get(word) or of_file.translations.get(lower(word)) or []
