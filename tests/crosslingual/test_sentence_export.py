"""Folders that sentence-transformers opens: their files, and the states that they give."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder, sentence_vectors
from lingraft.crosslingual.sentence_export import export

TEXTS = ["the cat sat on the mat", "a", "한국어 문장"]
FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "modernbert"]


def states(folder, layer):
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for text in TEXTS:
        with torch.no_grad():
            output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        found.append(output.hidden_states[layer])
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_plain_transformers_gives_the_states_of_the_layer(family, layer, tiny_source, tmp_path):
    out, source = tmp_path / "out", tiny_source(family)
    export(str(source), out, layer)
    config = json.loads((out / "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == min(layer + 1, 2)
    for found, wanted in zip(states(out, layer), states(source, layer), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "layer"), [("bert", 0), ("modernbert", 1), ("bert", 2)])
@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_sentence_transformers_gives_the_same_embeddings(
    family, layer, pool, tiny_source, tmp_path
):
    from sentence_transformers import SentenceTransformer

    source = str(tiny_source(family))
    export(source, tmp_path / "out", layer, pool)
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    expected = sentence_vectors(Encoder.load(source), TEXTS, pool, [layer])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
