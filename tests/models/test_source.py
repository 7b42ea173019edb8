import logging
import shutil

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, BertModel

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.models.families import check_config
from lingraft.models.families.record import SETTINGS
from lingraft.models.graft import rebuild
from lingraft.models.source import from_architecture, load_model
from lingraft.pretrained.load import load_model as load_pretrained
from lingraft.recipe import Source


def test_a_bare_bert_checkpoint_gets_a_fresh_head_with_a_note(tiny_model, tmp_path, caplog):
    BertModel(tiny_model("bert").config).save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING, logger="lingraft"):
        loaded = load_model(str(tmp_path))
    head = {name for name in loaded.model.state_dict() if name.startswith("cls.predictions.")}
    assert loaded.missing == head - {"cls.predictions.decoder.weight"}
    assert set(loaded.unexpected) == {"pooler.dense.bias", "pooler.dense.weight"}
    _, account = rebuild(
        loaded.model, loaded.family, [0, 1], config_changes={}, seed=0, missing=loaded.missing
    )
    fresh = {entry.tensor for entry in account.entries if entry.kind == "fresh"}
    assert fresh == loaded.missing - {"cls.predictions.decoder.bias"}
    assert len(account.notes) == len(fresh)


ARCHITECTURE = {
    "model_type": "modernbert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
IDS = {
    "pad_token_id": 1,
    "bos_token_id": 0,
    "cls_token_id": 0,
    "eos_token_id": 2,
    "sep_token_id": 2,
}


def test_a_model_from_nothing_knows_its_mask_token_where_the_family_has_a_place_for_it():
    table = {"model_type": "eurobert", "num_key_value_heads": 2} | {
        key: value for key, value in ARCHITECTURE.items() if key != "model_type"
    }
    masks = [
        getattr(loaded.model.config, "mask_token_id", None)
        for architecture in (table, ARCHITECTURE)
        for loaded in [
            from_architecture(Source(architecture=architecture), 99, IDS | {"mask_token_id": 4}, 4)
        ]
    ]
    assert masks == [4, None]


def test_a_checkpoint_without_some_tensors_is_refused_but_for_a_pooler(tiny_source, tmp_path):
    folder = shutil.copytree(tiny_source("m2m_100"), tmp_path / "source")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.decoder.layers.1.fc1.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    for auto in (AutoModel, AutoModelForSeq2SeqLM):
        with pytest.raises(DataError, match="lack 1 tensors of a m2m_100 model"):
            load_pretrained(auto, str(folder))
    pooler = load_pretrained(AutoModel, str(tiny_source("bert")))[1]["missing_keys"]
    assert {key.split(".")[0] for key in pooler} == {"pooler"}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_a_record_does_not_hold_for_is_refused_with_its_value(key):
    families, works, _ = SETTINGS[key]
    for model_type in families:
        assert AutoConfig.for_model(model_type).to_dict().get(key, works) == works
        check_config("x", {"model_type": model_type, key: works})
        with pytest.raises(UnsupportedModelError, match=f"x': {key} is 'else': .*; choose"):
            check_config("x", {"model_type": model_type, key: "else"})
