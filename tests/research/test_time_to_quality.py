"""The benchmark of the time to the Trainer's quality: tiny arms in this process."""

from __future__ import annotations

import math

import pytest
import torch
from script_modules import load
from transformers import AutoModelForMaskedLM

from lingraft.rundir import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def quality():
    return load("time_to_quality", "research/benchmarks")


@pytest.fixture(scope="module")
def asked(quality, tiny_source, korean_text):
    words = ["--source", str(tiny_source("roberta")), "--text", str(korean_text), "--lang", "ko"]
    words += ["--tokens", "3k", "--vocab-size", "300", "--words", "10", "--looks", "4"]
    return quality.options([*words, "--rates", "1e-3", "--batch", "8", "--shares", "0.5", "1"])


@pytest.fixture(scope="module")
def folder(quality, asked, tmp_path_factory):
    """Text, split and vocabulary of all arms."""
    place = tmp_path_factory.mktemp("arms")
    quality.prepare(asked, place)
    return place


class Score:
    """Says one figure after another."""

    def __init__(self, *values):
        self.values = list(values)

    def __call__(self):
        return self.values.pop(0)


class Step:
    global_tokens = 10


def test_our_arm_is_scored_with_the_clock_stopped_and_ends_at_the_target(quality, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(quality.time, "perf_counter", lambda: seconds[0])
    monkeypatch.setattr(quality.time, "process_time", lambda: seconds[0] / 2)
    scores = Score(5.0, 3.9, 1.0)

    def score():
        seconds[0] += 100
        return scores()

    clock = quality.Clock()
    watch = quality.Reaching(clock, score, 4.0, 20)

    def train():
        for _ in range(9):
            watch.begin()
            seconds[0] += 1
            watch.end(None, Step)

    with pytest.raises(quality.Reached):
        train()
    found = [(one["bits"], one["seconds"], one["cpu_seconds"], one["steps"]) for one in watch.curve]
    assert found == [(5.0, 2.0, 1.0, 2), (3.9, 4.0, 2.0, 4)]


@pytest.mark.parametrize("name", ["resize", "random"])
def test_a_set_up_has_the_new_vocabulary_and_keeps_the_old_rows_or_none(name, quality, asked):
    source = AutoModelForMaskedLM.from_pretrained(asked.source)
    model = AutoModelForMaskedLM.from_pretrained(asked.source)
    size = source.config.vocab_size
    quality.SETUPS[name](model, size + 50)
    rows = model.get_input_embeddings().weight
    assert rows.shape[0] == model.config.vocab_size == size + 50
    old = source.get_input_embeddings().weight
    assert torch.equal(rows[:size], old) == (name == "resize")
    if name == "random":
        assert rows.detach().std() == pytest.approx(model.config.initializer_range, rel=0.1)
        assert not model.get_output_embeddings().bias.any()
    assert model.get_output_embeddings().weight is rows


def test_the_trainer_trains_its_whole_budget_and_learns(quality, asked, folder):
    found = quality.theirs(asked, folder, "random", 1e-3, 0)
    lengths = quality.Tokens.open(Run(folder).stage("tokenizer").path, "train").lengths
    assert found["steps"] == math.ceil(3_000 / (lengths.mean() * 8))
    assert found["seconds"] > 0
    untrained = AutoModelForMaskedLM.from_pretrained(asked.source)
    quality.SETUPS["random"](untrained, 300)
    assert found["bits"] < quality.bits(Run(folder), asked, "test", untrained)
