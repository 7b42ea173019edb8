"""An objective with two terms: each is divided by its own count, however a batch is cut."""

import json

import pytest
import torch
from processes import train_together
from safetensors.torch import load_file
from two_terms import TWO_TERMS

from lingraft.models.packed import PackedModel
from lingraft.training.checkpoint import weights
from lingraft.training.data import Batcher, BatchPlan
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives import OBJECTIVES

# As in test_batching: from such a first step the gradient can be read.
PHASE = {
    "budget": {"value": 1},
    "optimizer": {"learning_rate": 1.0, "epsilon": 1.0, "weight_decay": 0.0},
    "schedule": {"shape": "constant", "warmup": 0},
}
WIDE, NARROW = {"row_tokens": 64}, {"micro_batch_tokens": 16}


@pytest.fixture
def model(tiny_model):
    return lambda: tiny_model("roberta", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture
def train(tiny_job, model, accelerator, monkeypatch):
    """Trains one step; final weights and rows."""
    monkeypatch.setitem(OBJECTIVES, "mlm", TWO_TERMS)

    def run(name, **training):
        job, started = tiny_job(name, phase=PHASE, hardware=training), model()
        train_phase(job, started, accelerator)
        return weights(started), rows(job)

    return run


def rows(job):
    return [json.loads(line) for line in job.metrics_path.read_text().splitlines()]


def assert_same(ours, theirs):
    for row, other in zip(ours[1], theirs[1], strict=True):
        for column in ("loss", "loss/all", "loss/small"):
            assert row[column] == pytest.approx(other[column], rel=1e-6)
        assert row["loss"] == pytest.approx(row["loss/all"] + row["loss/small"], rel=1e-9)
    for name, tensor in theirs[0].items():
        torch.testing.assert_close(ours[0][name], tensor, atol=2e-6, rtol=1e-4, msg=name)


def test_the_gradient_is_that_of_the_sum_of_the_terms_means(train, tiny_job, model):
    after, (row, _) = train("whole", **WIDE)
    job, again = tiny_job("again", phase=PHASE), model()
    before = weights(again)
    indices = BatchPlan(job.readings[0].train.lengths, job.phase.batch, 0, "phase-1").epoch(0)[0]
    batcher = Batcher(
        job.readings[0].train, TWO_TERMS, job.vocabulary, job.phase.masking, 64, 4_096, 0, "phase-1"
    )
    step = batcher.step(indices, 0)
    (batch,) = step.micro_batches
    assert step.targets["all"] > 2 * step.targets["small"] > 0
    losses = TWO_TERMS.loss(PackedModel(again, job.family), batch)
    means = {term: loss.nats / step.targets[term] for term, loss in losses.items()}
    sum(means.values()).backward()
    assert {term: row[f"loss/{term}"] for term in means} == pytest.approx(
        {term: float(mean.detach()) for term, mean in means.items()}, rel=1e-6
    )
    for name, parameter in again.named_parameters():
        move = before[name] - after[name]
        gradient = move / (1 - move.abs())
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-5, rtol=1e-3, msg=name)


def test_micro_batches_give_each_term_as_the_big_batch_does(train):
    assert_same(train("cut", **NARROW), train("whole", **WIDE))


@pytest.mark.slow
def test_two_processes_give_each_term_as_one_does(train, tiny_job, model, tmp_path):
    job = tiny_job("two", phase=PHASE, hardware=NARROW)
    train_together(tmp_path, model(), [job], setup="two_terms")
    ours = [load_file(job.folder / f"rank-{rank}.safetensors") for rank in (0, 1)]
    assert all(torch.equal(tensor, ours[1][name]) for name, tensor in ours[0].items())
    assert_same((ours[0], rows(job)), train("whole", **WIDE))
