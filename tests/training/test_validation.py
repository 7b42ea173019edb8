from dataclasses import replace

import numpy as np
import pytest
import torch

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.objectives import OBJECTIVES
from lingraft.objectives.common import LossSum
from lingraft.recipe import Masking
from lingraft.training.phase import WithObjective
from lingraft.training.validation import HeldOut, Validator


@pytest.fixture
def module(tiny_model):
    return WithObjective(PackedModel(tiny_model("roberta"), FAMILIES["roberta"]), OBJECTIVES["mlm"])


def validator(job, tokens=None):
    return Validator.of(
        tokens or job.readings[0].valid, OBJECTIVES["mlm"], job.vocabulary, job.phase, job.hardware
    )


def test_the_loss_is_the_same_in_every_phase_and_for_every_batch(tiny_job, module, accelerator):
    first = validator(tiny_job()).losses(module, accelerator)["mlm"]
    changed = {"name": "phase-2", "batch": {"size": 3}, "optimizer": {"learning_rate": 0.5}}
    other = validator(tiny_job(phase=changed, seed=9)).losses(module, accelerator)["mlm"]
    assert first == other


def test_the_loss_does_not_depend_on_how_rows_are_cut_into_micro_batches(
    tiny_job, module, accelerator
):
    whole = validator(tiny_job()).losses(module, accelerator)["mlm"]
    cut = validator(tiny_job(hardware={"row_tokens": 64, "micro_batch_tokens": 64}))
    assert cut.losses(module, accelerator)["mlm"] == pytest.approx(whole, rel=1e-6)


def look_of(job):
    held_out = HeldOut.of(job.readings, job.vocabulary, job.phase, job.hardware)
    ((look,),) = held_out.validators.values()
    return look


def test_the_loss_does_not_depend_on_how_many_tokens_training_hides(tiny_job, module, accelerator):
    looks = [look_of(tiny_job(phase={"masking": {"rate": rate}})) for rate in (0.15, 0.4)]
    losses = [look.losses(module, accelerator)["mlm"] for look in looks]
    assert losses[0] == losses[1]


def test_what_an_entry_of_the_data_hides_itself_is_hidden_in_validation_too(tiny_job):
    job = tiny_job()
    own = replace(job.readings[0], masking=Masking(rate=0.5))
    assert look_of(replace(job, readings=(own,))).batcher.masking.rate == 0.5


def test_looking_twice_gives_the_same_loss_with_dropout_configured(tiny_job, module, accelerator):
    looks = [validator(tiny_job()).losses(module.train(), accelerator) for _ in range(2)]
    assert looks[0] == looks[1]
    assert not module.training


def test_the_loss_is_the_mean_over_all_predicted_tokens(tiny_job, module, accelerator, tiny_tokens):
    tokens = tiny_tokens(600, 3, 8)
    look = validator(tiny_job(), tokens)
    step = look.batcher.step(np.arange(600), 0)
    module.eval()
    nats = sum(float(module(batch)["mlm"].nats.detach()) for batch in step.micro_batches)
    expected = nats / step.global_targets
    assert look.losses(module, accelerator)["mlm"] == pytest.approx(expected, rel=1e-6)


def test_a_limited_look_takes_sentences_from_the_whole_text(tiny_job, tiny_tokens, monkeypatch):
    look = validator(tiny_job(phase={"validation": {"max_sentences": 5}}), tiny_tokens(101))
    assert look.sentences == 5
    seen = []
    original = type(look.batcher).step

    def spy(self, indices, *rest):
        seen.extend(indices.tolist())
        return original(self, indices, *rest)

    monkeypatch.setattr(type(look.batcher), "step", spy)

    class Nothing:
        device, process_index, num_processes = torch.device("cpu"), 0, 1

        def reduce(self, value, reduction):
            return value

    class Zero(torch.nn.Module):
        def forward(self, batch):
            return {"mlm": LossSum(batch.targets_M.sum() * 0, len(batch.targets_M))}

    assert look.losses(Zero(), Nothing()) == {"mlm": 0.0}
    assert seen == [0, 25, 50, 75, 100]
