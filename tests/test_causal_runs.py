"""`lingraft adapt` from causal models and encoder–decoders: documents, phases, what comes out."""

import functools
import re
import tomllib

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from lingraft.models.families import FAMILIES
from lingraft.models.parts import goes_with_place, layer_index
from lingraft.rundir import Run
from lingraft.tokenizer import documents
from lingraft.tokenizer.shards import Tokens

FAST = {"causal": "tokenizer.max_tokens=16", "seq2seq": "evaluation.max_sentences=8"}


@pytest.fixture(scope="module")
def made(tmp_path_factory, shorthand, command):
    """A finished run of six steps, one a family."""

    @functools.cache
    def run(family):
        out = tmp_path_factory.mktemp("runs") / family
        more = ("hardware.checkpoint_steps=2", FAST[FAMILIES[family].kind])
        command(*shorthand(out, family), *more).well()
        return Run(out)

    return run


@pytest.fixture(params=["gpt2", "llama"])
def run(request, made):
    return made(request.param)


def test_phases_predict_every_token_of_lines_that_stayed_whole(run):
    recipe = tomllib.loads((run.path / "recipe.toml").read_text())
    assert [phase["objective"] for phase in recipe["phases"]] == ["clm", "clm"]
    assert recipe["corpus"]["split_sentences"] is False
    result = run.stage("phase-2").result()
    assert result["masked"] == result["tokens"] > 0


def test_the_tokenised_text_is_the_corpus_document_by_document(run):
    folder = run.stage("tokenizer").path
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = Tokens.open(folder, "test")
    texts = list(documents.read(run.stage("corpus").path / "test.txt"))
    rows = [row.tolist() for row in tokens.rows(range(len(tokens)))]
    assert rows == [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
    counts = run.stage("tokenizer").result()["tokens"]["test"]
    assert counts["cut"] == sum(len(row) > 17 for row in rows) > 0
    assert counts["pieces"] == sum(-(-(len(row) - 1) // 16) for row in rows)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart", "t5"])
def test_the_first_phase_moves_new_layers_and_rows_alone_the_second_everything(family, made):
    folders = [made(family).path / name for name in ("graft/model", "phase-1/best", "model")]
    before, after, last = (load_file(folder / "model.safetensors") for folder in folders)
    record = FAMILIES[family]
    for name, tensor in before.items():
        inserted = layer_index(name, record) in {0, 3, 1000, 1003}
        inserted = inserted and not goes_with_place(name, record)
        trains = name == record.word_embeddings or inserted
        # keys' biases have a gradient of zero but for rounding, which the optimizer may pass on
        if not trains or not name.endswith("k_proj.bias"):
            assert torch.equal(after[name], tensor) != trains, name
        if name not in record.output_bias and not name.endswith("k_proj.bias"):
            assert not torch.equal(last[name], after[name]), name


def test_what_comes_out_is_a_stock_model_that_goes_on_with_a_text(run):
    path = run.model_path
    model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(path)
    inputs = tokenizer("나는 학교에 가서", return_tensors="pt")
    how = {"max_new_tokens": 8, "do_sample": False}
    written = [model.generate(**inputs, **how, use_cache=cache) for cache in (True, False)]
    assert torch.equal(*written)
    assert written[0].shape[1] > inputs["input_ids"].shape[1]
    card = (path / "README.md").read_text("utf-8")
    assert "pipeline_tag: text-generation" in card
    code = re.search("```python\n(.*?)```", card, re.DOTALL)[1]
    exec(compile(code.replace("path/to/this/folder", str(path)), "card", "exec"), {})


def test_held_out_text_is_measured_by_its_bytes(run):
    result = run.stage("evaluation").result()
    found = result["likelihood"]
    texts = list(documents.read(run.stage("corpus").path / "test.txt"))
    assert found["documents"] == len(texts)
    assert found["bytes"] == sum(len(text.encode()) for text in texts)
    ratio = found["bytes"] / found["characters"]
    assert found["bits_per_character"] == pytest.approx(found["bits_per_byte"] * ratio)
    assert 0 < found["bits_per_byte"] < 8
    assert result["metrics"]["next-token"]["perplexity"] < 1.2 * 300


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_what_comes_out_is_a_stock_model_that_writes(family, made):
    path = made(family).model_path
    model, info = AutoModelForSeq2SeqLM.from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(path)
    assert [getattr(model.config, one.depth_key) for one in FAMILIES[family].lists] == [4, 4]
    assert model.config.vocab_size == len(tokenizer)
    written = model.generate(**tokenizer("나는 학교에", return_tensors="pt"), max_new_tokens=8)
    assert int(written[0, 0]) == model.config.decoder_start_token_id


def test_the_rows_of_sentinels_and_of_the_start_are_the_sources(made, tiny_source):
    theirs = load_file(tiny_source("t5") / "model.safetensors")["shared.weight"]
    ours = load_file(made("t5").path / "graft/model/model.safetensors")["shared.weight"]
    names = ["<pad>", "<extra_id_0>", "<extra_id_99>"]
    tokenizers = map(AutoTokenizer.from_pretrained, (tiny_source("t5"), made("t5").model_path))
    source, target = (one.convert_tokens_to_ids(names) for one in tokenizers)
    assert torch.equal(ours[target], theirs[source])
