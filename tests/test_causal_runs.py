"""`lingraft adapt` from causal models: documents, both phases, what comes out, kill and resume."""

import re
import tomllib

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from lingraft.models.families import FAMILIES
from lingraft.models.parts import layer_index
from lingraft.rundir import Run
from lingraft.tokenizer import documents
from lingraft.tokenizer.shards import Tokens

FAST = ("hardware.checkpoint_steps=2", "tokenizer.max_tokens=16")


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def run(request, tmp_path_factory, shorthand, command):
    """A finished run of six steps, and its family."""
    out = tmp_path_factory.mktemp("runs") / request.param
    finished = command(*shorthand(out, request.param), *FAST)
    assert finished.status == 0, finished.err
    return Run(out), request.param


def test_phases_predict_every_token_of_lines_that_stayed_whole(run):
    recipe = tomllib.loads((run[0].path / "recipe.toml").read_text())
    assert [phase["objective"] for phase in recipe["phases"]] == ["clm", "clm"]
    assert recipe["corpus"]["split_sentences"] is False
    result = run[0].stage("phase-2").result()
    assert result["masked"] == result["tokens"] > 0


def test_the_tokenised_text_is_the_corpus_document_by_document(run):
    folder = run[0].stage("tokenizer").path
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = Tokens.open(folder, "test")
    texts = list(documents.read(run[0].stage("corpus").path / "test.txt"))
    rows = [row.tolist() for row in tokens.rows(range(len(tokens)))]
    assert rows == [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in texts]
    counts = run[0].stage("tokenizer").result()["tokens"]["test"]
    assert counts["cut"] == sum(len(row) > 17 for row in rows) > 0
    assert counts["pieces"] == sum(-(-(len(row) - 1) // 16) for row in rows)


def test_the_first_phase_moves_new_layers_and_rows_alone_the_second_everything(run):
    before, after, last = (
        load_file(run[0].path / folder / "model.safetensors")
        for folder in ("graft/model", "phase-1/best", "model")
    )
    record = FAMILIES[run[1]]
    for name, tensor in before.items():
        trains = name == record.word_embeddings or layer_index(name, record) in {0, 3}
        assert torch.equal(after[name], tensor) != trains, name
        assert not torch.equal(last[name], after[name]), name


def test_what_comes_out_is_a_stock_model_that_goes_on_with_a_text(run):
    path = run[0].model_path
    model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(path)
    inputs = tokenizer("나는 학교에 가서", return_tensors="pt")
    written = [
        model.generate(**inputs, max_new_tokens=8, do_sample=False, use_cache=cache)
        for cache in (True, False)
    ]
    assert torch.equal(*written)
    assert written[0].shape[1] > inputs["input_ids"].shape[1]
    card = (path / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: text-generation" in card
    code = re.search("```python\n(.*?)```", card, re.DOTALL)[1].replace(
        "path/to/this/folder", str(path)
    )
    exec(compile(code, "card", "exec"), {})


def test_held_out_text_is_measured_by_its_bytes(run):
    result = run[0].stage("evaluation").result()
    found = result["likelihood"]
    texts = list(documents.read(run[0].stage("corpus").path / "test.txt"))
    assert found["documents"] == len(texts)
    assert found["bytes"] == sum(len(text.encode()) for text in texts)
    ratio = found["bytes"] / found["characters"]
    assert found["bits_per_character"] == pytest.approx(found["bits_per_byte"] * ratio)
    assert 0 < found["bits_per_byte"] < 8
    assert result["metrics"]["next-token"]["perplexity"] < 1.2 * 300
