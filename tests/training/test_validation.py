from dataclasses import replace

import numpy as np
import pytest

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.recipe import Masking
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.phase import WithObjective
from lingraft.training.validation import Validator


@pytest.fixture
def module(tiny_model):
    return WithObjective(PackedModel(tiny_model("roberta"), FAMILIES["roberta"]), OBJECTIVES["mlm"])


def validator(job, tokens=None):
    reading = replace(job.readings[0], valid=tokens or job.readings[0].valid)
    return Validator.of(reading, job.vocabulary, job.phase, job.hardware)


def test_the_loss_is_the_same_in_every_phase_and_for_every_batch(tiny_job, module, accelerator):
    first = validator(tiny_job()).losses(module, accelerator)["mlm"]
    changed = {"name": "phase-2", "batch": {"size": 3}, "optimizer": {"learning_rate": 0.5}}
    other = validator(tiny_job(phase=changed, seed=9)).losses(module, accelerator)["mlm"]
    assert first == other


def test_the_loss_does_not_depend_on_how_many_tokens_training_hides(tiny_job, module, accelerator):
    looks = [validator(tiny_job(phase={"masking": {"rate": rate}})) for rate in (0.15, 0.4)]
    losses = [look.losses(module, accelerator)["mlm"] for look in looks]
    assert losses[0] == losses[1]


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
