"""The benchmark of the time to the Trainer's quality: tiny arms in this process."""

from __future__ import annotations

import json
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


def test_our_arm_goes_through_the_shares_until_it_is_good_enough(quality, asked, folder):
    (folder / "targets-0.json").write_text(json.dumps({"resize": 0.0, "random": 0.0}))
    curve = quality.ours(asked, folder, 0)["curve"]
    assert {one["share"] for one in curve} == {0.5, 1.0}
    for key in ("seconds", "cpu_seconds", "steps", "tokens"):
        values = [one[key] for one in curve]
        assert values == sorted(values)
    assert curve[-1]["tokens"] >= 1.5 * 3_000
    best = min(one["bits"] for one in curve)
    (folder / "targets-1.json").write_text(json.dumps({"resize": 1_000.0}))
    (only,) = quality.ours(asked, folder, 1)["curve"]
    assert only["share"] == 0.5
    assert only["tokens"] < 0.5 * 3_000
    assert best < 1_000


def test_the_table_says_ratios_misses_and_rates_at_the_edge(quality):
    theirs = {"rate": 1e-3, "bits": 4.0, "seconds": 100.0, "cpu_seconds": 90.0, "steps": 50}
    curve = [
        {"bits": 5.0, "seconds": 4.0, "cpu_seconds": 3.0, "steps": 2},
        {"bits": 3.9, "seconds": 10.0, "cpu_seconds": 9.0, "steps": 5},
    ]
    machine = dict.fromkeys(("cpu", "devices", "threads", "torch", "transformers", "lingraft"), "x")
    pair = {"ours": {"curve": curve, "machine": machine}}
    pair["theirs"] = {"resize": theirs, "random": theirs | {"bits": 3.0, "rate": 3e-4}}
    text = quality.table({"pairs": [pair, pair]}, [3e-4, 1e-3, 3e-3])
    resize, random = text.splitlines()[2:4]
    assert "2 of 2 reached" in resize
    assert "100.0 : 10.0" in resize
    assert resize.count("10.00 – **10.00** – 10.00") == 3
    assert "0 of 2 reached" in random
    assert random.count("not reached") == 3
    assert "random: its best rate is at the edge of the grid" in text
    assert "resize: its best" not in text
