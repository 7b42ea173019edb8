"""Sentence vectors against the states of each sentence alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder, sentence_vectors
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = ["a", "the cat sat on the mat", "two words", "the cat sat on the mat", "한국어 문장"]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "modernbert"])
@pytest.mark.parametrize("pool", ["mean", "no-specials", "cls"])
def test_a_vector_is_the_pooled_states_at_unit_length(
    family: str, pool: Any, tiny_source: Callable[[str], Any]
) -> None:
    folder = str(tiny_source(family))
    found_LND = sentence_vectors(Encoder.load(folder), TEXTS, pool)

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chosen = {"mean": slice(None), "no-specials": slice(1, -1), "cls": slice(1)}[pool]
    assert found_LND.shape[:2] == (3, len(TEXTS))
    for place, text in enumerate(TEXTS):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for layer, state_BTD in enumerate(states.hidden_states):
            expected_D = state_BTD[0, chosen].mean(0).numpy()
            expected_D /= np.linalg.norm(expected_D)
            np.testing.assert_allclose(found_LND[layer, place], expected_D, atol=1e-5)
    assert (found_LND[:, 1] == found_LND[:, 3]).all()


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_a_special_token_that_a_sentence_spells_is_text(
    family: str, tiny_source: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Unigram it is a piece, which is unknown."""
    encoder, read = Encoder.load(str(tiny_source(family))), list[list[int]]()
    states = Encoder.hidden_states
    monkeypatch.setattr(
        Encoder, "hidden_states", lambda self, rows: (read.extend(rows), states(self, rows))[1]
    )
    tokenizer = encoder.tokenizer
    sentence = f"a {tokenizer.mask_token} dog {tokenizer.sep_token} sleeps"
    sentence_vectors(encoder, [sentence])
    (row,) = read
    assert tokenizer.mask_token_id not in row
    assert row.index(tokenizer.sep_token_id) == len(row) - 1
    if family == "xlm-roberta":
        assert row.count(tokenizer.unk_token_id) >= 2


def test_only_the_layers_that_are_asked_for_come_back(tiny_source: Callable[[str], Any]) -> None:
    encoder = Encoder.load(str(tiny_source("roberta")))
    every_LND = sentence_vectors(encoder, TEXTS)
    some_LND = sentence_vectors(encoder, TEXTS, layers=[2, 0])
    assert (some_LND == every_LND[[2, 0]]).all()


def test_an_encoder_that_gives_no_numbers_is_refused(tiny_source: Callable[[str], Any]) -> None:
    encoder = Encoder.load(str(tiny_source("bert")))
    with torch.no_grad():
        next(encoder.model.encoder.parameters())[0, 0] = torch.nan
    with pytest.raises(DataError, match="not finite"):
        sentence_vectors(encoder, TEXTS)
