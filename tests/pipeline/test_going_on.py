"""`lingraft adapt RUN --steps N`: a finished run gets a larger budget."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from plain_recipes import plain
from safetensors.torch import load_file
from stopping import killed_at

import lingraft
from lingraft.errors import RecipeError
from lingraft.pipeline import phases
from lingraft.recipe import Budget
from lingraft.recipe.decoding import override
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run, Step, read_json
from lingraft.training.checkpoint import stable_state
from lingraft.training.masked_text import train_phase

WSD = {"shape": "wsd", "warmup": 2, "decay": 0.25}


def phase(name, steps):
    return {"name": name, "budget": {"value": steps}, "batch": {"size": 8}, "schedule": WSD}


@pytest.fixture(scope="module")
def recipe(tiny_source, korean_text):
    def of(steps, *settings):
        tables = {
            "tokenizer": {"vocab_size": 300, "max_tokens": 64},
            "evaluation": {"max_sentences": 8, "max_words": 2, "samples": 0},
            "hardware": {"row_tokens": 64, "precision": "fp32"},
            "phases": [
                phase("phase-1", 4) | {"train": ["embeddings"]},
                phase("phase-2", steps) | {"train": ["all"]},
            ],
        }
        return override(plain(tiny_source("roberta"), korean_text, **tables), settings)

    return of


@pytest.fixture(scope="module")
def made(recipe, tmp_path_factory):
    """A finished run, to look at alone."""
    return lingraft.adapt(recipe(8), tmp_path_factory.mktemp("going-on") / "run").path


@pytest.fixture(scope="module")
def straight(recipe, tmp_path_factory):
    run = lingraft.adapt(recipe(16), tmp_path_factory.mktemp("straight") / "run")
    return load_file(run.model_path / "model.safetensors")


@pytest.fixture
def finished(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def assert_same_bits(run, expected):
    ours = load_file(run / "model/model.safetensors")
    assert [name for name in expected if not ours[name].equal(expected[name])] == []


def test_a_run_goes_on_to_what_a_longer_one_would_be(finished, straight, command):
    before = (finished / "phase-1/done.json").read_bytes()
    ended = command("adapt", finished, "--budget", "20steps").well()
    assert "goes on from before its cooldown, at step 6" in ended.err
    assert_same_bits(finished, straight)
    assert (finished / "phase-1/done.json").read_bytes() == before
    rows = [json.loads(line) for line in Run(finished).metrics_path.read_text().splitlines()]
    steps = [row["step"] for row in rows if (row["phase"], row["kind"]) == ("phase-2", "valid")]
    assert steps == sorted(set(steps))
    # and the same once more does nothing
    again = command("adapt", finished, "--budget", "20steps").well()
    assert "goes on" not in again.err
    assert (finished / "phase-2/stable/state.json").is_file()


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [(shutil, "rmtree", 1), (Step, "begin", 1), (phases, "clear_checkpoints", 1)],
)
def test_a_kill_while_it_begins_or_ends_changes_no_bit(owner, name, call, finished, straight):
    with killed_at(call, owner, name), pytest.raises(KeyboardInterrupt):
        lingraft.adapt(finished, budget="20steps")
    lingraft.adapt(finished, budget="20steps")
    assert_same_bits(finished, straight)


def test_a_recipe_with_another_budget_goes_on_too(finished, straight, recipe):
    lingraft.adapt(recipe(16), finished, update=True)
    assert_same_bits(finished, straight)


@pytest.mark.parametrize("streams", [1, 2])
def test_passes_before_the_cooldown_are_counted_in_parts(
    streams, tiny_model, tiny_job, accelerator
):
    budget = {"value": 1.5, "unit": "epochs"}
    job = tiny_job(phase=phase("phase-1", 1) | {"train": ["all"], "budget": budget})
    readings = tuple(replace(job.readings[0], stream=f"s{n}") for n in range(streams))
    job = replace(job, stable_fingerprint="these", readings=readings)
    train_phase(job, tiny_model("roberta"), accelerator)
    state = stable_state(job.folder)
    of_a_pass = 40 * streams / 8
    assert state["passes"] == state["step"] / of_a_pass > 1
    least = phases.least_budget(state, job.phase)
    assert least == pytest.approx(state["step"] / of_a_pass / 0.75)
    for budget, goes_on in ((least - 0.01, False), (least + 0.01, True)):
        other = job.phase.model_copy(update={"budget": Budget(value=budget, unit="epochs")})
        assert phases.goes_on(state, other, "these") is goes_on


def test_a_budget_that_no_recipe_may_have_is_refused_before_it_is_written(recipe, tmp_path):
    data = recipe(4)
    data["phases"] = data["phases"][1:]
    run = lingraft.adapt(data, tmp_path / "run")
    with pytest.raises(RecipeError, match=r"schedule\.warmup that is a share"):
        lingraft.adapt(run.path, budget="9m")
    assert read_recipe(run.recipe_path).phases[0].budget.unit == "steps"


def unfinished(run):
    shutil.rmtree(run / "phase-2")


def not_kept(run):
    shutil.rmtree(run / "phase-2/stable")


@pytest.mark.parametrize(
    ("spoil", "options", "said"),
    [
        (None, (), "give the budget that it may have in all"),
        (None, ("--budget", "11steps"), "give at least 12 steps"),
        (None, ("--budget", "3steps"), "its first phase had more"),
        (unfinished, ("--budget", "20steps"), "it is not finished"),
        (not_kept, ("--budget", "20steps"), "room on the disk"),
    ],
)
def test_what_cannot_be_gone_on_with_is_told_in_one_line(spoil, options, said, finished, command):
    if spoil:
        spoil(finished)
    ended = command("adapt", finished, *options)
    assert ended.status == 1
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert (finished / "model/done.json").is_file()


@pytest.mark.slow
def test_a_run_in_time_goes_on_with_what_it_has_had(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(phases, "exporting", lambda _: 0.2)
    data = recipe(8, "phases.0.schedule.warmup=0.1", "phases.1.schedule.warmup=0.1")
    for section in data["phases"]:
        section["budget"] = {"value": 0.05, "unit": "minutes"}
    lingraft.adapt(data, tmp_path / "run")
    before = Run(tmp_path / "run").stage("phase-2").result()["steps"]
    lingraft.adapt(tmp_path / "run", budget="0.15m")
    run = Run(tmp_path / "run")
    assert run.stage("phase-2").result()["steps"] > before
    record = read_json(run.choices_path)
    assert record["took"] == pytest.approx(record["seconds"], abs=2.0)
    assert record["seconds"] == pytest.approx(9.0)
    with pytest.raises(RecipeError, match="for so short a time"):
        lingraft.adapt(tmp_path / "run", budget="0.1m")
