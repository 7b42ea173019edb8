"""New rows as the rows of the source pieces that mean about the same.

Shape letters: V source vocabulary, D width of the embeddings, U target vocabulary, E width of the
static vectors, B a batch of rows, K neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lingraft.embeddings import vectors
from lingraft.embeddings.alignment import align
from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.focus import ROWS_AT_ONCE, without_row
from lingraft.embeddings.match import find_exact_matches
from lingraft.embeddings.material import read_lexicons
from lingraft.embeddings.segmentation import Segmenter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.embeddings.material import Inputs

NEIGHBOURS, TEMPERATURE = 10, 0.1
"""Source pieces a row, and what their cosines are divided by in the softmax."""


def wechsel(inputs: Inputs) -> Plan:
    """Add up the rows of the source pieces that are nearest in a space of both languages.

    Word vectors of the two languages are turned into one space over a lexicon; a piece's vector is
    the mean of the words it is in, weighted by frequency; the weights of the nearest source pieces
    are the softmax of their cosines over the temperature. Pieces that both vocabularies have (word
    start and bytes) are copied; pieces that no word has are drawn from N(0, 0.02); the padding row
    is zero. Words are runs of letters, marks and digits: a language without spaces between words
    (Japanese, Chinese, Thai) should be given word vectors.

    Source: WECHSEL (Minixhofer et al. 2022), §3, eq. 1-4; k = 10 and temperature 0.1 as there.

    Differs from the paper: shared pieces are copied; pieces get the mean over words in place of a
    sum over character n-grams, so that parts of characters have one too; vectors are brought to
    length one before they are turned; where the two sides differ in width, the wider one is
    reduced.

    Material: tokenizers, text, lexicons and vectors (or text of the source language).

    Raises:
        RecipeError: there is no lexicon, or nothing to have the source's vectors from;
            gensim is not installed.
        DataError: a resource cannot be read, or the lexicon is the other way round or translates no
            word that has a vector.
    """
    material = inputs.needed("wechsel")
    lexicon = read_lexicons(material.resources, "wechsel")
    source_words = vectors.source_word_vectors(material, "wechsel")
    target_words = vectors.target_word_vectors(material)
    sides = align(target_words, source_words, lexicon)
    tokenizers = (material.target_tokenizer, material.source_tokenizer)
    target_UE, source_VE = (
        vectors.unit_length(vectors.average_over_words(words, Segmenter(tokenizer)))
        for words, tokenizer in zip(sides, tokenizers, strict=True)
    )
    matches = find_exact_matches(inputs.source, inputs.target)
    target_ids = without_row(target_UE, inputs.target, matches)
    return Plan(matches, combine_nearest(target_UE, source_VE, target_ids, NEIGHBOURS, TEMPERATURE))


def combine_nearest(
    target_UE: torch.Tensor,
    source_VE: torch.Tensor,
    target_ids: Sequence[int],
    neighbours: int,
    temperature: float,
) -> dict[int, Combination]:
    """WECHSEL, eq. 3-4: softmax over the nearest source pieces, by target id.

    Args:
        target_UE: [U, E] of unit length.
        source_VE: [V, E] of unit length; zero rows are no neighbours.
        target_ids: those to make a row for.
        neighbours: how many, fewer where the source has fewer.
        temperature: that the cosines are divided by.
    """
    with_vector = source_VE.any(dim=1).nonzero().flatten()
    among_E = source_VE[with_vector].T
    combinations: dict[int, Combination] = {}
    for some in torch.tensor(target_ids, dtype=torch.int64).split(ROWS_AT_ONCE):
        cosines_BK, places_BK = (target_UE[some] @ among_E).topk(
            min(neighbours, len(with_vector)), dim=1
        )
        weights_BK = (cosines_BK / temperature).softmax(dim=1).numpy()
        ids_BK = with_vector[places_BK].numpy()
        for row, target_id in enumerate(some.tolist()):
            combinations[target_id] = Combination(ids_BK[row], weights_BK[row])
    return combinations
