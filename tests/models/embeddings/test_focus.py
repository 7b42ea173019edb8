from __future__ import annotations

import pytest
import torch

from lingraft.models.embeddings.focus import combine_alike, sparsemax


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1.0, 0.8, -0.5], [0.6, 0.4, 0.0]),
        ([0.9, 0.6, 0.3], [19 / 30, 1 / 3, 1 / 30]),
        ([3.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.2, 0.2, 0.2], [1 / 3, 1 / 3, 1 / 3]),
    ],
)
def test_sparsemax_by_hand(scores, expected):
    assert sparsemax(torch.tensor([scores]))[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_sparsemax_finds_the_threshold_that_sorting_finds():
    scores_BA = torch.randn(
        50, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    sorted_BA = scores_BA.sort(dim=1, descending=True).values
    ranks_A = torch.arange(1, 201)
    sums_BA = sorted_BA.cumsum(dim=1)
    size_B1 = (1 + ranks_A * sorted_BA > sums_BA).sum(dim=1, keepdim=True)
    threshold_B1 = (sums_BA.gather(1, size_B1 - 1) - 1) / size_B1
    expected_BA = (scores_BA - threshold_B1).clamp_min(0)
    made_BA = sparsemax(scores_BA)
    assert torch.allclose(made_BA, expected_BA, atol=1e-12)
    assert torch.allclose(made_BA.sum(dim=1), torch.ones(50, dtype=torch.float64))


def test_a_new_row_is_the_sparsemax_of_its_cosines_by_hand():
    vectors_UE = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0], [1.0, 0.0]])
    made = combine_alike(vectors_UE, {0: 7, 1: 5, 2: 9}, [3])
    assert made[3].source_ids.tolist() == [5, 7]
    assert made[3].weights.tolist() == pytest.approx([0.4, 0.6])
