"""What config.json and generation_config.json of an export say, for every family that has them."""

import dataclasses

import pytest
from transformers import AutoConfig

from lingraft.models import export
from lingraft.models.export import generation_ids
from lingraft.models.families import FAMILIES
from lingraft.tokenizer.vocabulary import Vocabulary


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
    found = FAMILIES[family].older(config)
    assert {key: found[key] for key in expected} == expected


def test_stop_ids_of_another_vocabulary_keep_their_roles_and_their_tokens():
    theirs, ours = (
        tokens("<bos>", "<eos>", "a", "<eot>", "<gone>"),
        tokens("<eot>", "<eos>", "<bos>"),
    )
    present = {"bos_token_id": 0, "eos_token_id": [1, 3, 4, 99], "suppress_tokens": [2]}
    assert generation_ids(present, ours, theirs) == {
        "bos_token_id": 2, "eos_token_id": [1, 0], "suppress_tokens": None
    }  # fmt: skip


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
