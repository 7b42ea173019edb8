"""The benchmark beside run_clm compares the same work: tiny arms in this process."""

import argparse

import pytest
import torch
from script_modules import load
from transformers import AutoModelForCausalLM

from lingraft.models.source import load_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def versus():
    return load("vs_run_clm", "research/benchmarks")


@pytest.fixture
def asked():
    return argparse.Namespace(model="small", shape="3x64x100", tokens=1_500, warmup=0.2, phase=2,
                              context=32, rows=4, batch=256, documents=80, mean_length=24,
                              precision="fp32", clock="processor")  # fmt: skip


@pytest.fixture
def folder(versus, asked, tmp_path):
    versus.prepare(tmp_path, asked)
    return tmp_path


def test_blocks_are_the_whole_text_in_pieces_without_the_rest(versus):
    found = versus.blocks([[1, 2, 3], [4, 5], [6, 7]], 3)
    assert [row["input_ids"] for row in found] == [[1, 2, 3], [4, 5, 6]]


def test_packed_rows_of_the_trainer_keep_documents_apart_as_ours_do(versus, asked, folder):
    tokens = versus.texts(asked)[0]
    rows = versus.rows_of(tokens, asked.context)
    batch = versus.collate(rows[:4])
    model = AutoModelForCausalLM.from_pretrained(folder / "model").eval()
    model.config.use_cache = False
    with torch.no_grad():
        together = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"]).logits
    for number, row in enumerate(rows[:4]):
        ids, places = row["input_ids"], row["position_ids"]
        starts = [i for i, place in enumerate(places) if place == 0]
        for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
            with torch.no_grad():
                alone = model(input_ids=torch.tensor([ids[start:end]])).logits[0]
            torch.testing.assert_close(together[number, start:end], alone, atol=1e-4, rtol=1e-3)
            assert row["labels"][start] == -100
            assert row["labels"][start + 1 : end] == ids[start + 1 : end]


@pytest.mark.parametrize("packed", [False, True], ids=["blocks", "packed"])
def test_the_trainer_counts_real_tokens_and_stops_at_the_budget(packed, versus, folder, asked):
    model, found = versus.train_theirs(versus.Opponent("", packed=packed), folder, asked)
    assert asked.tokens <= found["tokens"] < asked.tokens + 2 * asked.batch
    assert found["tokens_per_second"] > 0
    assert 0 < versus.held_out_loss(model, folder, asked) < 6


def test_both_start_from_the_same_weights_and_learn_as_much_from_as_many_tokens(
    versus, folder, asked
):
    asked.tokens = 20_000
    started = versus.held_out_loss(load_model(str(folder / "model")).model, folder, asked)
    ours, found = versus.train_ours(folder, asked)
    theirs, _ = versus.train_theirs(versus.Opponent("", packed=True), folder, asked)
    assert asked.tokens <= found["tokens"] < asked.tokens + 2 * asked.batch
    losses = [versus.held_out_loss(model, folder, asked) for model in (ours, theirs)]
    assert max(losses) < started - 0.02
    assert losses[0] == pytest.approx(losses[1], abs=0.1)


def test_a_first_phase_trains_the_same_parts_on_both_sides(versus, folder, asked):
    asked.phase = 1
    before = load_model(str(folder / "model")).model.state_dict()
    moved = []
    for model in (
        versus.train_ours(folder, asked)[0],
        versus.train_theirs(versus.Opponent("", packed=True), folder, asked)[0],
    ):
        after = model.state_dict()
        moved.append({name for name in before if not before[name].equal(after[name])})
    assert moved[0] == moved[1]
    assert "model.embed_tokens.weight" in moved[0]
    assert not any(".layers.1." in name for name in moved[0])
