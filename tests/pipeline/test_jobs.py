"""How many tokens go through the model at once, on whichever machine."""

from __future__ import annotations

import pytest

from lingraft.pipeline import hardware, stages
from lingraft.pipeline.hardware import Machine
from lingraft.pipeline.jobs import prepared, training_here
from lingraft.pipeline.stages import Context
from lingraft.recipe.methods import read_recipe
from lingraft.recipe.phase import Batch
from lingraft.rundir import Run

GB = 10**9


@pytest.fixture
def run(adapted):
    return Run(adapted("roberta"))


@pytest.fixture
def on(monkeypatch):
    """Says that this machine has a GPU of so many bytes."""

    def gpu(size):
        monkeypatch.setattr(hardware, "this_machine", lambda: Machine(size, is_gpu=True))

    return gpu


def recipe_of(run, sentences, **training):
    recipe = read_recipe(run.recipe_path)
    batch = Batch(size=sentences, unit="sentences")
    phases = tuple(phase.model_copy(update={"batch": batch}) for phase in recipe.phases)
    training = recipe.training.model_copy(update=training)
    return recipe.model_copy(update={"phases": phases, "training": training})


def test_nothing_is_chosen_on_a_cpu(run):
    recipe = recipe_of(run, 4_096)
    assert recipe.training.micro_batch_tokens is None
    assert training_here(recipe, "phase-2") is recipe.training
    assert recipe.training.at_once == 4_096


def test_a_phase_on_a_gpu_has_as_many_tokens_at_once_as_suit_it(run, on):
    on(80 * GB)
    assert training_here(recipe_of(run, 4_096), "phase-2").at_once == 32_768
    assert training_here(recipe_of(run, 16), "phase-2").at_once == 4_096  # a step has no more
    asked = recipe_of(run, 4_096, micro_batch_tokens=512)
    assert training_here(asked, "phase-2") is asked.training
    on(GB)
    assert training_here(recipe_of(run, 4_096), "phase-2").at_once == 4_096


def test_a_phase_is_prepared_with_them(run, on):
    on(80 * GB)
    recipe = recipe_of(run, 4_096)
    context = Context(recipe, run, None)
    weights = stages.weights_before(context, 1)
    folder = run.stage("phase-2").path
    job, _ = prepared(context, recipe.phases[1], weights, folder, "fingerprint")
    assert job.training == recipe.training.model_copy(update={"micro_batch_tokens": 32_768})
