"""A source is loaded, mended, or refused in one line: damaged rows, whatever stands in config.json,
and code of its own, which is never run."""

from __future__ import annotations

import ast
import json
import logging
import os
import shutil
import warnings
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.torch import load_file, save_file
from tiny_shapes import SHAPES
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BertModel,
    dynamic_module_utils,
)

import lingraft
from lingraft import config
from lingraft.errors import DataError, LingraftError, UnsupportedModelError
from lingraft.models import damage
from lingraft.models.families import check_config
from lingraft.models.families.record import SETTINGS
from lingraft.models.graft import rebuild
from lingraft.models.packed import PackedModel, check_isolation
from lingraft.models.source import from_architecture, load_model
from lingraft.models.stacks import packed_model
from lingraft.pipeline import completing, preflight
from lingraft.pretrained.load import load_config, load_model as load_pretrained
from lingraft.recipe import Source
from lingraft.tokenizer.vocabulary import Vocabulary


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


@pytest.mark.parametrize(("family", "mask"), [("eurobert", 4), ("modernbert", None)])
def test_a_model_from_nothing_knows_its_mask_token_where_the_family_has_a_place_for_it(
    family, mask
):
    table, ids = SHAPES[family] | {"model_type": family}, {"pad_token_id": 1, "mask_token_id": 4}
    config = from_architecture(Source(architecture=table), 99, ids, 4).model.config
    assert getattr(config, "mask_token_id", None) == mask
    assert config.pad_token_id == 1


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


def test_relative_positions_are_refused_wherever_a_model_is_loaded(tiny_source, tmp_path):
    """transformers 5 has none for BERT, and would give absolute ones without a word."""
    changed_config(tiny_source("bert"), tmp_path, position_embedding_type="relative_key")
    said = "position_embedding_type is 'relative_key': transformers 5"
    for load in (load_model, partial(load_pretrained, AutoModel), load_config):
        with pytest.raises(UnsupportedModelError, match=said):
            load(str(tmp_path))


def changed_config(source, folder, **settings):
    shutil.copytree(source, folder, dirs_exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), "utf-8")


def test_settings_of_how_a_class_runs_are_left_aside(tiny_source, tmp_path):
    settings = {"return_dict": False, "_attn_implementation": "flash_attention_2"}
    changed_config(tiny_source("roberta"), tmp_path, **settings)
    loaded = load_model(str(tmp_path))
    check_isolation(PackedModel(loaded.model, loaded.family), 1)


@pytest.mark.parametrize(
    ("family", "key"), [("t5", "decoder_start_token_id"), ("roberta", "pad_token_id")]
)
def test_a_token_that_a_model_cannot_read_without_is_named(family, key, tiny_source, tmp_path):
    changed_config(tiny_source(family), tmp_path, **{key: None})
    loaded = load_model(str(tmp_path))
    with pytest.raises(UnsupportedModelError, match=f"type '{family}' needs {key}; add it"):
        packed_model(loaded.model, loaded.family)


def test_a_padding_token_that_ends_texts_learns(tiny_source, tmp_path):
    changed_config(tiny_source("llama"), tmp_path, pad_token_id=2, eos_token_id=[2, 3])
    embeddings = load_model(str(tmp_path)).model.get_input_embeddings()
    embeddings(torch.tensor([[2, 5]])).sum().backward()
    assert embeddings.weight.grad[[2, 5]].ne(0).all()


LONG, NAN, ZERO = 100, 101, 102


@pytest.fixture
def damaged(tiny_source, tmp_path):
    """A tiny RoBERTa with one row of each kind of damage, and with more of them on request."""

    def made(*more):
        folder = shutil.copytree(tiny_source("roberta"), tmp_path / "damaged")
        path = folder / "model.safetensors"
        tensors = load_file(path)
        rows_VD = tensors["roberta.embeddings.word_embeddings.weight"]
        rows_VD[[LONG, *more]] *= 1e4
        rows_VD[NAN, 3], rows_VD[ZERO], rows_VD[1] = float("nan"), 0.0, 0.0
        save_file(tensors, path, {"format": "pt"})
        return str(folder)

    return made


def test_damaged_rows_get_the_mean_of_the_sound_ones(damaged, tiny_source, tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    before_VD = load_model(str(tiny_source("roberta"))).model.get_input_embeddings().weight.detach()
    loaded = load_model(damaged())
    mended = damage.mend("x", loaded, tokenizer)
    assert mended == {LONG: "30 times too long", NAN: "not finite", ZERO: "zero"}
    after_VD = loaded.model.get_input_embeddings().weight.detach()
    sound = [i for i in range(len(before_VD)) if i not in mended]
    assert torch.equal(after_VD[sound[2:]], before_VD[sound[2:]])  # <pad> is zero, and stays so
    assert not after_VD[1].any()
    sound.remove(1)
    for index in mended:
        torch.testing.assert_close(after_VD[index], after_VD[sound].mean(0))
    assert damage.mend("x", loaded, tokenizer) == {}
    *_, line = damage.described(mended, tokenizer)
    piece = tokenizer.convert_ids_to_tokens(ZERO)
    assert f"1 row of the source's pieces: zero ({ZERO} '{piece}')" in line


def test_a_matrix_with_many_damaged_rows_is_refused(damaged, tiny_tokenizer):
    loaded = load_model(damaged(110, 111, 112))
    with pytest.raises(DataError, match="5 of the 320 rows"):
        damage.mend("x", loaded, tiny_tokenizer("roberta"))


def test_damaged_rows_are_told_or_refused_before_the_start(damaged, korean_text):
    def notes(folder):
        asked = {"source": folder, "text": korean_text, "language": "ko", "budget": "5steps"}
        recipe = completing.complete(config.recipe_of(None, asked)).recipe
        return "\n".join(preflight.check(recipe).notes)

    told = notes(damaged())
    assert all(what in told for what in ("30 times too long", "not finite", "zero"))


def test_zero_rows_without_a_piece_have_no_part_in_what_is_usual(tiny_tokenizer):
    rows_VD = torch.cat([torch.ones(320, 4), torch.zeros(400, 4)])
    rows_VD[7] = 99.0
    vocabulary = Vocabulary.of(tiny_tokenizer("roberta"))
    assert damage.find(rows_VD, vocabulary, "x") == {7: "30 times too long"}
    with pytest.raises(DataError, match="or all are zero"):
        damage.find(torch.zeros(320, 4), vocabulary, "x")


LOADED = ("bert", "roberta", "electra", "modernbert")
EXAMPLES = int(os.environ.get("LINGRAFT_EXAMPLES", "12"))
"""To a family; thousands are a matter of minutes."""
NUMBERS = [-1, 0, 1, 2, 3, 7, 1_000, 10**6]
VALUES = st.one_of(
    st.sampled_from([None, True, False, *NUMBERS, 0.5, 1e300, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "gelu", "float32", "a/b", "full_attention", "\0", "é" * 9]),
    st.lists(st.sampled_from([None, 0, "x", "full_attention", []]), max_size=3),
    st.dictionaries(st.sampled_from(["", "x", "rope_type", "0"]), st.sampled_from([0, "x", None])),
)
MORE = ("dtype", "torch_dtype", "layer_types", "num_labels", "id2label", "auto_map", "model_type")
MORE += ("attn_implementation", "quantization_config", "rope_parameters", "pruned_heads")
MORE += ("is_decoder", "chunk_size_feed_forward", "tie_word_embeddings", "problem_type")


@pytest.mark.parametrize("family", LOADED)
def test_any_value_of_any_setting_loads_or_is_one_line(family, tiny_source, tmp_path):
    source = shutil.copytree(tiny_source(family), tmp_path / "source")
    path = source / "config.json"
    good = json.loads(path.read_text())
    load_model(str(source))  # as it is
    said: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.dictionaries(st.sampled_from(sorted({*good, *MORE})), VALUES, min_size=1, max_size=2))
    def one(changes):
        path.write_text(json.dumps(good | changes))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # transformers warns of odd values
                load_model(str(source))
        except LingraftError as error:
            said.append(str(error))

    one()
    assert said
    assert not [message for message in said if "\n" in message]


CODE = """
import pathlib
from transformers import BertConfig

pathlib.Path({marker!r}).write_text("it ran")


class EvilConfig(BertConfig):
    model_type = "evil"

"""
CLASSES = ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification")
MODEL = dict.fromkeys(CLASSES, "modeling_evil.EvilModel")
MODEL["AutoConfig"] = "modeling_evil.EvilConfig"


@pytest.mark.parametrize("auto_map", [MODEL, 3, "modeling_evil.X", [["a.B"], None]])
def test_the_code_of_a_model_is_not_run_and_nobody_is_asked_whether_to(
    auto_map, tiny_source, tmp_path, monkeypatch
):
    source, marker, asked = tmp_path / "source", tmp_path / "marker", []
    shutil.copytree(tiny_source("roberta"), source)
    (source / "modeling_evil.py").write_text(CODE.format(marker=str(marker)))
    settings = json.loads((source / "config.json").read_text())
    settings |= {"model_type": "evil", "auto_map": auto_map}
    (source / "config.json").write_text(json.dumps(settings))
    monkeypatch.setattr("builtins.input", lambda question="": asked.append(question) or "yes")
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    for load in (lingraft.load, load_model):
        with pytest.raises(UnsupportedModelError, match="its own Python code"):
            load(str(source))
    assert not marker.exists()
    assert not asked


def test_every_loading_call_in_the_sources_forbids_the_code():
    """But of classes that read JSON and never ask for code."""
    root, checked = Path(__file__).parents[2], 0
    for path in chain(*((root / one).rglob("*.py") for one in ("src", "scripts"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in ("from_pretrained", "from_config"):
                continue
            if ast.unparse(node.func.value) in ("GenerationConfig", "peft.PeftConfig"):
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            trust = given.get("trust_remote_code")
            assert isinstance(trust, ast.Constant), f"{path}:{node.lineno}"
            assert trust.value is False, f"{path}:{node.lineno}"
            checked += 1
    assert checked >= 5
