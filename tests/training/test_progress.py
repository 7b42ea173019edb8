"""A phase whose budget is time: by a clock of the test's own."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace

import pytest
from stopping import at_call, of_training

from lingraft.training.data import Batcher
from lingraft.training.loop import run_phase
from lingraft.training.masked_text import MaskedText
from lingraft.training.phase import Progress, State, StepCallback, Stopped
from lingraft.training.validation import HeldOut

LOOK = 3.0


class Clock(StepCallback):
    """Seconds that pass with each step, as the test says, and with each look."""

    def __init__(self, *steps):
        self.now, self.steps, self.taken = 1_000.0, steps, 0

    def __call__(self):
        return self.now

    def end(self, *_):
        self.now += self.steps[min(self.taken, len(self.steps) - 1)]
        self.taken += 1


@pytest.fixture
def timed(tiny_model, tiny_job, accelerator, monkeypatch):
    """Train for so many seconds; gives the job, the result, and the clock's seconds in all."""
    inner = HeldOut.losses

    def train(clock, allowed, name="job", **phase):
        def losses(*arguments):
            clock.now += LOOK
            return inner(*arguments)

        monkeypatch.setattr(HeldOut, "losses", losses)
        settings = {"budget": {"value": 1, "unit": "minutes"}, "schedule": {"warmup": 0.1}}
        told = []
        job = replace(
            tiny_job(name, phase=settings | phase),
            allow=lambda *look: told.append(look) or allowed,
            clock=clock,
        )
        model = tiny_model("roberta")
        began, problem = clock.now, MaskedText(job, model)
        result = run_phase(job, problem, accelerator, clock)
        return job, result | {"told": told}, clock.now - began

    return train


def rows(job, kind):
    found = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    return [row for row in found if row["kind"] == kind]


def test_a_budget_in_time_is_the_schedule(timed):
    job, result, took = timed(Clock(1.0), 100.0)
    ((took_look, tokens),) = result["told"]
    read = job.readings[0].valid.lengths.sum()
    assert (took_look, tokens) == (
        LOOK,
        read,
    )  # before the first step
    assert took == pytest.approx(LOOK + 100.0 + LOOK, abs=1.0)  # and the last one comes on top
    looks = [row["step"] for row in rows(job, "valid")]
    assert len(looks) == 11
    assert (looks[0], looks[-1]) == (0, result["steps"])
    rates = [row["learning_rate"] / 1e-4 for row in rows(job, "train")]
    assert rates[1] == pytest.approx(0.15)  # at 1.5 s of a warm-up of 10 s
    assert max(rates) == pytest.approx(1.0, abs=0.05)
    assert 0 < rates[-1] < 0.02
    assert rates[20:] == sorted(rates[20:], reverse=True)


def test_a_stopped_phase_goes_on_with_the_time_that_is_left(timed):
    def interrupt():
        signal.raise_signal(signal.SIGINT)

    with (
        at_call(30, Batcher, "step", interrupt, of_training),
        pytest.raises(Stopped, match="at step 30"),
    ):
        timed(Clock(1.0), 100.0)
    clock = Clock(1.0)
    _, result, took = timed(clock, math.nan)
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
