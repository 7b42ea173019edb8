"""GGUF files: read back by the package gguf and by transformers, and opened by llama.cpp itself."""

import functools
import json
import random
import unicodedata
from itertools import pairwise

import pytest
import tiny_causal
import torch
from causal_tokenizers import OF_FAMILY, build
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from lingraft import recipe
from lingraft.errors import UnsupportedModelError
from lingraft.models import llama_cpp
from lingraft.tokenizer import extension, files, llama_cpp as vocabulary

gguf = pytest.importorskip("gguf")
SCRIPTS = "aαаאاकก가あ一"
MARKS = {"क": "ािी", "ก": "ิีึ", "א": "ִֵֶ", "ا": "ًٌَ"}
SIGNS = ["2024", "3½", "it's", "WE'LL", "...", "(", "🙂", "\t", " ", "-", "\u200e"]


@functools.cache
def lines():
    """Text of ten scripts: words of letters and marks, digits, signs and runs of spaces."""
    rng, found = random.Random(0), []
    for first in SCRIPTS:
        letters = [*(chr(ord(first) + i) for i in range(22)), *MARKS.get(first, "")]
        words = ["".join(rng.choices(letters, k=rng.randint(1, 5))) for _ in range(60)]
        rows = (rng.choices(words + SIGNS, k=rng.randint(2, 12)) for _ in range(100))
        found += [unicodedata.normalize("NFC", " ".join(row)).strip() for row in rows]
    return found


def changed(source, action, **keys):
    """A tokenizer with what lingraft learns of the lines."""
    section = recipe.Tokenizer(action=action, **({"vocab_size": 900, "new_pieces": 400} | keys))
    options = {"pad_id": None, "seed": 0, "causal": True}
    return extension.make(section, source, lambda: iter(lines()[::2]), **options)[0]


def saved(folder, family, tokenizer=None):
    """A tiny model with a tokenizer and some rows more, and its GGUF file."""
    tiny_causal.TOKENIZERS.setdefault(family, OF_FAMILY[family])
    tiny_causal.save(folder, family)
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
        return model(torch.tensor([list(ids)])).logits[0]


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2"])
def test_transformers_reads_the_same_model_from_the_file(family, tmp_path):
    again = logits(tmp_path, range(20, 60), gguf_file=saved(tmp_path, family).name)
    assert torch.equal(again, logits(tmp_path, range(20, 60)))


@pytest.mark.parametrize("family", ["llama", "granite", "smollm3"])
def test_biases_lie_as_their_weights(family, tmp_path):
    tiny_causal.save(tmp_path, family)
    config = AutoConfig.from_pretrained(tmp_path, attention_bias=True)
    model = AutoModelForCausalLM.from_config(config)
    rows = {key: torch.arange(len(one)).float() for key, one in model.state_dict().items()}
    model.load_state_dict(
        {
            key: rows[key].view(-1, *[1] * (one.dim() - 1)).expand_as(one)
            for key, one in model.state_dict().items()
        }
    )
    found = llama_cpp._tensors(gguf, model)
    for part in ("attn_q", "attn_k"):
        bias = found[f"blk.0.{part}.bias"]
        assert not bias.equal(bias.sort().values)
        assert bias.equal(found[f"blk.0.{part}.weight"][:, 0])


def test_the_file_holds_every_tensor_and_what_a_token_is(tmp_path):
    tokenizer = changed(build("gemma"), "extend")
    reader = gguf.GGUFReader(saved(tmp_path, "gemma2", tokenizer))
    stored = {tensor.name: tensor for tensor in reader.tensors}
    assert len(stored) == 2 + 11 * 2  # the output is the embeddings
    model = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert (stored["output_norm.weight"].data == 1 + model["model.norm.weight"].numpy()).all()
    values = {key: field.contents() for key, field in reader.fields.items()}
    assert values["gemma2.attention.sliding_window_pattern"] == [True, False]
    tokens, types = (values[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
    assert tokens[: len(tokenizer)] == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    assert [types[tokens.index(token)] for token in ("<bos>", "<0x0A>", tokens[-1])] == [3, 6, 5]
    assert types.count(1) == len(tokenizer) - len(tokenizer.added_tokens_decoder) - 256


def as_llama_cpp(text, scores):
    """Merge as llama.cpp does without a list: of all neighbours that make a piece the best."""
    symbols = list(text)
    while found := [
        (scores[a + b], -i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in scores
    ]:
        place = -max(found)[1]
        symbols[place : place + 2] = ["".join(symbols[place : place + 2])]
    return [symbol for symbol in symbols if symbol in scores]


@pytest.mark.parametrize("family", ["llama-2", "gemma"])
@pytest.mark.parametrize("action", ["keep", "extend", "replace", "trim"])
def test_scores_merge_as_the_list_of_merges_does(family, action):
    tokenizer = changed(build(family), action)
    found = vocabulary.metadata(tokenizer, len(tokenizer))
    scores = dict(zip(found["ggml.tokens"], found["ggml.scores"], strict=True))
    for line in lines()[1::4]:
        text = ("▁" if found["ggml.add_space_prefix"] else "") + line.replace(" ", "▁")
        expected = [piece for piece in tokenizer.tokenize(line) if not piece.startswith("<0x")]
        assert as_llama_cpp(text, scores) == expected


def edited(family, part, **changes):
    state = files.state_of(build(family))
    state[part] = (state[part] or {}) | changes
    backend = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=build(family).eos_token)


def test_ways_to_cut_words_have_names_or_are_refused():
    found = {f: vocabulary.metadata(build(f), 900)["ggml.pre"] for f in ("gpt2", "llama-3", "qwen")}
    assert found == {"gpt2": "gpt-2", "llama-3": "llama-bpe", "qwen": "qwen2"}
    merging = edited("llama-3", "model", ignore_merges=False)
    assert vocabulary.metadata(merging, 900)["ggml.pre"] == "smaug-bpe"
    own = changed(build("llama-2"), "new", algorithm="byte-bpe")
    assert vocabulary.metadata(own, len(own))["ggml.pre"] == "qwen35"
    merges = files.state_of(build("gemma"))["model"]["merges"][9:]
    others = [edited("gpt2", "normalizer", type="NFKC"), edited("gemma", "model", merges=merges)]
    others.append(edited("gpt2", "pre_tokenizer", add_prefix_space=True))
    others.append(changed(build("llama-2"), "new", algorithm="unigram"))
    for tokenizer in others:
        with pytest.raises(UnsupportedModelError, match="would give other ids"):
            vocabulary.metadata(tokenizer, 2000)


def test_a_model_that_llama_cpp_would_compute_otherwise_is_refused(tmp_path):
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    AutoConfig.for_model("llama", rope_parameters=rope).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModelError, match="cannot have rope_type dynamic"):
        llama_cpp.export(str(tmp_path), tmp_path / "model.gguf")


@pytest.mark.slow
@pytest.mark.parametrize("action", ["keep", "extend", "replace"])
@pytest.mark.parametrize("family", llama_cpp.FAMILIES)
def test_llama_cpp_gives_the_same_ids_and_numbers(family, action, tmp_path):
    opened = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python").Llama
    tokenizer = changed(build(OF_FAMILY[family]), action)
    path = str(saved(tmp_path, family, tokenizer))
    model = opened(path, n_ctx=128, logits_all=True, verbose=False, n_threads=1)
    for line in lines():
        ids = tokenizer(line)["input_ids"]
        assert model.tokenize(line.encode(), add_bos=True, special=True) == ids
    model.eval(ids[:30])
    difference = torch.tensor(model.scores[: len(ids[:30])]) - logits(tmp_path, ids[:30])
    assert difference.abs().max() < 1e-2
