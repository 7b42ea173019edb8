import logging

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, BertModel, ElectraForPreTraining

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models.families import FAMILIES, check_config
from lingraft.models.families.checks import SETTINGS
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.source import from_architecture, load_model
from lingraft.pretrained.load import load_config
from lingraft.recipe import Source


def test_a_whole_checkpoint_lacks_nothing(tiny_source):
    loaded = load_model(str(tiny_source("bert")))
    assert loaded.family is FAMILIES["bert"]
    assert (loaded.missing, loaded.unexpected) == (frozenset(), ())
    assert not loaded.model.training


def test_a_half_precision_checkpoint_is_loaded_in_single_precision(tiny_model, tmp_path):
    tiny_model("bert").half().save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path))
    assert {str(p.dtype) for p in loaded.model.parameters()} == {"torch.float32"}


def test_settings_change_the_loaded_configuration(tiny_source):
    loaded = load_model(str(tiny_source("bert")), settings={"hidden_dropout_prob": 0.3})
    assert loaded.model.config.hidden_dropout_prob == 0.3


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


def test_an_electra_discriminator_gets_a_fresh_generator_head(tiny_model, tmp_path):
    ElectraForPreTraining(tiny_model("electra").config).save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path))
    assert loaded.missing == {
        "generator_predictions.LayerNorm.weight",
        "generator_predictions.LayerNorm.bias",
        "generator_predictions.dense.weight",
        "generator_predictions.dense.bias",
        "generator_lm_head.bias",
    }
    _, account = rebuild(
        loaded.model, loaded.family, [0, 1], config_changes={}, seed=0, missing=loaded.missing
    )
    assert {e.tensor for e in account.entries if e.kind == "fresh"} == loaded.missing


def test_a_missing_directory_is_one_line():
    with pytest.raises(DataError) as caught:
        load_config("./nowhere")
    assert str(caught.value).startswith("source model './nowhere': no such directory; give one")


def test_broken_weights_are_a_data_error_on_one_line(tiny_model, tmp_path):
    tiny_model("bert").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not a safetensors header")
    with pytest.raises(DataError, match=r"weights of source model .* cannot be loaded") as caught:
        load_model(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_an_architecture_without_a_record_is_refused_before_its_weights_are_read(tmp_path):
    AutoConfig.for_model("mpnet").save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="models of type 'mpnet'"):
        load_model(str(tmp_path))


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


def test_a_model_from_nothing_has_the_architecture_that_was_asked_for():
    loaded = from_architecture(Source(architecture=ARCHITECTURE), 99, IDS, seed=4)
    assert loaded.model.get_input_embeddings().weight.shape == (99, 32)
    assert loaded.model.config.num_hidden_layers == 2
    assert loaded.model.config.pad_token_id == 1


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


def test_an_unknown_setting_of_an_architecture_is_named():
    source = Source(architecture=ARCHITECTURE | {"hiden_size": 8})
    with pytest.raises(RecipeError) as caught:
        from_architecture(source, 99, IDS, seed=4)
    assert str(caught.value) == "source.architecture: modernbert has no setting hiden_size"


def test_an_impossible_architecture_is_a_recipe_error_on_one_line():
    source = Source(architecture=ARCHITECTURE | {"num_attention_heads": 5})
    with pytest.raises(RecipeError, match=r"^source\.architecture: ") as caught:
        from_architecture(source, 99, IDS, seed=4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_a_record_does_not_hold_for_is_refused_with_its_value(key):
    families, works, _ = SETTINGS[key]
    for model_type in families:
        assert AutoConfig.for_model(model_type).to_dict().get(key, works) == works
        check_config("x", {"model_type": model_type, key: works})
        with pytest.raises(UnsupportedModelError, match=f"x': {key} is 'else': .*; "):
            check_config("x", {"model_type": model_type, key: "else"})


def test_a_table_with_such_a_setting_is_refused_too():
    table = {"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": True}
    with pytest.raises(UnsupportedModelError, match=r"^source\.architecture: scale_attn"):
        from_architecture(Source(architecture=table), 100, {}, seed=0)


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("version", [4, 5])
def test_an_untied_head_reads_its_own_bias_also_where_version_4_stored_it(
    family, version, tiny_model, tmp_path
):
    model, record = tiny_model(family, tie_word_embeddings=False), FAMILIES[family]
    stored, read = record.output_bias
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name in record.output_bias:
            model.get_parameter(name).normal_(generator=generator)
    model.save_pretrained(tmp_path)
    expected = model.get_parameter(read)
    if version == 4:
        tensors = load_file(tmp_path / "model.safetensors")
        expected = model.get_parameter(stored)
        del tensors[read]
        save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    loaded = load_model(str(tmp_path))
    assert loaded.missing == frozenset()
    assert torch.equal(loaded.model.get_parameter(read), expected)
    assert torch.equal(VocabularyTensors.of(loaded.model, record, "").bias_V, expected)
