"""GGUF files: read back by the package gguf and by transformers, and opened by llama.cpp itself."""

import functools
import itertools
import json
import random
import unicodedata

import numpy as np
import pytest
import tiny_causal
import torch
from causal_tokenizers import OF_FAMILY, build
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from lingraft import recipe
from lingraft.errors import UnsupportedModelError
from lingraft.models import llama_cpp
from lingraft.tokenizer import extension, files, llama_cpp as vocabulary

gguf = pytest.importorskip("gguf")
RANGES = {"Latin": 0x61, "Greek": 0x3B1, "Cyrillic": 0x430, "Hebrew": 0x5D0, "Arabic": 0x627}
RANGES |= {"Devanagari": 0x915, "Thai": 0xE01, "Hangul": 0xAC00, "kana": 0x3041, "Han": 0x4E00}
MARKS = {"Devanagari": 0x93E, "Thai": 0xE34, "Hebrew": 0x5B4, "Arabic": 0x64B}


@functools.cache
def lines():
    """Text of ten scripts: words of few letters and marks, digits, signs and runs of spaces."""
    rng, found = random.Random(0), []
    for name, start in RANGES.items():
        letters = [chr(start + i) for i in range(22)] + [
            chr(MARKS.get(name, start) + i) for i in range(4)
        ]
        words = ["".join(rng.choices(letters, k=rng.randint(1, 5))) for _ in range(60)]
        words += [
            "2024",
            "3½",
            "it's",
            "WE'LL",
            "...",
            "(",
            "🙂",
            "\t",
            " ",
            "-",
            "\N{LEFT-TO-RIGHT MARK}",
        ]
        rows = (rng.choices(words, k=rng.randint(2, 12)) for _ in range(100))
        found += [unicodedata.normalize("NFC", " ".join(row)).strip() for row in rows]
    return found


def changed(source, action, **keys):
    """A tokenizer with what lingraft learns of the lines."""
    section = recipe.Tokenizer(action=action, **({"vocab_size": 900, "new_pieces": 400} | keys))
    options = {"pad_id": None, "seed": 0, "causal": True}
    return extension.make(section, source, lambda: iter(lines()[::2]), **options)[0]


def saved(folder, family, tokenizer=None):
    """A tiny model with a tokenizer, and its GGUF file."""
    tiny_causal.TOKENIZERS.setdefault(family, OF_FAMILY[family])
    tiny_causal.save(folder, family)
    config = json.loads((folder / "config.json").read_text())
    settings = {"query_pre_attn_scalar": 16} if "query_pre_attn_scalar" in config else {}
    (folder / "config.json").write_text(json.dumps(config | settings))
    if tokenizer is not None:
        model = AutoModelForCausalLM.from_pretrained(folder)
        model.resize_token_embeddings(len(tokenizer) + 3)
        model.save_pretrained(folder)
        files.save(tokenizer, folder)
    llama_cpp.export(str(folder), folder / "model.gguf")
    return folder / "model.gguf"


def logits(path, ids, **options):
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", **options)
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2"])
def test_transformers_reads_the_same_model_from_the_file(family, tmp_path):
    path, ids = saved(tmp_path, family), list(range(20, 60))
    again = logits(tmp_path, ids, gguf_file=path.name)
    assert torch.equal(again, logits(tmp_path, ids))


def test_the_file_holds_every_tensor_and_what_a_token_is(tmp_path):
    tokenizer = changed(build("gemma"), "extend")
    reader = gguf.GGUFReader(saved(tmp_path, "gemma2", tokenizer))
    config = json.loads((tmp_path / "config.json").read_text())
    stored = {tensor.name: tensor for tensor in reader.tensors}
    assert len(stored) == 2 + 11 * config["num_hidden_layers"]  # the output is the embeddings
    model = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    np.testing.assert_array_equal(stored["output_norm.weight"].data, model["model.norm.weight"] + 1)
    assert {str(t.tensor_type.name) for t in reader.tensors} == {"F32"}
    values = {key: field.contents() for key, field in reader.fields.items()}
    assert values["gemma2.attention.sliding_window_pattern"] == [True, False]
    assert values["gemma2.attn_logit_softcapping"] == config["attn_logit_softcapping"]
    tokens, types = (values[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
    assert tokens[: len(tokenizer)] == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    kinds = {tokens.index("<bos>"): 3, tokens.index("<0x0A>"): 6, len(tokens) - 1: 5}
    assert {index: types[index] for index in kinds} == kinds
    assert types.count(1) == len(tokenizer) - len(tokenizer.added_tokens_decoder) - 256
    assert values["tokenizer.ggml.add_bos_token"]
    assert not values["tokenizer.ggml.add_space_prefix"]


def as_llama_cpp(text, scores):
    """Merge as llama.cpp does without a list: of all neighbours that make a piece the best."""
    symbols = list(text)
    while pairs := [
        (scores[piece], -place)
        for place, piece in enumerate(map("".join, itertools.pairwise(symbols)))
        if piece in scores
    ]:
        place = -max(pairs)[1]
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return symbols


@pytest.mark.parametrize("family", ["llama-2", "gemma"])
@pytest.mark.parametrize("action", ["keep", "extend", "replace", "trim"])
def test_scores_merge_as_the_list_of_merges_does(family, action):
    tokenizer = changed(build(family), action)
    found = vocabulary.metadata(tokenizer, len(tokenizer))
    scores = dict(zip(found["ggml.tokens"], found["ggml.scores"], strict=True))
    for line in lines()[1::4]:
        text = ("▁" if found["ggml.add_space_prefix"] else "") + line.replace(" ", "▁")
        expected = [t for t in tokenizer.tokenize(line) if not t.startswith("<0x")]
        assert [s for s in as_llama_cpp(text, scores) if s in scores] == expected


def edited(family, **changes):
    state = files.state_of(build(family))
    for key, change in changes.items():
        state[key] = change if not isinstance(state[key], dict) else state[key] | change
    backend = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=build(family).eos_token)


def test_ways_to_cut_words_have_names_or_are_refused():
    found = {f: vocabulary.metadata(build(f), 900)["ggml.pre"] for f in ("gpt2", "llama-3", "qwen")}
    assert found == {"gpt2": "gpt-2", "llama-3": "llama-bpe", "qwen": "qwen2"}
    plain = edited("llama-3", model={"ignore_merges": False})
    assert vocabulary.metadata(plain, 900)["ggml.pre"] == "smaug-bpe"
    own = changed(build("llama-2"), "new", algorithm="byte-bpe")
    assert vocabulary.metadata(own, len(own))["ggml.pre"] == "qwen35"
    merges = files.state_of(build("gemma"))["model"]["merges"]
    others = [edited("gpt2", normalizer={"type": "NFKC"})]
    others += [edited("gpt2", pre_tokenizer={"add_prefix_space": True})]
    others += [edited("gemma", model={"merges": merges[9:]})]
    others += [changed(build("llama-2"), "new", algorithm="unigram")]
    for tokenizer in others:
        with pytest.raises(UnsupportedModelError, match="would give other ids"):
            vocabulary.metadata(tokenizer, 2000)


def test_a_model_that_llama_cpp_would_compute_otherwise_is_refused(tmp_path):
    tiny_causal.save(tmp_path, "llama")
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}
    for change, named in (
        ({"hidden_act": "gelu"}, "hidden_act gelu"),
        (scaling, "rope_type dynamic"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UnsupportedModelError, match=named):
            llama_cpp.export(str(tmp_path), tmp_path / "model.gguf")
    assert not (tmp_path / "model.gguf").exists()


@pytest.mark.slow
@pytest.mark.parametrize("action", ["keep", "extend", "replace"])
@pytest.mark.parametrize("family", llama_cpp.FAMILIES)
def test_llama_cpp_gives_the_same_ids_and_numbers(family, action, tmp_path):
    opened = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python").Llama
    tokenizer = changed(build(OF_FAMILY[family]), action)
    path = saved(tmp_path, family, tokenizer)
    model = opened(str(path), n_ctx=128, logits_all=True, verbose=False, n_threads=1)
    for line in lines():
        ids = tokenizer(line)["input_ids"]
        assert model.tokenize(line.encode(), add_bos=True, special=True) == ids
    model.eval(ids[:30])
    difference = torch.tensor(model.scores[: len(ids[:30])]) - logits(tmp_path, ids[:30])
    assert difference.abs().max() < 1e-2
