"""New rows as sparse sums of rows that both vocabularies have, found where the target is at home.

Shape letters: V source vocabulary, D width of the embeddings, U target vocabulary, E width of the
static vectors, A anchors (pieces of both vocabularies that have a static vector), B some rows, K
terms of a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from lingraft.models.embeddings import vectors
from lingraft.models.embeddings.common import RowPlan
from lingraft.models.embeddings.focus import ROWS_AT_ONCE, added_up, find_anchors, without_row
from lingraft.models.embeddings.match import find_exact_matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.models.embeddings.common import Combination, Inputs

TERMS = 16
"""Shared pieces a new piece, at most."""
VANISHED = 1e-4
"""A residual that is this short, the vector being of length one, is rounding."""


def omp(inputs: Inputs) -> RowPlan:
    """Write each new piece's static vector as a sum of a few shared ones; add up their rows alike.

    Orthogonal matching pursuit: the shared piece that is most alike what is left is added, all
    coefficients are fitted again by least squares, up to 16 times or until nothing is left.
    Pieces that both vocabularies have (word start and bytes) are copied; pieces without a static
    vector are drawn from N(0, 0.02); the padding row is zero.

    Source: Goddard and Fernandes Neto 2025 (arXiv 2506.06607), §3.

    Differs from the paper: it takes the embeddings of a model that has the target vocabulary as the
    space in which pieces are approximated; a language without a model has none, so that static
    vectors of unit length stand for it. A sum that is longer than the longest row of the source is
    shortened to that length.

    Material: its target tokenizer, text and `embeddings.target_vectors` are used.

    Raises:
        DataError: gensim is not installed, or no piece that both vocabularies have gets a static
            vector.
    """
    vectors_UE = vectors.target_piece_vectors(inputs.needed("omp"))
    matches = find_exact_matches(inputs.source, inputs.target)
    anchors = find_anchors(vectors_UE, matches, "omp")
    target_ids = without_row(vectors_UE, inputs.target, matches)
    combinations = combine_sparsely(vectors_UE, anchors, target_ids, TERMS)
    return RowPlan(matches, shortened(combinations, inputs.source_VD, list(anchors.values())))


def combine_sparsely(
    vectors_UE: torch.Tensor, anchors: Mapping[int, int], target_ids: Sequence[int], terms: int
) -> dict[int, Combination]:
    """Return the coefficients of `pursue` as combinations of source rows, by target id.

    Args:
        vectors_UE: [U, E] of unit length.
        anchors: source ids by target id.
        target_ids: those to make a row for.
        terms: at most so many anchors a row.
    """
    origins_A = np.fromiter(anchors.values(), dtype=np.int64)
    anchors_AE = vectors_UE[list(anchors)]
    combinations: dict[int, Combination] = {}
    for some in torch.tensor(target_ids, dtype=torch.int64).split(ROWS_AT_ONCE):
        places_BK, weights_BK = pursue(vectors_UE[some], anchors_AE, terms)
        for row, target_id in enumerate(some.tolist()):
            sums = added_up(origins_A[places_BK[row].numpy()], weights_BK[row].numpy())
            if len(sums.source_ids):
                combinations[target_id] = sums
    return combinations


def pursue(
    targets_BE: torch.Tensor, anchors_AE: torch.Tensor, terms: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run orthogonal matching pursuit (Pati et al. 1993) on many vectors at once.

    Args:
        targets_BE: [B, E] the vectors to approximate, of unit length.
        anchors_AE: [A, E] what they are made of, of unit length.
        terms: at most so many anchors a vector.

    Returns:
        Places of anchors [B, K] and coefficients [B, K] float32; the coefficient is 0 where nothing
        was left to explain.
    """
    rows, steps = len(targets_BE), min(terms, *anchors_AE.shape)
    places_BK = torch.zeros(rows, steps, dtype=torch.int64)
    weights_BK = torch.zeros(rows, steps, dtype=torch.float64)
    left_BE = targets_BE.clone()
    active = torch.arange(rows)
    for step in range(steps):
        active = active[left_BE[active].norm(dim=1) > VANISHED]
        if not len(active):
            break
        alike_BA = (left_BE[active] @ anchors_AE.T).abs_()
        if step:
            alike_BA.scatter_(1, places_BK[active, :step], -1.0)
        places_BK[active, step] = alike_BA.argmax(dim=1)
        basis_BKE = anchors_AE[places_BK[active, : step + 1]].double()
        targets = targets_BE[active].double()[:, :, None]
        gram_BKK = basis_BKE @ basis_BKE.mT
        # Two anchors can be all but parallel; the ridge keeps their coefficients from exploding.
        gram_BKK.diagonal(dim1=1, dim2=2).add_(1e-6)
        fitted_BK = torch.linalg.solve(gram_BKK, basis_BKE @ targets)[:, :, 0]
        weights_BK[active, : step + 1] = fitted_BK
        rebuilt_BE = (fitted_BK[:, None] @ basis_BKE)[:, 0]
        left_BE[active] = (targets[:, :, 0] - rebuilt_BE).float()
    return places_BK, weights_BK.float()


def shortened(
    combinations: Mapping[int, Combination], source_VD: torch.Tensor, ids: Sequence[int]
) -> dict[int, Combination]:
    """Return the combinations, those longer than every row `ids` of the source scaled down."""
    results: dict[int, Combination] = {}
    device = source_VD.device
    longest = float(source_VD.detach()[torch.tensor(ids, device=device)].float().norm(dim=1).max())
    for target_id, combination in combinations.items():
        rows_KD = source_VD.detach()[torch.from_numpy(combination.source_ids).to(device)].float()
        length = float((torch.from_numpy(combination.weights).to(device) @ rows_KD).norm())
        factor = min(1.0, longest / length) if length > 0 else 1.0
        weights = (combination.weights * factor).astype(np.float32)
        results[target_id] = combination._replace(weights=weights)
    return results
