"""New rows as a few rows that both vocabularies have, weighted by how alike the pieces are used.

Shape letters: U target vocabulary, E width of the
static vectors, A anchors (pieces of both vocabularies that have a static vector), B some rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.models.embeddings import vectors
from lingraft.models.embeddings.common import Combination, RowPlan
from lingraft.models.embeddings.match import find_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lingraft.models.embeddings.common import Inputs
    from lingraft.tokenizer.vocabulary import Vocabulary

ROWS_AT_ONCE = 512


def focus(inputs: Inputs) -> RowPlan:
    """Copy the rows of pieces that both vocabularies have; make the others out of those.

    The weights are the sparsemax of the cosines between static vectors of the target's pieces,
    learnt from the training text. Pieces without one (which the text has less than 10 times) are
    drawn from N(0, 0.02); the padding row is zero.

    Source: FOCUS (Dobler and de Melo 2023), §3, eq. 1-4.

    Differs from the paper: pieces are compared as word start and bytes, not as decoded text, with
    the cascade of `match` in place of its fuzzy matching; the static vectors have no character
    n-grams; the unmatched rest is drawn from N(0, 0.02), not with the source's statistics.

    Material: its target tokenizer, text and `embeddings.target_vectors` are used.

    Raises:
        DataError: gensim is not installed, or no piece that both vocabularies have gets a static
            vector.
    """
    vectors_UE = vectors.target_piece_vectors(inputs.needed("focus"))
    matches = find_matches(inputs.source, inputs.target)
    anchors = find_anchors(vectors_UE, matches, "focus")
    target_ids = without_row(vectors_UE, inputs.target, matches)
    return RowPlan(matches, combine_alike(vectors_UE, anchors, target_ids))


def find_anchors(
    vectors_UE: torch.Tensor, matches: Mapping[int, tuple[str, int]], initializer: str
) -> dict[int, int]:
    """Return the source id of each target id that is matched and has a static vector.

    Raises:
        DataError: there is none.
    """
    has_vector = vectors_UE.any(dim=1).tolist()
    anchors = {index: origin for index, (_, origin) in matches.items() if has_vector[index]}
    if not anchors:
        raise DataError(
            f"embeddings.init: '{initializer}' found no piece of both vocabularies with a static "
            f"vector ({len(matches):,} pieces are shared, {sum(has_vector):,} have a vector); "
            "give more text, or use 'mean' or 'dictionary'"
        )
    return anchors


def without_row(
    vectors_UE: torch.Tensor, target: Vocabulary, matches: Mapping[int, tuple[str, int]]
) -> list[int]:
    """Return the target ids with a static vector that are neither matched nor special tokens."""
    ids = vectors_UE.any(dim=1).nonzero().flatten().tolist()
    return [i for i in ids if i not in matches and target.canonical[i] is not None]


def combine_alike(
    vectors_UE: torch.Tensor, anchors: Mapping[int, int], target_ids: Iterable[int]
) -> dict[int, Combination]:
    """Combine source rows by FOCUS, eq. 2-4: sparsemax of the cosines to the anchors.

    Args:
        vectors_UE: [U, E] of unit length.
        anchors: source ids by target id.
        target_ids: those to make a row for.

    Returns:
        The combinations by target id; weights are positive and sum to one.
    """
    origins_A = np.fromiter(anchors.values(), dtype=np.int64)
    anchors_AE = vectors_UE[list(anchors)]
    ids = torch.tensor(list(target_ids), dtype=torch.int64)
    combinations = {}
    for some in ids.split(ROWS_AT_ONCE):
        weights_BA = sparsemax(vectors_UE[some] @ anchors_AE.T).numpy()
        for target_id, weights_A in zip(some.tolist(), weights_BA, strict=True):
            combinations[target_id] = added_up(origins_A, weights_A)
    return combinations


def added_up(origins_A: np.ndarray, weights_A: np.ndarray) -> Combination:
    """Return a combination in which each source id stands once, without weights of zero."""
    places = weights_A.nonzero()[0]
    ids, inverse = np.unique(origins_A[places], return_inverse=True)
    return Combination(ids, np.bincount(inverse, weights_A[places]).astype(np.float32))


def sparsemax(scores_BA: torch.Tensor) -> torch.Tensor:
    """Find the simplex point nearest to each row (Martins and Astudillo 2016, eq. 2).

    The threshold is found without sorting: the mean excess over it, taken again and again over the
    entries that lie above it, reaches it in a few rounds (Michelot 1986).

    Args:
        scores_BA: [B, A], A at least 1.

    Returns:
        [B, A] of non-negative rows that sum to one.
    """
    support_BA = torch.ones_like(scores_BA, dtype=torch.bool)
    count_B1 = support_BA.sum(dim=1, keepdim=True)
    while True:
        sum_B1 = torch.where(support_BA, scores_BA, 0.0).sum(dim=1, keepdim=True)
        threshold_B1 = (sum_B1 - 1.0) / count_B1
        support_BA = support_BA & (scores_BA > threshold_B1)
        smaller_B1 = support_BA.sum(dim=1, keepdim=True)
        if torch.equal(smaller_B1, count_B1):
            return (scores_BA - threshold_B1).clamp_min(0.0)
        count_B1 = smaller_B1
