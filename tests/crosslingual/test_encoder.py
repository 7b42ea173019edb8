"""Hidden states of every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder
from lingraft.pretrained.load import longest_text

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


@pytest.mark.parametrize("kind", ["bert", "camembert", "data2vec-text", "ibert", "luke", "mpnet"])
def test_a_text_has_as_many_tokens_as_the_model_reads_and_no_more(kind: str) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 20}
    places = {"max_position_embeddings": 12, "intermediate_size": 8, "pad_token_id": 1}
    model = AutoModel.from_config(CONFIG_MAPPING[kind](**shape, **places)).eval()
    longest = longest_text(model.config, 1)

    model(input_ids=torch.full((1, longest), 5))

    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))
