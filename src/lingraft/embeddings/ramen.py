"""New rows as the rows of their likely translations, learnt from sentence pairs."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from lingraft.embeddings import translation
from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.match import find_exact_matches
from lingraft.embeddings.material import ORDER, files, read_pairs
from lingraft.embeddings.vectors import cut
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lingraft.corpus.pairs import Pair
    from lingraft.embeddings.material import Inputs, Material
    from lingraft.tokenizer.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

KEY = "resources.parallel"
LONGEST = 100
CHECKED, CLEARLY = 1_000, 0.9
"""Pairs whose direction is looked at; a share of the pieces that is clearly fewer."""
TRANSLATIONS = 10
"""Source pieces a new piece, at most."""


def ramen(inputs: Inputs) -> Plan:
    """Add up source rows by the probability that the new piece is translated so.

    The probabilities of IBM model 1 between the two vocabularies' pieces, learnt from sentence
    pairs; of each piece the likeliest translations are kept and their probabilities scaled to sum
    to one. Pieces that both vocabularies have (word start and bytes) are copied; pieces that the
    pairs do not have are drawn from N(0, 0.02); the padding row is zero.

    Source: RAMEN (Tran 2020), §3.1, eq. 3, initialised from parallel text.

    Differs from the paper: it aligns with fast_align; model 1 learns without positions, and we keep
    ten translations a piece. Its bias and its bilingual training are no part of this.

    Material: its tokenizers and `resources.parallel` (target sentence, tab, source sentence) are
    used; of that at most `resources.sentences` pairs.

    Raises:
        RecipeError: there is no parallel text.
        DataError: the parallel text cannot be read, is the other way round, or has no pair of
            sentences that are short enough (100 pieces).
    """
    material = inputs.needed("ramen")
    pairs = _sentence_pairs(material, inputs.source, inputs.target)
    table = translation.learn(pairs, nothing=inputs.target.size)
    matches = find_exact_matches(inputs.source, inputs.target)
    combinations = {
        target_id: Combination(ids, (shares / shares.sum()).astype(np.float32))
        for target_id, (ids, shares) in table.best(TRANSLATIONS).items()
        if target_id not in matches and target_id < inputs.target.size
    }
    return Plan(matches, combinations)


def _sentence_pairs(
    material: Material, source: Vocabulary, target: Vocabulary
) -> list[translation.Pair]:
    """The ids of each pair of sentences, special tokens left out."""
    paths = files(material.resources.parallel, KEY, "ramen", "parallel text")
    pairs = read_pairs(paths, key=KEY, source_first=material.resources.source_first)
    pairs = list(islice(pairs, material.resources.sentences))
    _check_direction(material, pairs[:CHECKED])
    targets = cut(material.target_tokenizer, (pair.target for pair in pairs))
    sources = cut(material.source_tokenizer, (pair.source for pair in pairs))
    id_pairs = []
    for target_ids, source_ids in zip(targets, sources, strict=True):
        id_pair = (_known(target_ids, target), _known(source_ids, source))
        if all(0 < len(ids) <= LONGEST for ids in id_pair):
            id_pairs.append(id_pair)
    if not id_pairs:
        raise DataError(
            f"{KEY}: of {len(pairs):,} sentence pairs none has 1 to {LONGEST} pieces on both "
            "sides; give sentences, not documents"
        )
    logger.info(
        "ramen: %s sentence pairs, %s longer than %d pieces (or without any) left out",
        f"{len(id_pairs):,}",
        f"{len(pairs) - len(id_pairs):,}",
        LONGEST,
    )
    return id_pairs


def _check_direction(material: Material, pairs: Sequence[Pair]) -> None:
    """Check that pairs have the new language first: a tokenizer cuts its own into fewer pieces.

    Raises:
        DataError: there would be clearly fewer pieces if the two columns were swapped.
    """
    first, second = [pair.target for pair in pairs], [pair.source for pair in pairs]
    as_it_is, swapped = (
        sum(map(len, cut(material.target_tokenizer, targets)))
        + sum(map(len, cut(material.source_tokenizer, sources)))
        for targets, sources in ((first, second), (second, first))
    )
    if swapped < CLEARLY * as_it_is:
        raise DataError(
            f"{KEY}: seems to be the other way round: the two tokenizers cut its first "
            f"{len(pairs):,} pairs into {as_it_is:,} pieces, and into {swapped:,} with the columns "
            f"swapped; {ORDER}"
        )


def _known(ids: list[int], vocabulary: Vocabulary) -> NDArray[np.int32]:
    return np.array([i for i in ids if vocabulary.canonical[i] is not None], dtype=np.int32)
