"""The loop: what it trains, logs, keeps and looks at; budgets in time, by a clock of the test's
own."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from phase_rows import rows_of
from stopping import assert_same_bits, at_call, of_training
from transformers import AutoModelForMaskedLM

from lingraft.errors import TrainingError
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.recipe import Masking
from lingraft.training import checkpoint
from lingraft.training.data import Batcher
from lingraft.training.loop import run_phase
from lingraft.training.masked_text import HeldOut, MaskedText, Validator, train_phase
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import Progress, State, StepCallback, Stopped, WithObjective

STEADY = {"shape": "constant", "warmup": 0}


def copy_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def best(job):
    return AutoModelForMaskedLM.from_pretrained(job.folder / "best").state_dict()


def test_a_batch_without_a_token_to_predict_costs_nothing(
    tiny_model, tiny_job, tiny_tokens, accelerator
):
    """Sentences of special tokens alone, as a text of unknown characters gives them."""
    settings = {"budget": {"value": 2}, "optimizer": {"weight_decay": 0.0}}
    model = tiny_model("roberta")
    before = copy_of(model)
    job = tiny_job(phase=settings, train=tiny_tokens(8, 2, 2))
    result = train_phase(job, model, accelerator)
    assert (result["steps"], result["masked"]) == (2, 0)
    assert [row["loss"] for row in rows_of(job, "train")] == [0.0, 0.0]
    assert all(torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items())


def test_a_budget_in_tokens_ends_with_the_step_that_reaches_it(tiny_model, tiny_job, accelerator):
    job = tiny_job(phase={"budget": {"value": 700, "unit": "tokens"}})
    result = train_phase(job, tiny_model("roberta"), accelerator)
    counts = [row["tokens"] for row in rows_of(job, "train")]
    assert counts[-2] < 700 <= counts[-1] == result["tokens"]


def test_the_rate_is_that_of_the_middle_of_each_step(tiny_model, tiny_job, accelerator):
    settings = {
        "budget": {"value": 10},
        "optimizer": {"learning_rate": 0.01},
        "schedule": {"warmup": 2},
    }
    job = tiny_job(phase=settings)
    train_phase(job, tiny_model("roberta"), accelerator)
    rising, falling = [0.25, 0.75], [(10 - i - 0.5) / 8 for i in range(2, 10)]
    assert [row["learning_rate"] for row in rows_of(job, "train")] == pytest.approx(
        [0.01 * factor for factor in rising + falling]
    )


def test_the_metrics_file_holds_a_row_for_each_logged_step_and_look(
    tiny_model, tiny_job, accelerator
):
    phase = {"budget": {"value": 10}, "validation": {"every_steps": 4}}
    job = tiny_job(phase=phase, hardware={"log_steps": 3})
    result = train_phase(job, tiny_model("roberta"), accelerator)
    assert [row["step"] for row in rows_of(job, "train")] == [1, 3, 6, 9]
    assert [row["step"] for row in rows_of(job, "valid")] == [4, 8, 10]
    for row in rows_of(job, "train"):
        assert row["phase"] == "phase-1"
        assert math.isfinite(row["loss"] + row["gradient_norm"] + row["tokens_per_second"])
    assert set(rows_of(job, "valid")[0]) == {"kind", "phase", "step", "tokens", "loss"}
    assert rows_of(job, "valid")[-1]["tokens"] == result["tokens"]


def test_patience_ends_a_phase_and_the_best_weights_are_kept(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    settings = {"schedule": STEADY, "optimizer": {"learning_rate": 0.01}}
    short = tiny_job("short", phase=settings | {"budget": {"value": 2}})
    train_phase(short, tiny_model("roberta"), accelerator)
    coming = iter((3.0, 2.0, 2.5, 2.4, 9.0))
    monkeypatch.setattr(Validator, "losses", lambda *_: {"mlm": next(coming)})
    watch = {"every_steps": 1, "patience": 2}
    long = tiny_job("long", phase=settings | {"budget": {"value": 9}, "validation": watch})
    result = train_phase(long, tiny_model("roberta"), accelerator)
    assert (result["stopped"], result["steps"]) == ("patience", 4)
    assert result["best"] == {"step": 2, "loss": 2.0}
    assert_same_bits(best(long), best(short))


def test_the_best_weights_are_saved_with_the_dropout_of_the_source(
    tiny_model, tiny_job, accelerator
):
    model = tiny_model("roberta", hidden_dropout_prob=0.0)
    job = tiny_job(kept_config={"hidden_dropout_prob": 0.1})
    train_phase(job, model, accelerator)
    saved = json.loads((job.folder / "best" / "config.json").read_text())
    assert saved["hidden_dropout_prob"] == 0.1
    assert model.config.hidden_dropout_prob == 0.0
    assert sorted(p.name for p in job.folder.iterdir()) == ["best", "metrics.jsonl"]


@pytest.mark.parametrize(
    ("bad", "log_steps", "every", "said"),
    [(5, 1, 2, "loss nan, gradient norm nan"), (4, 10, 1, "weights that are not finite")],
    ids=["every step is logged", "few steps are logged"],
)
def test_a_loss_that_is_not_a_number_stops_the_run_with_step_and_a_good_checkpoint(
    bad, log_steps, every, said, tiny_model, tiny_job, accelerator, monkeypatch
):
    objective, calls = OBJECTIVES["mlm"], []

    def loss(packed, batch):
        calls.append(1)
        found = objective.loss(packed, batch)["mlm"]
        nats = found.nats * (math.nan if len(calls) >= bad else 1.0)
        return {"mlm": found._replace(nats=nats)}

    monkeypatch.setitem(OBJECTIVES, "mlm", replace(objective, loss=loss))
    phase = {"budget": {"value": 20}, "validation": {"every_steps": 100}}
    job = tiny_job(phase=phase, hardware={"checkpoint_steps": every, "log_steps": log_steps})
    with pytest.raises(TrainingError) as caught:
        train_phase(job, tiny_model("roberta"), accelerator)
    path = job.folder / f"checkpoint-{(bad - 1) // every * every:08d}"
    message = str(caught.value)
    assert message.startswith(f"phase 'phase-1': {said} at step {bad}; ")
    assert f"the last good checkpoint is {path};" in message
    assert "\n" not in message
    assert checkpoint.latest(job.folder) == path
    kept = checkpoint.load_file(path / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in kept.values())


LOOK = 3.0


class Clock(StepCallback):
    """A second passes with each step, and `LOOK` with each look."""

    now = 1_000.0

    def __call__(self):
        return self.now

    def end(self, *_):
        self.now += 1.0


@pytest.fixture
def timed(tiny_model, tiny_job, accelerator, monkeypatch):
    """Train for so many seconds; gives the job, the result, and the clock's seconds in all."""
    inner = HeldOut.losses

    def train(allowed):
        clock, told = Clock(), []

        def losses(*arguments):
            clock.now += LOOK
            return inner(*arguments)

        monkeypatch.setattr(HeldOut, "losses", losses)
        settings = {"budget": {"value": 1, "unit": "minutes"}, "schedule": {"warmup": 0.1}}
        allow = lambda *look: told.append(look) or allowed  # noqa: E731
        job = replace(tiny_job(phase=settings), allow=allow, clock=clock)
        model = tiny_model("roberta")
        began, problem = clock.now, MaskedText(job, model)
        result = run_phase(job, problem, accelerator, clock)
        return job, result | {"told": told}, clock.now - began

    return train


def test_a_budget_in_time_is_the_schedule(timed):
    job, result, took = timed(100.0)
    assert result["told"] == [(LOOK, job.readings[0].valid.lengths.sum())]  # before the first step
    assert took == pytest.approx(LOOK + 100.0 + LOOK, abs=1.0)  # and the last one comes on top
    looks = [row["step"] for row in rows_of(job, "valid")]
    assert len(looks) == 11
    assert (looks[0], looks[-1]) == (0, result["steps"])
    rates = [row["learning_rate"] / 1e-4 for row in rows_of(job, "train")]
    assert rates[1] == pytest.approx(0.15)  # at 1.5 s of a warm-up of 10 s
    assert max(rates) == pytest.approx(1.0, abs=0.05)
    assert 0 < rates[-1] < 0.02
    assert rates[20:] == sorted(rates[20:], reverse=True)


def test_a_stopped_phase_goes_on_with_the_time_that_is_left(timed):
    stop = at_call(30, Batcher, "step", lambda: signal.raise_signal(signal.SIGINT), of_training)
    with stop, pytest.raises(Stopped, match="at step 30"):
        timed(100.0)
    _, result, took = timed(math.nan)
    assert result["told"] == []
    used = 30 + 3 * LOOK  # steps and looks before the signal
    assert took == pytest.approx(100 - used + LOOK, abs=3.0)


def test_the_clock_puts_right_what_a_step_was_taken_to_last(tiny_job):
    progress = Progress(tiny_job(phase={"budget": {"value": 1, "unit": "hours"}}).phase, math.nan)
    state = State("", allowed=200.0)
    progress.begin(state, goes_on=False)
    assert progress.middle(state, 0) == 0.005  # of a first step that takes a hundredth
    for passed in (10.0, 20.0, 60.0):  # the last one with a look
        progress.set_clock(state, state.passed, passed)
    assert (state.step_seconds, progress.share(state)) == (10.0, 0.3)
    state.passed = 194.0
    assert not progress.ended(state)
    state.passed = 196.0  # half a step would end behind the end
    assert progress.ended(state)


@pytest.fixture
def module(tiny_model):
    return WithObjective(PackedModel(tiny_model("roberta"), FAMILIES["roberta"]), OBJECTIVES["mlm"])


def validator(job, tokens=None):
    reading = replace(job.readings[0], valid=tokens or job.readings[0].valid)
    return Validator.of(reading, job.vocabulary, job.phase, job.hardware)


def test_the_loss_is_the_same_in_every_phase_for_every_batch_and_however_much_training_hides(
    tiny_job, module, accelerator
):
    changed = {"name": "phase-2", "batch": {"size": 3}, "optimizer": {"learning_rate": 0.5}}
    jobs = [tiny_job(), tiny_job(phase=changed, seed=9), tiny_job(phase={"masking": {"rate": 0.4}})]
    losses = [validator(job).losses(module, accelerator)["mlm"] for job in jobs]
    assert len(set(losses)) == 1


def test_what_an_entry_of_the_data_hides_itself_is_hidden_in_validation_too(tiny_job):
    job = tiny_job()
    own = replace(job.readings[0], masking=Masking(rate=0.5))
    assert validator(replace(job, readings=(own,))).batcher.masking.rate == 0.5


def test_the_loss_is_the_mean_over_all_predicted_tokens(tiny_job, module, accelerator, tiny_tokens):
    tokens = tiny_tokens(600, 3, 8)
    look = validator(tiny_job(), tokens)
    step = look.batcher.step(np.arange(600), 0)
    module.eval()
    nats = sum(float(module(batch)["mlm"].nats.detach()) for batch in step.micro_batches)
    expected = nats / step.global_targets
    assert look.losses(module, accelerator)["mlm"] == pytest.approx(expected, rel=1e-6)
