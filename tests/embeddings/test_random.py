from __future__ import annotations

import torch

from lingraft.embeddings import INITIALISERS
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary


def test_rows_have_mean_zero_and_deviation_two_hundredths():
    size = 2_000
    forms: list[Canonical | None] = [
        Canonical(True, str(number).encode()) for number in range(size)
    ]
    words = Vocabulary(size, [f"▁{n}" for n in range(size)], forms, {"pad": 1}, frozenset({1}))
    made = INITIALISERS["random"].function(
        torch.ones(size, 64), words, words, generator=torch.Generator().manual_seed(0)
    )
    drawn = made.target_UD[torch.arange(size) != 1]
    assert abs(float(drawn.mean())) < 3 * 0.02 / (size * 64) ** 0.5
    assert abs(float(drawn.std()) - 0.02) < 0.0002
    assert made.provenance.counts() == {"pad": 1, "fresh": size - 1}
