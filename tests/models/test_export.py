import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from lingraft.errors import DataError
from lingraft.models.export import (
    check_reload,
    dtype_of,
    write_model,
)
from lingraft.pretrained import checkpoints


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors["bert.embeddings.LayerNorm.weight"].mul_(1.01), "other logits"),
        (lambda tensors: tensors["cls.predictions.bias"].fill_(torch.nan), "other logits"),
        (lambda tensors: tensors.update(stray=torch.zeros(2)), "not load cleanly: .*stray"),
    ],
    ids=["changed", "nan", "stray"],
)
def test_another_tensor_than_the_models_is_found(change, message, tiny_model, tmp_path):
    model = tiny_model("bert")
    write_model(model, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / checkpoints.FILE).unlink()
    with pytest.raises(DataError, match=message):
        check_reload(model, tmp_path)


def test_the_older_transformers_finds_modernberts_thetas_and_rhythm(tiny_model, tmp_path):
    rope = {
        "full_attention": {"rope_type": "default", "rope_theta": 80_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5_000.0},
    }
    kinds = ["full_attention", "sliding_attention", "sliding_attention"] * 2
    model = tiny_model("modernbert", num_hidden_layers=6, layer_types=kinds, rope_parameters=rope)
    write_model(model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["global_rope_theta"] == 80_000.0
    assert config["local_rope_theta"] == 5_000.0
    assert config["global_attn_every_n_layers"] == 3
    assert config["layer_types"] == kinds
    check_reload(model, tmp_path)


@pytest.mark.parametrize("family", ["roberta", "gemma2", "t5"])
def test_numbers_are_stored_as_the_source_has_them(family, tiny_model, tmp_path):
    model = tiny_model(family).eval()
    ids = torch.arange(5, 25).view(2, 10)
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if family == "t5" else {})
    with torch.no_grad():
        expected = model(**inputs).logits
    model.config.save_pretrained(tmp_path / "source")
    config = json.loads((tmp_path / "source" / "config.json").read_text()) | {"dtype": "bfloat16"}
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    source = AutoConfig.from_pretrained(tmp_path / "source")
    write_model(model, tmp_path / "made", dtype_of(source))
    check_reload(model, tmp_path / "made")
    stored = load_file(tmp_path / "made" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    again = type(model).from_pretrained(tmp_path / "made", dtype="auto").eval()
    assert again.dtype == torch.bfloat16
    with torch.no_grad():
        logits = again.float()(**inputs).logits
    assert (logits - expected).abs().mean() < 1e-2
