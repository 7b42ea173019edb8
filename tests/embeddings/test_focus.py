from __future__ import annotations

import numpy as np
import pytest
import torch

from lingraft.embeddings import INITIALIZERS
from lingraft.embeddings.focus import added_up, combine_alike, find_anchors, sparsemax
from lingraft.embeddings.material import Material
from lingraft.errors import DataError
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary


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


def test_anchors_with_the_same_source_row_are_added_up():
    sums = added_up(np.array([4, 2, 4, 3]), np.array([0.25, 0.5, 0.25, 0.0], dtype=np.float32))
    assert sums.source_ids.tolist() == [2, 4]
    assert sums.weights.tolist() == [0.5, 0.5]


def test_only_matched_pieces_with_a_vector_are_anchors():
    vectors_UE = torch.tensor([[1.0], [0.0], [1.0]])
    assert find_anchors(vectors_UE, {0: ("exact", 8), 1: ("exact", 9)}, "focus") == {0: 8}
    with pytest.raises(DataError, match=r"'focus' found no piece .*\(1 pieces are shared, 2 have"):
        find_anchors(vectors_UE, {1: ("exact", 9)}, "focus")


def test_vectors_are_learnt_from_the_text_and_follow_the_seed(tiny_tokenizer, tiny_text):
    tokenizer = tiny_tokenizer("roberta")
    vocabulary = Vocabulary.of(tokenizer)
    forms = [None if i % 3 == 0 else form for i, form in enumerate(vocabulary.canonical)]
    source = Vocabulary(320, vocabulary.pieces, forms, {}, frozenset())
    source_VD = torch.randn(320, 4, generator=torch.Generator().manual_seed(1))

    def run(seed):
        material = Material(tokenizer, tokenizer, lambda: tiny_text * 3, Embeddings(), seed)
        return INITIALIZERS["focus"].function(
            source_VD,
            source,
            vocabulary,
            generator=torch.Generator().manual_seed(0),
            material=material,
        )

    first, again, other = run(0), run(0), run(1)
    counts = first.provenance.counts()
    assert counts["combined"] > 20
    assert counts["fresh"] > 20
    assert torch.equal(first.target_UD, again.target_UD)
    assert not torch.equal(first.target_UD, other.target_UD)
    for combination in first.provenance.combinations.values():
        assert (combination.weights > 0).all()
        assert combination.weights.sum() == pytest.approx(1.0, abs=1e-5)
