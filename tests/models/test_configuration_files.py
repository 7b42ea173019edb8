"""What config.json and generation_config.json of an export say, for every family that has them."""

import dataclasses
import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast

from lingraft.models import export
from lingraft.models.export import (
    check_reload,
    generation_ids,
    settings_for_4_57,
    write_model,
)
from lingraft.models.families import FAMILIES, older
from lingraft.models.graft import rebuild
from lingraft.models.plans import layer_plan
from lingraft.tokenizer.vocabulary import Vocabulary


@pytest.mark.parametrize(
    "family", [n for n, r in FAMILIES.items() if r.older in (None, older.nothing)]
)
def test_families_without_rotary_positions_or_without_a_class_there_need_no_older_settings(
    family, tiny_model
):
    assert settings_for_4_57(tiny_model(family).config.to_dict()) == {}


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 64}


@pytest.mark.parametrize("family", [n for n, r in FAMILIES.items() if r.older is older.rope])
def test_the_base_of_rotary_positions_stands_where_4_57_looks(family, tiny_model, tmp_path):
    rope = {"rope_theta": 77.0, **LLAMA3}
    write_model(tiny_model(family, rope_parameters=rope), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["rope_theta"], config["rope_scaling"]) == (77.0, LLAMA3)
    again = AutoConfig.from_pretrained(tmp_path)
    assert again.rope_parameters == rope


@pytest.mark.parametrize(
    ("family", "parameters", "expected"),
    [
        ("llama", {"rope_type": "default"}, {"rope_theta": 5.0, "rope_scaling": None}),
        (
            "gpt_neox",
            {"rope_type": "default", "partial_rotary_factor": 0.5},
            {"rotary_emb_base": 5.0, "rotary_pct": 0.5, "rope_scaling": None},
        ),
        (
            "phi3",
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0], "factor": 4.0},
            {
                "rope_theta": 5.0,
                "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
            },
        ),
    ],
)
def test_older_settings_are_spelt_as_the_family_spelt_them(family, parameters, expected):
    config = {"model_type": family, "rope_parameters": parameters | {"rope_theta": 5.0}}
    found = settings_for_4_57(config)
    assert {key: found[key] for key in expected} == expected


def test_gemma_3_has_a_base_for_each_type_of_layer_in_4_57_too():
    bases = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 9.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5.0},
    }
    assert settings_for_4_57({"model_type": "gemma3_text", "rope_parameters": bases}) == {
        "rope_theta": 9.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "rope_local_base_freq": 5.0,
    }
    assert settings_for_4_57({"model_type": "olmo3", "rope_parameters": bases}) == {
        "rope_theta": 9.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }


def test_stop_ids_of_another_vocabulary_keep_their_roles_and_their_tokens():
    theirs, ours = (
        tokens("<bos>", "<eos>", "a", "<eot>", "<gone>"),
        tokens("<eot>", "<eos>", "<bos>"),
    )
    present = {"bos_token_id": 0, "eos_token_id": [1, 3, 4, 99], "suppress_tokens": [2]}
    assert generation_ids(present, ours, theirs) == {
        "bos_token_id": 2, "eos_token_id": [1, 0], "suppress_tokens": None
    }  # fmt: skip


def test_ids_out_of_range_give_way_to_the_roles_of_the_vocabulary():
    theirs, ours = tokens("<bos>", "<eos>"), tokens("x", "<eos>", "<bos>")
    config = AutoConfig.for_model("olmo2", eos_token_id=50_279, bos_token_id=None)
    found = export.vocabulary_settings(config, ours, theirs)
    assert (found["eos_token_id"], found["pad_token_id"], found["vocab_size"]) == (1, None, 3)
    assert generation_ids({"eos_token_id": [50_279]}, ours, theirs) == {"eos_token_id": 1}
    assert generation_ids({"pad_token_id": 1}, ours, theirs) == {"pad_token_id": None}


def test_a_generator_whose_tokenizer_has_cls_and_sep_too_goes_on_to_stop_at_its_end_token():
    """rinna's GPT-2 has <s>, </s>, [CLS] and [SEP]; documents end with </s>."""
    backend = Tokenizer(models.BPE({"[CLS]": 0, "[SEP]": 1, "<s>": 2, "</s>": 3}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel()
    ours = PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]",
        bos_token="<s>", eos_token="</s>",
    )  # fmt: skip
    vocabulary = Vocabulary.of(ours)
    present = {"bos_token_id": 2, "eos_token_id": 3}
    assert generation_ids(present, vocabulary, vocabulary) == present
    for family, ids in {"gpt2": {}, "modernbert": {"cls_token_id": 0, "sep_token_id": 1}}.items():
        config = AutoConfig.for_model(family, **present, **ids)
        found = export.vocabulary_settings(config, vocabulary)
        assert {key: found[key] for key in present | ids} == present | ids


def test_a_special_token_that_only_the_model_gives_a_role_keeps_its_id():
    """Qwen's config.json has <|endoftext|> as its first token, and its tokenizer has none."""
    theirs, ours = (
        dataclasses.replace(tokens(*pieces), special_ids=frozenset({0, 1}))
        for pieces in (("<end>", "<eos>", "a"), ("<eos>", "<end>"))
    )
    config = AutoConfig.for_model("qwen3", bos_token_id=0, eos_token_id=1)
    assert export.vocabulary_settings(config, ours, theirs)["bos_token_id"] == 1
    assert generation_ids({"bos_token_id": 0}, ours, theirs) == {"bos_token_id": 1}
    assert generation_ids({"bos_token_id": 2}, ours, theirs) == {"bos_token_id": None}


def tokens(*pieces):
    roles = {piece.strip("<>"): i for i, piece in enumerate(pieces) if piece in ("<bos>", "<eos>")}
    return Vocabulary(len(pieces), list(pieces), [None] * len(pieces), roles, frozenset())


def test_mmbert_keeps_its_base_in_sliding_layers(tiny_model, tmp_path):
    """mmBERT has 160,000 in sliding layers too, where ModernBERT has 10,000."""
    bases = {
        kind: {"rope_type": "default", "rope_theta": 160_000.0}
        for kind in ("full_attention", "sliding_attention")
    }
    layers = {"layer_types": ["full_attention", "sliding_attention"], "local_attention": 8}
    source = tiny_model("modernbert", rope_parameters=bases, **layers)
    plan = layer_plan(2, 1, 1, "copy")
    target, _ = rebuild(source, FAMILIES["modernbert"], plan, config_changes={}, seed=0)
    write_model(target, tmp_path)
    check_reload(target, tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).rope_parameters == bases
    assert json.loads((tmp_path / "config.json").read_text())["local_rope_theta"] == 160_000.0
