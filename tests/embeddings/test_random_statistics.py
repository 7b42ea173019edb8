from __future__ import annotations

import torch

from lingraft.embeddings import INITIALISERS
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary


def words(size: int) -> Vocabulary:
    """A padding token and words."""
    forms = [None, *(Canonical(True, str(number).encode()) for number in range(1, size))]
    pieces = ["<pad>", *(f"▁{number}" for number in range(1, size))]
    return Vocabulary(size, pieces, forms, {"pad": 0}, frozenset({0}))


def test_rows_have_the_mean_and_deviation_of_the_source_dimension_by_dimension():
    source_VD = torch.tensor([[99.0, 99.0], [1.0, -5.0], [3.0, -5.0], [99.0, 99.0]])
    source, target = words(3), words(20_000)
    made = (
        INITIALISERS["random-statistics"]
        .function(source_VD, source, target, generator=torch.Generator().manual_seed(0))
        .target_UD[1:]
    )
    assert abs(float(made[:, 0].mean()) - 2.0) < 0.03
    assert abs(float(made[:, 0].std()) - 1.0) < 0.02
    assert torch.equal(made[:, 1], torch.full((19_999,), -5.0))
