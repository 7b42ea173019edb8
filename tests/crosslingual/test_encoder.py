"""Hidden states of every layer, and sentence vectors against those of each sentence alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder, sentence_vectors
from lingraft.errors import DataError

TEXTS = ["a", "the cat sat on the mat", "two words", "the cat sat on the mat", "한국어 문장"]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "modernbert"])
@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_a_vector_is_the_pooled_states_at_unit_length(family, pool, tiny_source):
    folder = str(tiny_source(family))
    encoder = Encoder.load(folder)
    found_LND = sentence_vectors(encoder, TEXTS, pool)

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chosen = {"mean": slice(None), "cls": slice(1)}[pool]
    assert found_LND.shape[:2] == (3, len(TEXTS))
    for place, text in enumerate(TEXTS):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for layer, state_BTD in enumerate(states.hidden_states):
            expected_D = state_BTD[0, chosen].mean(0).numpy()
            expected_D /= np.linalg.norm(expected_D)
            np.testing.assert_allclose(found_LND[layer, place], expected_D, atol=1e-5)
    assert (found_LND[:, 1] == found_LND[:, 3]).all()
    assert (sentence_vectors(encoder, TEXTS, pool, [2, 0]) == found_LND[[2, 0]]).all()


def test_an_encoder_that_gives_no_numbers_is_refused(tiny_source):
    encoder = Encoder.load(str(tiny_source("bert")))
    with torch.no_grad():
        next(encoder.model.encoder.parameters())[0, 0] = torch.nan
    with pytest.raises(DataError, match="not finite"):
        sentence_vectors(encoder, TEXTS)
