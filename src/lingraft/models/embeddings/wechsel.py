"""New rows as the rows of the source pieces that mean about the same.

Shape letters: V source vocabulary, D width of the embeddings, U target vocabulary, E and F widths
of static vectors, W words, P pairs of words, N rows, B a batch of rows, K neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import torch

from lingraft.corpus import aligned
from lingraft.errors import DataError
from lingraft.models.embeddings import vectors
from lingraft.models.embeddings.common import ORDER, Combination, RowPlan
from lingraft.models.embeddings.focus import ROWS_AT_ONCE, without_row
from lingraft.models.embeddings.match import find_exact_matches
from lingraft.models.embeddings.segmentation import Segmenter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lingraft.corpus.pairs import Pair
    from lingraft.models.embeddings.common import Inputs
    from lingraft.models.embeddings.vectors import WordVectors

NEIGHBOURS, TEMPERATURE = 10, 0.1
"""Source pieces a row, and what their cosines are divided by in the softmax."""


def wechsel(inputs: Inputs) -> RowPlan:
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
        DataError: gensim is not installed, or a resource cannot be read, or the lexicon is the
            other way round or translates no
            word that has a vector.
    """
    material = inputs.needed("wechsel")
    resources = material.resources
    pairs = aligned.read_lexicon(resources.lexicons, swap=resources.source_first).pairs
    source_words = vectors.source_word_vectors(material)
    target_words = vectors.target_word_vectors(material)
    sides = align(target_words, source_words, pairs)
    tokenizers = (material.target_tokenizer, material.source_tokenizer)
    target_UE, source_VE = (
        vectors.unit_length(vectors.average_over_words(words, Segmenter(tokenizer)))
        for words, tokenizer in zip(sides, tokenizers, strict=True)
    )
    matches = find_exact_matches(inputs.source, inputs.target)
    target_ids = without_row(target_UE, inputs.target, matches)
    return RowPlan(
        matches, combine_nearest(target_UE, source_VE, target_ids, NEIGHBOURS, TEMPERATURE)
    )


def combine_nearest(
    target_UE: torch.Tensor,
    source_VE: torch.Tensor,
    target_ids: Sequence[int],
    neighbours: int,
    temperature: float,
) -> dict[int, Combination]:
    """Combine the nearest source pieces by softmax, by target id (WECHSEL, eq. 3-4).

    Args:
        target_UE: [U, E] of unit length.
        source_VE: [V, E] of unit length; zero rows are no neighbours.
        target_ids: those to make a row for.
        neighbours: how many, fewer where the source has fewer.
        temperature: that the cosines are divided by.
    """
    with_vector = source_VE.any(dim=1).nonzero().flatten()
    among_E, number = source_VE[with_vector].T, min(neighbours, len(with_vector))
    combinations: dict[int, Combination] = {}
    for some in torch.tensor(target_ids, dtype=torch.int64).split(ROWS_AT_ONCE):
        cosines_BK, places_BK = (target_UE[some] @ among_E).topk(number, dim=1)
        weights_BK = (cosines_BK / temperature).softmax(dim=1).numpy()
        ids_BK = with_vector[places_BK].numpy()
        for row, target_id in enumerate(some.tolist()):
            combinations[target_id] = Combination(ids_BK[row], weights_BK[row])
    return combinations


def align(
    target: WordVectors, source: WordVectors, pairs: Sequence[Pair]
) -> tuple[WordVectors, WordVectors]:
    """Turn the target's word vectors into the source's space.

    Vectors are brought to length one, those of the wider side after they are reduced to the width
    of the other one. The turn is the orthogonal matrix that brings the words of the lexicon nearest
    to their translations (Schönemann 1966). As in WECHSEL's code (Minixhofer et al. 2022), a pair
    also counts in lower case and with a capital.

    Raises:
        DataError: no pair of the lexicon has a vector on both sides, or more would have if its two
            columns were swapped.
    """
    target_WE, source_WE = target.vectors_WE, source.vectors_WE
    width = min(target_WE.shape[1], source_WE.shape[1])
    target_WE = _unit_length(principal_components(target_WE, width))
    source_WE = _unit_length(principal_components(source_WE, width))
    pairs_P2 = np.array(list(_pairs(target.words, source.words, pairs)), dtype=np.int64)
    swapped = sum(1 for _ in _pairs(source.words, target.words, pairs))
    if swapped > len(pairs_P2) or not len(pairs_P2):  # what such a lexicon has is names and numbers
        raise DataError(
            f"embeddings.lexicons: {len(pairs_P2):,} pairs have static vectors on both sides as "
            f"they stand, {swapped:,} with swapped columns; {ORDER}"
        )
    turn_EE = procrustes(target_WE[pairs_P2[:, 0]], source_WE[pairs_P2[:, 1]])
    return replace(target, vectors_WE=target_WE @ turn_EE), replace(source, vectors_WE=source_WE)


def _pairs(
    target_words: list[str], source_words: list[str], pairs: Sequence[Pair]
) -> Iterator[tuple[int, int]]:
    targets = {word: number for number, word in enumerate(target_words)}
    sources = {word: number for number, word in enumerate(source_words)}
    for pair in pairs:
        target_ids = {targets[form] for form in _forms(pair.target) if form in targets}
        source_ids = {sources[form] for form in _forms(pair.source) if form in sources}
        yield from sorted(product(target_ids, source_ids))


def _forms(word: str) -> tuple[str, str, str]:
    return word, word.lower(), word.title()


def procrustes(from_PE: NDArray[np.float32], to_PE: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the orthogonal [E, E] matrix Q for which `from_PE @ Q` is nearest to `to_PE`."""
    left_EE, _, right_EE = np.linalg.svd(from_PE.T.astype(np.float64) @ to_PE)
    return (left_EE @ right_EE).astype(np.float32)


def principal_components(vectors_NF: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Project vectors [N, F] on their first `width` principal axes, unless that is F."""
    if vectors_NF.shape[1] == width:
        return vectors_NF
    centred_NF = vectors_NF - vectors_NF.mean(axis=0)
    _, axes_FF = np.linalg.eigh((centred_NF.T @ centred_NF).astype(np.float64))
    return centred_NF @ axes_FF[:, ::-1][:, :width].astype(np.float32)


def _unit_length(vectors_NE: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths_N1 = np.linalg.norm(vectors_NE, axis=1, keepdims=True)
    return (vectors_NE / np.where(lengths_N1 > 0, lengths_N1, 1)).astype(np.float32)
