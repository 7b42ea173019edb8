"""Two spaces of word vectors turned into one, over a bilingual lexicon.

Shape letters: N rows, P pairs of words, E and F widths of static vectors, W words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lingraft.embeddings.material import ORDER
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lingraft.corpus.lexicon import Lexicon
    from lingraft.embeddings.vectors import WordVectors


def align(
    target: WordVectors, source: WordVectors, lexicon: Lexicon
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
    pairs_P2 = np.array(list(_pairs(target.words, source.words, lexicon)), dtype=np.int64)
    if not len(pairs_P2):
        raise DataError(
            f"resources.lexicons: of their {len(lexicon.pairs):,} pairs none has a static vector "
            f"on both sides; {ORDER}"
        )
    swapped = sum(1 for _ in _pairs(source.words, target.words, lexicon))
    if swapped > len(pairs_P2):  # what stays of such a lexicon is names and numbers
        raise DataError(
            f"resources.lexicons: seem to be the other way round: {len(pairs_P2):,} pairs of words "
            f"have static vectors as they stand, {swapped:,} with the columns swapped; {ORDER}"
        )
    turn_EE = procrustes(target_WE[pairs_P2[:, 0]], source_WE[pairs_P2[:, 1]])
    return replace(target, vectors_WE=target_WE @ turn_EE), replace(source, vectors_WE=source_WE)


def _pairs(
    target_words: list[str], source_words: list[str], lexicon: Lexicon
) -> Iterator[tuple[int, int]]:
    targets = {word: number for number, word in enumerate(target_words)}
    sources = {word: number for number, word in enumerate(source_words)}
    for pair in lexicon.pairs:
        target_ids = {targets.get(form) for form in _forms(pair.target)}
        source_ids = {sources.get(form) for form in _forms(pair.source)}
        yield from sorted(
            (t, s) for t in target_ids if t is not None for s in source_ids if s is not None
        )


def _forms(word: str) -> tuple[str, str, str]:
    return word, word.lower(), word.title()


def procrustes(from_PE: NDArray[np.float32], to_PE: NDArray[np.float32]) -> NDArray[np.float32]:
    """The orthogonal [E, E] matrix Q for which `from_PE @ Q` is nearest to `to_PE`."""
    left_EE, _, right_EE = np.linalg.svd(from_PE.T.astype(np.float64) @ to_PE)
    turn_EE: NDArray[np.float32] = (left_EE @ right_EE).astype(np.float32)
    return turn_EE


def principal_components(vectors_NF: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Vectors [N, F] on their first `width` principal axes; as they are where that is F."""
    if vectors_NF.shape[1] == width:
        return vectors_NF
    centred_NF = vectors_NF - vectors_NF.mean(axis=0)
    _, axes_FF = np.linalg.eigh((centred_NF.T @ centred_NF).astype(np.float64))
    axes_FE = axes_FF[:, ::-1][:, :width].astype(np.float32)
    reduced_NE: NDArray[np.float32] = centred_NF @ axes_FE
    return reduced_NE


def _unit_length(vectors_NE: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths_N1 = np.linalg.norm(vectors_NE, axis=1, keepdims=True)
    return (vectors_NE / np.where(lengths_N1 > 0, lengths_N1, 1)).astype(np.float32)
