"""`lingraft adapt` from encoder–decoders: both phases, what comes out, kill and resume."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from lingraft.models.families import FAMILIES
from lingraft.models.parts import goes_with_place, layer_index
from lingraft.rundir import Run

FAST = ("hardware.checkpoint_steps=2", "evaluation.max_sentences=8")


@pytest.fixture(scope="module", params=["bart", "t5"])
def run(request, tmp_path_factory, shorthand, command):
    """A finished run of six steps, and its family."""
    out = tmp_path_factory.mktemp("runs") / request.param
    finished = command(*shorthand(out, request.param), *FAST)
    assert finished.status == 0, finished.err
    return Run(out), request.param


def test_the_first_phase_moves_new_layers_and_rows_alone_the_second_everything(run):
    before, after, last = (
        load_file(run[0].path / folder / "model.safetensors")
        for folder in ("graft/model", "phase-1/best", "model")
    )
    record = FAMILIES[run[1]]
    new = {0, 3, 1000, 1003}
    for name, tensor in before.items():
        trains = name == record.word_embeddings or (
            layer_index(name, record) in new and not goes_with_place(name, record)
        )
        # keys' biases have a gradient of zero but for rounding, which the optimizer may pass on
        if not trains or not name.endswith("k_proj.bias"):
            assert torch.equal(after[name], tensor) != trains, name
        if name not in record.output_bias and not name.endswith("k_proj.bias"):
            assert not torch.equal(last[name], after[name]), name


def test_what_comes_out_is_a_stock_model_that_writes(run):
    path = run[0].model_path
    model, info = AutoModelForSeq2SeqLM.from_pretrained(path, output_loading_info=True)
    assert not any(info.values())
    tokenizer = AutoTokenizer.from_pretrained(path)
    stacks = [getattr(model.config, one.depth_key) for one in FAMILIES[run[1]].lists]
    assert stacks == [4, 4]
    assert model.config.vocab_size == len(tokenizer)
    written = model.generate(**tokenizer("나는 학교에", return_tensors="pt"), max_new_tokens=8)
    assert int(written[0, 0]) == model.config.decoder_start_token_id


def test_the_rows_of_sentinels_and_of_the_start_are_the_sources(run, tiny_source):
    if run[1] != "t5":
        pytest.skip("BART has no sentinels, and its padding starts nothing")
    theirs = load_file(tiny_source("t5") / "model.safetensors")["shared.weight"]
    ours = load_file(run[0].path / "graft/model/model.safetensors")["shared.weight"]
    names = ["<pad>", "<extra_id_0>", "<extra_id_99>"]
    source, target = (
        AutoTokenizer.from_pretrained(path).convert_tokens_to_ids(names)
        for path in (tiny_source("t5"), run[0].model_path)
    )
    assert torch.equal(ours[target], theirs[source])
