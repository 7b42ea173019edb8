"""A run that is stopped and goes on is the straight run, bit for bit, dropout and all. A finished
phase is gone on with from the beginning of its cooldown, to a straight run's bits."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
import torch
from phase_rows import DROPOUT, STILL, best_of, rows_of
from stopping import assert_same_bits, at_call, killed_at, of_training

from lingraft.training import beside, checkpoint
from lingraft.training.data import Batcher
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import Stopped

# 40 sentences are three batches of 16 at most: ten steps cross three ends of an epoch.
SETTINGS = {
    "budget": {"value": 10},
    "optimizer": {"learning_rate": 0.01},
    "validation": {"every_steps": 4},
}
NEW = tuple(i % 7 == 3 for i in range(320))
LORA = {"parts": ["body"], "rank": 2, "dropout": 0.1}
KINDS = {
    "all": {"train": ["all"]},
    "frozen": {"train": ["embeddings", "output_bias", "inserted"]},
    "rows": {"train": ["embeddings.new", "output_bias.new", "layers[-1]"], "lora": LORA},
}


@pytest.fixture
def job(tiny_job):
    """A phase of ten steps that trains one of `KINDS`."""

    def made(name, kind="all", **training):
        layers = {"itl_layers": frozenset({0, 2}), "new_rows": NEW}
        return tiny_job(name, phase=SETTINGS | KINDS[kind], hardware=training, **layers)

    return made


@pytest.fixture
def wsd_job(tiny_job):
    """A phase of so many steps, whose cooldown may be kept."""

    def made(name, steps, unit="steps", warmup=4, **training):
        phase = {"budget": {"value": steps, "unit": unit}, "optimizer": {"learning_rate": 0.01}}
        phase |= {"schedule": {"shape": "wsd", "decay": 0.25, "warmup": warmup}}
        marks = {"fingerprint": f"{steps} {unit}", "stable_fingerprint": "but for its budget"}
        return tiny_job(name, phase=phase, hardware=training, **marks)

    return made


@pytest.fixture
def train(tiny_model, accelerator):
    """Trains a fresh model, with dropout: its weights in the end, and the result."""

    def trained(job, dropout=DROPOUT):
        model = tiny_model("roberta", num_hidden_layers=3 if job.itl_layers else 2, **dropout)
        result = train_phase(job, model, accelerator)
        return model.state_dict(), result

    return trained


@pytest.fixture(params=["in turn", "beside"])
def order(request, monkeypatch):
    """Batches and checkpoints are made in turn with training, and beside it as with a GPU."""
    monkeypatch.setattr(beside, "has_time", lambda _: request.param == "beside")


def by_step(job):
    """Facts of every row; those that a killed run wrote twice must be the same."""
    found = {}
    for row in rows_of(job):
        facts = {key: row.get(key) for key in ("tokens", "loss", "learning_rate", "gradient_norm")}
        assert found.setdefault((row["step"], row["kind"]), facts) == facts
    return found


def killed(job, number, train):
    """Kill a phase as it begins a step; the name of the checkpoint that is left."""
    with killed_at(number, Batcher, "step", of_training), pytest.raises(KeyboardInterrupt):
        train(job)
    return checkpoint.latest(job.folder).name


def stopped(job, number, train, wish, step):
    """Stop a phase by a signal as it begins a step."""
    signalled = at_call(number, Batcher, "step", lambda: signal.raise_signal(wish), of_training)
    refused = pytest.raises(Stopped, match=f"stopped by {wish.name} at step {step} of phase")
    with signalled, refused:
        train(job)


@pytest.mark.parametrize(
    ("number", "kind"),
    [*((1, "all"), (6, "all")), *((1, "frozen"), (4, "frozen")), *((4, "rows"), (10, "rows"))],
)
def test_a_run_stopped_by_a_signal_goes_on_to_the_same_bits(number, kind, job, train):
    straight, again = job("straight", kind), job("stopped", kind)
    expected, whole = train(straight)
    stopped(again, number, train, signal.SIGINT, number)
    ours, result = train(again)
    assert_same_bits(ours, expected)
    assert by_step(again) == by_step(straight)
    timed = dict.fromkeys(("seconds", "tokens_per_second"))
    assert result | timed == whole | timed


@pytest.mark.parametrize("number", [5, 8])
def test_a_run_killed_between_checkpoints_goes_on_to_the_same_bits(number, job, train, order):
    straight, broken = job("straight"), job("killed", checkpoint_steps=3)
    expected, _ = train(straight)
    assert killed(broken, number, train) == f"checkpoint-{(number - 1) // 3 * 3:08d}"
    assert_same_bits(train(broken)[0], expected)
    assert by_step(broken) == by_step(straight)
    assert_same_bits(best_of(broken), best_of(straight))


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_from_the_one_before(
    job, train, monkeypatch, order
):
    expected, _ = train(job("straight"))
    broken, original = job("killed", checkpoint_steps=3), checkpoint.write_json

    def write(path, data):
        if path.parent.name == "partial-00000006":
            path.write_text("{")
            raise KeyboardInterrupt
        original(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_json", write)
        with pytest.raises(KeyboardInterrupt):
            train(broken)
    assert checkpoint.latest(broken.folder).name == "checkpoint-00000003"
    assert_same_bits(train(broken)[0], expected)
    assert not list(broken.folder.glob("partial-*"))


def test_dropout_is_on_and_drawn_anew_every_step_and_the_seed_of_the_run_decides_it(job, train):
    jobs = [job("with"), replace(job("again"), seed=0), replace(job("other"), seed=1)]
    first, again, other = (train(one)[0]["lm_head.dense.weight"] for one in jobs)
    without = train(job("without"), STILL)[0]["lm_head.dense.weight"]
    assert not torch.allclose(first, without, atol=1e-4)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("unit", "a_step"), [("steps", 1), ("tokens", 120), ("epochs", 1 / 3)])
def test_a_phase_that_is_gone_on_with_is_the_straight_one(unit, a_step, wsd_job, train):
    expected, straight = train(wsd_job("straight", 40 * a_step, unit))
    short = wsd_job("short", 20 * a_step, unit)
    train(short)
    stable = checkpoint.stable_state(short.folder)
    if unit == "steps":
        assert stable["step"] == 15
    ours, result = train(wsd_job("short", 40 * a_step, unit))
    assert_same_bits(ours, expected)
    for key in ("steps", "tokens", "sentences", "masked", "last_loss", "stopped"):
        assert result[key] == straight[key], key
    assert checkpoint.stable_state(short.folder)["step"] > stable["step"]  # to go on again


def test_going_on_does_not_warm_up_again(wsd_job, train):
    train(wsd_job("warmed", 10, warmup=0.1))
    longer = wsd_job("warmed", 100, warmup=0.1)
    train(longer)  # from step 7 of ten that would warm up
    rates = [row["learning_rate"] for row in rows_of(longer, "train")]
    assert set(rates[10:70]) == {0.01}


@pytest.mark.parametrize(
    ("number", "every", "begins"),
    [
        (12, 6, "checkpoint-00000006"),
        (16, 6, "checkpoint-00000012"),
        (19, 6, "checkpoint-00000018"),
        (18, None, "stable"),  # what was kept is a checkpoint of the phase itself
    ],
)
def test_a_phase_killed_before_or_in_its_cooldown_comes_to_the_same_bits(
    number, every, begins, wsd_job, train
):
    expected, _ = train(wsd_job("straight", 20))
    broken = wsd_job("killed", 20, checkpoint_steps=every)
    assert killed(broken, number, train) == begins
    assert_same_bits(train(broken)[0], expected)
    assert checkpoint.stable_state(broken.folder)["step"] == 15


@pytest.mark.parametrize("name", ["partial-stable", "partial-old"])
def test_a_kill_while_the_weights_before_the_cooldown_are_written_leaves_a_whole_phase(
    name, wsd_job, train, monkeypatch
):
    expected, _ = train(wsd_job("straight", 40))
    short = wsd_job("short", 20)
    train(short)
    inner = type(short.folder).replace

    def replaced(path, target):
        if name in (path.name, target.name):
            raise KeyboardInterrupt
        return inner(path, target)

    longer = wsd_job("short", 40)
    with monkeypatch.context() as patch:
        patch.setattr(type(short.folder), "replace", replaced)
        with pytest.raises(KeyboardInterrupt):
            train(longer)
    assert checkpoint.stable_state(longer.folder)["step"] == 15
    assert_same_bits(train(longer)[0], expected)
    assert not list(longer.folder.glob("partial-*"))


def test_a_phase_that_goes_on_may_be_stopped(wsd_job, train):
    expected, _ = train(wsd_job("straight", 40))
    train(wsd_job("short", 20))
    longer = wsd_job("short", 40)
    stopped(longer, 5, train, signal.SIGTERM, 20)
    assert_same_bits(train(longer)[0], expected)


def test_it_is_not_kept_where_the_disk_has_no_room(wsd_job, train, monkeypatch):
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0}))
    train(made := wsd_job("kept", 20))
    assert checkpoint.stable_state(made.folder) == {}
