"""A graft, and what is written of it: weights, configuration files, the tokenizer beside them."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoTokenizer, RobertaConfig, RobertaForMaskedLM

from lingraft.errors import DataError
from lingraft.models import export
from lingraft.models.export import check_reload, dtype_of, generation_ids, write_model
from lingraft.models.families import FAMILIES
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.parts import layer_index, layer_plan
from lingraft.pretrained import checkpoints
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.vocabulary import Vocabulary
from tests.support.vocabulary_kinds import keys_of


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


def test_modernberts_old_first_layer_gets_a_norm_near_the_identity(tiny_model):
    source = tiny_model("modernbert")
    with torch.no_grad():
        source.model.embeddings.norm.weight.fill_(1.7)
        source.model.embeddings.tok_embeddings.weight.mul_(10)  # far above the norms' epsilon
    record, plan = FAMILIES["modernbert"], [None, 0, 1]
    target, account = rebuild(source, record, plan, config_changes={}, seed=0)
    name = "model.layers.1.attn_norm.weight"
    assert target.state_dict()[name].tolist() == pytest.approx([1.7] * 32)
    entry = next(entry for entry in account.entries if entry.tensor == name)
    assert (entry.kind, entry.note) == ("fresh", "stand-in norm, constant 1.7")
    assert account.notes[0].startswith(f"{name}: the source's first layer has no attention norm")
    embedded = target.eval().model.embeddings(torch.arange(20)[None])
    again = target.model.layers[1].attn_norm(embedded)
    torch.testing.assert_close(again, embedded, atol=2e-5, rtol=2e-5)


def test_xpt_of_roberta_base_has_exactly_138_669_392_parameters():
    config = RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
    with torch.device("meta"):
        source = RobertaForMaskedLM(config)
        rows = VocabularyTensors(torch.zeros(50_000, 768), torch.zeros(50_000))
        changes = {"vocab_size": 50_000}
        plan = layer_plan(12, 1, 1, "random")
        xpt, _ = rebuild(
            source, FAMILIES["roberta"], plan, config_changes=changes, seed=0, vocabulary=rows
        )
    assert sum(p.numel() for p in xpt.parameters()) == 138_669_392
    one_layer = [p for n, p in xpt.named_parameters() if layer_index(n, FAMILIES["roberta"]) == 0]
    assert sum(p.numel() for p in one_layer) == 7_087_872


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
    theirs = tokens("<bos>", "<eos>", "a", "<eot>", "<gone>")
    ours = tokens("<eot>", "<eos>", "<bos>")
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


@pytest.fixture(scope="module")
def vocabularies():
    """One of each kind, with words and numbers in whole pieces."""
    text = ["In 2024, 12345 people said: don't!", "나는 학교에 갔다."] * 9
    return {
        kind: tokenizer_files.train(
            Section(**keys_of(kind), vocab_size=330), None, lambda: text, pad_id=None, seed=0
        )
        for kind in tokenizer_files.TRAINED
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_beside_every_family_a_vocabulary_is_read_as_its_file_says_or_the_record_says_otherwise(
    family, vocabularies, tmp_path
):
    AutoConfig.for_model(family).save_pretrained(tmp_path)
    text = "In 2024, 12345 people said: 나는"
    for kind, ours in vocabularies.items():
        tokenizer_files.save(ours, tmp_path)
        stock = AutoTokenizer.from_pretrained(tmp_path)
        alike = stock(text)["input_ids"] == ours(text)["input_ids"]
        assert alike is not FAMILIES[family].own_pattern, kind
