"""Folders that sentence-transformers opens: their files, and the states that they give."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lingraft.crosslingual.encoder import Encoder, sentence_vectors
from lingraft.crosslingual.sentence_export import export

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = ["the cat sat on the mat", "a", "한국어 문장"]
FAMILIES = ["bert", "roberta", "xlm-roberta", "electra", "modernbert"]


def states(folder: Path, layer: int) -> list[torch.Tensor]:
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
def test_plain_transformers_gives_the_states_of_the_layer(
    family: str, layer: int, tiny_source: Callable[[str], Path], tmp_path: Path
) -> None:
    made = export(str(tiny_source(family)), tmp_path / "out", layer)

    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == made.kept
    for found, wanted in zip(
        states(tmp_path / "out", layer), states(tiny_source(family), layer), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    picked = "WeightedLayerPooling" in (tmp_path / "out" / "modules.json").read_text("utf-8")
    assert picked == (layer == 0 or (family == "modernbert" and layer == 1))
    assert made.kept == layer + picked
    if family == "modernbert":
        assert len(config["layer_types"]) == made.kept


def test_the_modules_are_named_as_sentence_transformers_names_them(
    tiny_source: Callable[[str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(str(tiny_source("roberta")), out, 1, "cls")
    modules = json.loads((out / "modules.json").read_text("utf-8"))
    assert [(row["path"], row["type"]) for row in modules] == [
        ("", "sentence_transformers.models.Transformer"),
        ("1_Pooling", "sentence_transformers.models.Pooling"),
        ("2_Normalize", "sentence_transformers.models.Normalize"),
    ]
    pooling = json.loads((out / "1_Pooling" / "config.json").read_text("utf-8"))
    assert pooling["word_embedding_dimension"] == 32
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_cls_token"]
    settings = json.loads((out / "sentence_bert_config.json").read_text("utf-8"))
    assert settings["max_seq_length"] == 128
    assert (out / "tokenizer.json").is_file()
    kind = json.loads((out / "tokenizer_config.json").read_text("utf-8"))["tokenizer_class"]
    assert kind != "TokenizersBackend"  # which transformers 4.57 does not know


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("pool", ["mean", "cls"])
def test_sentence_transformers_gives_the_same_embeddings(
    family: str, layer: int, pool: Any, tiny_source: Callable[[str], Path], tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer

    source = str(tiny_source(family))
    export(source, tmp_path / "out", layer, pool)
    found = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    expected = sentence_vectors(Encoder.load(source), TEXTS, pool, [layer])[0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_layer_that_retrieval_chose_is_exported(
    command: Callable[..., Any], tiny_source: Callable[[str], Path], tmp_path: Path
) -> None:
    rows = (f"word {n} of many\tword {n}\n" for n in range(30))
    (tmp_path / "eng-kor.tsv").write_text("".join(rows), "utf-8")
    found, out = tmp_path / "found", tmp_path / "out"
    source = tiny_source("bert")
    options = ("layer=1", "pool=cls", "--out", found)
    assert (
        command(
            "analyze", "retrieval", source, "--pairs", tmp_path / "eng-kor.tsv", *options
        ).status
        == 0
    )
    ended = command("convert", "sentence-encoder", source, f"retrieval={found}", "--out", out)
    assert ended.status == 0, ended.err
    assert "layer 1 of 2, cls pooling; 1 layer kept; states" in ended.out
    ended = command(
        "convert", "sentence-encoder", source, "layer=0", "--out", tmp_path / "embeddings"
    )
    kept = "layer 0 of 2, mean pooling; 1 layer kept, one more since a model needs one; states"
    assert kept in ended.out  # BERT ends with no norm
