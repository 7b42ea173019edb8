from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lingraft.models.embeddings.common import Combination
from lingraft.models.embeddings.omp import combine_sparsely, pursue, shortened


def unit_rows(*shape: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return drawn / drawn.norm(dim=1, keepdim=True)


def test_a_case_by_hand():
    vectors_UE = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, 0.8]])
    made = combine_sparsely(vectors_UE, {0: 5, 1: 6, 2: 7}, [3], terms=2)
    assert made[3].source_ids.tolist() == [5, 6]
    assert made[3].weights.tolist() == pytest.approx([0.6, 0.8], abs=1e-4)


def test_sparse_sums_are_recovered_exactly():
    anchors_AE = unit_rows(200, 120)
    drawn = np.random.default_rng(0)
    places = np.array([drawn.choice(200, 3, replace=False) for _ in range(40)])
    true_BA = torch.zeros(40, 200)
    true_BA[torch.arange(40)[:, None], torch.from_numpy(places)] = torch.tensor([0.9, -0.7, 0.5])
    wanted_BE = true_BA @ anchors_AE
    lengths_B1 = wanted_BE.norm(dim=1, keepdim=True)
    places_BK, weights_BK = pursue(wanted_BE / lengths_B1, anchors_AE, 16)
    made_BA = torch.zeros(40, 200).scatter_add_(1, places_BK, weights_BK)
    assert torch.allclose(made_BA * lengths_B1, true_BA, atol=1e-3)


def test_no_anchor_is_taken_twice_and_the_error_only_falls():
    anchors_AE, wanted_BE = unit_rows(60, 40), unit_rows(10, 40, seed=1)
    errors = []
    for terms in (1, 2, 4, 8, 16):
        places_BK, weights_BK = pursue(wanted_BE, anchors_AE, terms)
        assert all(len(set(row)) == terms for row in places_BK.tolist())
        rebuilt_BE = (weights_BK[:, None] @ anchors_AE[places_BK])[:, 0]
        errors.append((wanted_BE - rebuilt_BE).norm(dim=1))
    assert all((after < before).all() for before, after in itertools.pairwise(errors))


def test_a_sum_that_is_longer_than_every_row_of_the_source_is_shortened():
    source_VD = torch.tensor([[3.0, 4.0], [0.0, 1.0], [100.0, 0.0]])
    long = Combination(np.array([0, 1]), np.array([2.0, 0.0], dtype=np.float32))
    short = Combination(np.array([0]), np.array([0.5], dtype=np.float32))
    made = shortened({4: long, 6: short}, source_VD, [0, 1])
    assert made[4].weights.tolist() == [1.0, 0.0]
    assert made[6].weights.tolist() == [0.5]
