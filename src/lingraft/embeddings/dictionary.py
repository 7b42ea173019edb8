"""Matching by spelling, then by meaning: what MetaXLM does with bilingual lexicons."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.embeddings.common import Plan
from lingraft.embeddings.match import STAGES, Cascade, find_matches, lower
from lingraft.embeddings.material import ORDER, read_each
from lingraft.errors import DataError
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from lingraft.corpus.lexicon import Lexicon
    from lingraft.embeddings.material import Inputs
    from lingraft.tokenizer.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

CASCADE = ("exact", *STAGES)
"""The rules by which a translation is found in the source."""


def dictionary(inputs: Inputs) -> Plan:
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

    The plan's `lexicons` say what each dictionary gave.

    Raises:
        RecipeError: there is no lexicon.
        DataError: a lexicon cannot be read or is the other way round, or none translates any piece.
    """
    material = inputs.needed("dictionary")
    lexicons = read_each(material.resources, "dictionary")
    matches = find_matches(inputs.source, inputs.target)
    cascade = Cascade.of(inputs.source)
    words = _unmatched(inputs.target, matches)
    for name, lexicon in lexicons.items():
        check_direction(name, lexicon, words.values(), cascade)
    hits: dict[str, Counter[str]] = {name: Counter() for name in lexicons}
    for target_id, word in words.items():
        for name, lexicon in lexicons.items():
            meanings = _translations(lexicon, word)
            hits[name]["words"] += bool(meanings)
            row = next((hit for text in meanings if (hit := _row(text, cascade))), None)
            if row is not None:
                hits[name][row[0]] += 1
                matches[target_id] = ("dictionary", row[1])
                break
    _check_use(lexicons, hits)
    return Plan(matches, lexicons=_told(lexicons, hits))


def _check_use(lexicons: Mapping[str, Lexicon], hits: Mapping[str, Counter[str]]) -> None:
    """Refuse dictionaries that give no row: the method would be that without them."""
    words = sum(counts["words"] for counts in hits.values())
    if not words:
        pairs = sum(len(lexicon.translations) for lexicon in lexicons.values())
        raise DataError(
            f"embeddings.lexicons: none of their {pairs:,} words is a word of "
            f"the new vocabulary that the source lacks; {ORDER}"
        )
    if not any(counts[rule] for counts in hits.values() for rule in CASCADE):
        raise DataError(
            f"embeddings.lexicons: they translate {words:,} words of the new vocabulary, none into "
            "a word that is one piece of the source's; give lexicons into the source's language "
            f"({ORDER})"
        )


def _told(
    lexicons: Mapping[str, Lexicon], hits: Mapping[str, Counter[str]]
) -> tuple[dict[str, Any], ...]:
    """Return what each dictionary gave, and log it."""
    rows = []
    for name, lexicon in lexicons.items():
        rules = {rule: hits[name][rule] for rule in CASCADE}
        rows.append(
            {"file": name, "pairs": len(lexicon.pairs), "words": hits[name]["words"]} | rules
        )
        summary = ", ".join(f"{rule} {count:,}" for rule, count in rules.items() if count) or "none"
        logger.info(
            "dictionary %s: %s unmatched pieces are words of it; one piece of the source: %s",
            name,
            f"{hits[name]['words']:,}",
            summary,
        )
    return tuple(rows)


def check_direction(
    name: str, lexicon: Lexicon, words: Iterable[str], cascade: Cascade
) -> tuple[int, int]:
    """Check that a dictionary has the word of the new language first.

    A pair fits where its first word is a piece of the new vocabulary that the source lacks, and its
    second one is a piece of the source.

    Args:
        name: of its file.
        lexicon: with the words that are taken for the new language's first.
        words: pieces of the new vocabulary that start a word and that the source lacks.
        cascade: the source's pieces.

    Returns:
        How many pairs fit, and how many would if the two columns were swapped.

    Raises:
        DataError: more would fit if they were swapped.
    """
    lacking = {form for word in words for form in (word, lower(word))}
    fit = sum(
        first in lacking and _row(second, cascade) is not None for first, second in lexicon.pairs
    )
    swapped = sum(
        second in lacking and _row(first, cascade) is not None for first, second in lexicon.pairs
    )
    if swapped > fit:
        raise DataError(
            f"embeddings.lexicons: {name}: seems to be the other way round: {fit:,} of its pairs "
            "have a word that is new to the source first and one that the source knows second, "
            f"{swapped:,} the opposite; {ORDER}"
        )
    return fit, swapped


def _unmatched(target: Vocabulary, matched: Container[int]) -> dict[int, str]:
    """Return the text of the pieces that start a word and are not matched."""
    words = {}
    for target_id, form in enumerate(target.canonical):
        if form is None or target_id in matched or not form.word_start:
            continue
        with contextlib.suppress(UnicodeDecodeError):
            words[target_id] = form.text.decode()
    return words


def _translations(lexicon: Lexicon, word: str) -> list[str]:
    """Return the translations of a word as it is spelt, else in lower case."""
    return lexicon.translations.get(word) or lexicon.translations.get(lower(word)) or []


def _row(translation: str, cascade: Cascade) -> tuple[str, int] | None:
    """Return the rule and the id of the source's piece that is the translation."""
    return cascade.find(Canonical(True, translation.encode()))
