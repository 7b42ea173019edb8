"""The benchmark beside run_mlm compares the same work: tiny arms in this process."""

import argparse

import pytest
from script_modules import load

from lingraft.models.source import load_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def versus():
    return load("vs_run_mlm", "research/benchmarks")


@pytest.fixture
def asked():
    return argparse.Namespace(model="small", shape="3x64x100", run=None, tokens=1_500, warmup=0.2,
                              phase=2, batch=16, sentences=200, precision="fp32")  # fmt: skip


@pytest.fixture
def folder(versus, asked, tmp_path):
    versus.prepare(tmp_path, asked)
    return tmp_path


def test_speed_leaves_the_warm_up_out():
    speed = load("arms", "research/benchmarks").speed
    marks = [(0.0, 0), (50.0, 10), (60.0, 20), (80.0, 60), (100.0, 100)]
    assert speed(marks, 0.1) == 90 / 50
    assert speed(marks, 0.2) == 80 / 40
    assert speed(marks, 0.5) == 40 / 20


def test_blocks_are_the_whole_text_in_pieces_without_the_rest(versus):
    assert versus.blocks([[1, 2, 3], [4, 5], [6, 7]], 3) == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("micro", "grouped", "block"), [(8, False, None), (16, True, None), (1, False, 64)]
)
def test_the_trainer_counts_real_tokens_and_stops_at_the_budget(
    micro, grouped, block, versus, folder, asked, monkeypatch
):
    opponent = versus.Opponent("", grouped=grouped, micro=micro, block=block)
    model, found = versus.train_theirs(opponent, folder, asked)
    assert asked.tokens <= found["tokens"] < asked.tokens + 16 * 128
    assert found["tokens_per_second"] > 0
    assert 0 < versus.held_out_loss(model, folder, asked) < 6


def test_both_start_from_the_same_weights_and_learn_as_much_from_as_many_tokens(
    versus, folder, asked
):
    asked.tokens = 12_000
    started = versus.held_out_loss(load_model(str(folder / "model")).model, folder, asked)
    ours, found = versus.train_ours(folder, asked)
    theirs, _ = versus.train_theirs(versus.OPPONENTS["default"], folder, asked)
    assert asked.tokens <= found["tokens"] < asked.tokens + 16 * 128
    losses = [versus.held_out_loss(model, folder, asked) for model in (ours, theirs)]
    assert max(losses) < started - 0.02
    assert losses[0] == pytest.approx(losses[1], abs=0.1)


@pytest.mark.parametrize("phase", [1, 2])
def test_both_train_the_same_parts(phase, versus, folder, asked):
    asked.phase = phase
    before = load_model(str(folder / "model")).model.state_dict()
    moved = []
    for model in (
        versus.train_ours(folder, asked)[0],
        versus.train_theirs(versus.OPPONENTS["default"], folder, asked)[0],
    ):
        after = model.state_dict()
        moved.append({name for name in before if not before[name].equal(after[name])})
    assert moved[0] == moved[1]
    body = {name for name in before if ".layer.1." in name}
    assert (body <= moved[0]) if phase == 2 else not (body & moved[0])
    assert "roberta.embeddings.word_embeddings.weight" in moved[0]


def test_the_table_has_ratios_within_pairs_and_says_where_the_gate_failed():
    table = load("shared", "research/benchmarks").table

    def arm(speed, loss):
        machine = dict.fromkeys(("cpu", "devices", "threads", "torch", "transformers", "lingraft"))
        return {"tokens_per_second": speed, "peak_memory_bytes": 1e9, "loss": loss,
                "precision": "fp32", "machine": machine}  # fmt: skip

    pairs = [(arm(30, 5.0), arm(10, 5.0)), (arm(40, 5.0), arm(10, 4.9)), (arm(50, 5), arm(10, 5))]
    text = table({"default": pairs}, {"default": "as it comes"}, 0.05)
    assert "3.00 – **4.00** – 5.00" in text
    assert "FAILED by 0.0500 nats" in text
    assert "| held |" in table({"default": pairs}, {"default": "as it comes"}, 0.2)
