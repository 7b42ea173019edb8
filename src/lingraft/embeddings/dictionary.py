"""Matching by spelling, then by meaning: what MetaXLM does with bilingual lexicons.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.lexicon import ORDER, read_lexicons
from lingraft.embeddings.match import Cascade, find_matches, lower
from lingraft.embeddings.material import needed
from lingraft.embeddings.segmentation import Segmenter
from lingraft.errors import DataError
from lingraft.tokenizer.vocabulary import Canonical

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from lingraft.corpus.lexicon import Lexicon
    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


def dictionary(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
    *,
    average_pieces: bool = False,
) -> Plan:
    """Copy rows as `match` does; then, for pieces that are whole words, that of a translation.

    Each piece that starts a word and is not matched is looked up in the lexicons, as it is spelt,
    then in lower case. Of its translations, in the order of the files, the first that the source
    has as one piece (in the cascade of `match`) gives its row. All others are drawn from
    N(0, 0.02); the padding row is zero.

    Source: MetaXLM (Chi et al. 2021), §3.2, +Dict; SPEC G.2.

    Differs from the paper: it does not say which of several translations counts; taking the first
    in file order is ours (SPEC G.2).

    Material: its `resources.lexicons` are read.

    Options:
        average_pieces: where no translation is one piece, take the mean of the pieces of the first
            that has any.

    Raises:
        RecipeError: there is no lexicon.
        DataError: a lexicon cannot be read, or translates none of the pieces.
    """
    given = needed(material, "dictionary")
    lexicon = read_lexicons(given.resources, "dictionary")
    matches = find_matches(source, target)
    cascade = Cascade.of(source)
    segment = Segmenter(given.source_tokenizer) if average_pieces else None
    combinations: dict[int, Combination] = {}
    stages: Counter[str] = Counter()
    known = 0
    for target_id, translations in _translated(target, lexicon, matches.keys()):
        known += 1
        for translation in translations:
            found = cascade.find(Canonical(True, translation.encode()))
            if found is not None:
                stages[found[0]] += 1
                matches[target_id] = ("dictionary", found[1])
                break
        else:
            ids = _pieces(translations, segment)
            if ids:
                combinations[target_id] = Combination.mean(ids, "combined")
    if not known:
        raise DataError(
            f"resources.lexicons: none of their {len(lexicon.translations):,} words is a word of "
            f"the new vocabulary that the source lacks; {ORDER}"
        )
    hits = ", ".join(f"{rule} {count:,}" for rule, count in stages.items()) or "none"
    logger.info(
        "dictionary: %d words found in the lexicons; one piece of the source: %s", known, hits
    )
    return Plan(matches, combinations)


def _translated(
    target: Vocabulary, lexicon: Lexicon, matched: Iterable[int]
) -> list[tuple[int, list[str]]]:
    """The unmatched pieces that start a word and stand in the lexicon, with their translations."""
    done = set(matched)
    found = []
    for target_id, form in enumerate(target.canonical):
        if form is None or target_id in done or not form.word_start:
            continue
        try:
            text = form.text.decode()
        except UnicodeDecodeError:
            continue
        translations = lexicon.translations.get(text) or lexicon.translations.get(lower(text))
        if translations:
            found.append((target_id, translations))
    return found


def _pieces(translations: list[str], segment: Segmenter | None) -> list[int]:
    if segment is None:
        return []
    cut = (
        [index for word in translation.split() for index in segment(Canonical(True, word.encode()))]
        for translation in translations
    )
    return next((ids for ids in cut if ids), [])
