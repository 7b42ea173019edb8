from __future__ import annotations

import torch

from lingraft.models.embeddings import INITIALIZERS
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary


def drawn(name: str, source_VD: torch.Tensor, size: int) -> torch.Tensor:
    """New rows of that many pieces, the first of them padding, which is left out."""
    source, target = words(len(source_VD) - 1), words(size)
    generator = torch.Generator().manual_seed(0)
    made = INITIALIZERS[name].function(source_VD, source, target, generator=generator)
    assert made.provenance.counts() == {"pad": 1, "fresh": size - 1}
    return made.target_UD[1:]


def words(size: int) -> Vocabulary:
    """A padding token and words."""
    forms = [None, *(Canonical(True, str(number).encode()) for number in range(1, size))]
    pieces = ["<pad>", *(f"▁{number}" for number in range(1, size))]
    return Vocabulary(size, pieces, forms, {"pad": 0}, frozenset({0}))


def test_rows_have_mean_zero_and_deviation_two_hundredths():
    made = drawn("random", torch.ones(4, 64), 2_000)
    assert abs(float(made.mean())) < 3 * 0.02 / made.numel() ** 0.5
    assert abs(float(made.std()) - 0.02) < 0.0002


def test_rows_have_the_mean_and_deviation_of_the_source_dimension_by_dimension():
    source_VD = torch.tensor([[99.0, 99.0], [1.0, -5.0], [3.0, -5.0], [99.0, 99.0]])
    made = drawn("random-statistics", source_VD, 20_000)
    assert abs(float(made[:, 0].mean()) - 2.0) < 0.03
    assert abs(float(made[:, 0].std()) - 1.0) < 0.02
    assert torch.equal(made[:, 1], torch.full((19_999,), -5.0))
