"""A finished phase is gone on with from the beginning of its cooldown, to a straight run's bits."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest
from stopping import assert_same_bits, at_call, killed_at, of_training

from lingraft.training import checkpoint
from lingraft.training.data import Batcher
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import Stopped

WSD = {
    "schedule": {"shape": "wsd", "decay": 0.25, "warmup": 4},
    "optimizer": {"learning_rate": 0.01},
}


@pytest.fixture
def model(tiny_model):
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    return lambda: tiny_model("roberta", num_hidden_layers=2, **dropout)


@pytest.fixture
def job(tiny_job):
    """A phase of so many steps, whose cooldown may be kept."""

    def made(name, steps, unit="steps", **training):
        phase = WSD | {"budget": {"value": steps, "unit": unit}}
        plain = tiny_job(name, phase=phase, hardware=training)
        return replace(
            plain, fingerprint=f"{steps} {unit}", stable_fingerprint="but for its budget"
        )

    return made


@pytest.fixture
def train(model, accelerator):
    def trained(job):
        weights = model()
        result = train_phase(job, weights, accelerator)
        return weights.state_dict(), result

    return trained


@pytest.mark.parametrize(("unit", "a_step"), [("steps", 1), ("tokens", 120), ("epochs", 1 / 3)])
def test_a_phase_that_is_gone_on_with_is_the_straight_one(unit, a_step, job, train):
    expected, straight = train(job("straight", 40 * a_step, unit))
    short = job("short", 20 * a_step, unit)
    train(short)
    stable = checkpoint.stable_state(short.folder)
    if unit == "steps":
        assert stable["step"] == 15
    ours, result = train(job("short", 40 * a_step, unit))
    assert_same_bits(ours, expected)
    for key in ("steps", "tokens", "sentences", "masked", "last_loss", "stopped"):
        assert result[key] == straight[key], key
    assert checkpoint.stable_state(short.folder)["step"] > stable["step"]  # to go on again


def test_going_on_does_not_warm_up_again(job, train):
    def warmed(steps):
        made = job("warmed", steps)
        schedule = made.phase.schedule.model_copy(update={"warmup": 0.1})
        return replace(made, phase=made.phase.model_copy(update={"schedule": schedule}))

    train(warmed(10))
    longer = warmed(100)
    train(longer)  # from step 7 of ten that would warm up
    rows = [json.loads(line) for line in longer.metrics_path.read_text().splitlines()]
    rates = [row["learning_rate"] for row in rows if row["kind"] == "train"]
    assert set(rates[10:70]) == {0.01}


@pytest.mark.parametrize("number", [12, 16, 19])
def test_a_phase_killed_before_or_in_its_cooldown_comes_to_the_same_bits(number, job, train):
    expected, _ = train(job("straight", 20))
    killed = job("killed", 20, checkpoint_steps=6)
    with killed_at(number, Batcher, "step", of_training), pytest.raises(KeyboardInterrupt):
        train(killed)
    begins = {12: "checkpoint-00000006", 16: "checkpoint-00000012", 19: "checkpoint-00000018"}
    assert checkpoint.latest(killed.folder).name == begins[number]
    assert_same_bits(train(killed)[0], expected)
    assert checkpoint.stable_state(killed.folder)["step"] == 15


def test_what_was_kept_is_a_checkpoint_of_the_phase_itself(job, train):
    expected, _ = train(job("straight", 20))
    killed = job("killed", 20)
    with killed_at(18, Batcher, "step", of_training), pytest.raises(KeyboardInterrupt):
        train(killed)
    assert checkpoint.latest(killed.folder).name == "stable"
    assert_same_bits(train(killed)[0], expected)


@pytest.mark.parametrize("name", ["partial-stable", "partial-old"])
def test_a_kill_while_the_weights_before_the_cooldown_are_written_leaves_a_whole_phase(
    name, job, train, monkeypatch
):
    expected, _ = train(job("straight", 40))
    short = job("short", 20)
    train(short)
    inner = type(short.folder).replace

    def replaced(path, target):
        if name in (path.name, target.name):
            raise KeyboardInterrupt
        return inner(path, target)

    longer = job("short", 40)
    with monkeypatch.context() as patch:
        patch.setattr(type(short.folder), "replace", replaced)
        with pytest.raises(KeyboardInterrupt):
            train(longer)
    assert checkpoint.stable_state(longer.folder)["step"] == 15
    assert_same_bits(train(longer)[0], expected)
    assert not list(longer.folder.glob("partial-*"))


def test_a_phase_that_goes_on_may_be_stopped(job, train):
    expected, _ = train(job("straight", 40))
    train(job("short", 20))
    longer = job("short", 40)
    stop = at_call(5, Batcher, "step", lambda: signal.raise_signal(signal.SIGTERM), of_training)
    with stop, pytest.raises(Stopped, match="at step 20"):
        train(longer)
    assert_same_bits(train(longer)[0], expected)


def test_it_is_not_kept_where_the_disk_has_no_room(job, train, monkeypatch):
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0}))
    made = job("kept", 20)
    train(made)
    assert checkpoint.stable_state(made.folder) == {}
