"""Hidden states of every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_batches_of_like_lengths_give_the_states_of_each_sentence_alone(
    family: str, tiny_source: Callable[[str], Any]
) -> None:
    folder = str(tiny_source(family))
    encoder = Encoder.load(folder)
    texts = ["a", "the cat sat on the mat", "two words", "한국어 문장"]
    sequences = encoder.tokenizer(texts)["input_ids"]

    found = {}
    for layers in encoder.hidden_states(sequences, tokens=16):
        for row, place in enumerate(layers.places):
            found[place] = layers.states_LBTD[:, row, layers.mask_BT[row]]

    assert sorted(found) == [0, 1, 2, 3]
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for place, text in enumerate(texts):
        with torch.no_grad():
            alone = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        assert len(found[place]) == encoder.num_layers + 1
        expected = torch.stack(alone.hidden_states)[:, 0]
        torch.testing.assert_close(found[place], expected, rtol=1e-4, atol=1e-5)
