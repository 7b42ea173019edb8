"""A batch of 16 is a batch of 16, however it is cut: whole, in four micro-batches, or over two
processes; also where the last batch of an epoch holds a single sentence."""

import json

import pytest
import torch
from processes import train_together
from safetensors.torch import load_file

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel
from lingraft.tokenizer.documents import Documents
from lingraft.training.checkpoint import weights
from lingraft.training.data import Batcher, BatchPlan
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives import OBJECTIVES

# With epsilon 1, learning rate 1 and no decay AdamW's first step is g / (|g| + 1), smooth in the
# gradient g, so that g can be read from the weights; at the usual 1e-6 it would be its sign.
FIRST_STEP = {
    "budget": {"value": 1},
    "optimizer": {"learning_rate": 1.0, "epsilon": 1.0, "weight_decay": 0.0},
    "schedule": {"shape": "constant", "warmup": 0},
}
EPOCH = {
    "budget": {"value": 1, "unit": "epochs"},
    "optimizer": {"learning_rate": 0.05, "epsilon": 1.0},
}


@pytest.fixture(params=["mlm", "clm"])
def objective(request):
    """Masked words of sentences, or every token of documents."""
    return request.param


@pytest.fixture
def jobs(tiny_job, tiny_tokens, objective):
    """The two jobs of this file, under a name and with settings of [hardware] to change.

    33 sentences, or documents of one piece, are batches of 16, 16 and 1.
    """
    data = {"train": tiny_tokens(33)}
    if objective == "clm":
        texts = {"train": tiny_tokens(33), "valid": tiny_tokens(20, seed=1)}
        data = {name: Documents.of(tokens, 16) for name, tokens in texts.items()}
        data |= {"family": FAMILIES["llama"]}

    def made(name, **training):
        return [
            tiny_job(
                f"{name}-{what}", phase=phase | {"objective": objective}, hardware=training, **data
            )
            for what, phase in (("first-step", FIRST_STEP), ("epoch", EPOCH))
        ]

    return made


@pytest.fixture
def model(tiny_model, objective):
    """Builds the model, without dropout: its draws depend on how a batch is cut."""
    if objective == "clm":
        return lambda: tiny_model("llama")
    return lambda: tiny_model("roberta", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture
def whole(jobs, model, accelerator):
    """Final weights and rows of both jobs, in one process and one micro-batch a step."""
    return [run(job, model(), accelerator) for job in jobs("whole")]


def run(job, started, accelerator):
    train_phase(job, started, accelerator)
    return weights(started), rows(job)


def rows(job):
    return [json.loads(line) for line in job.metrics_path.read_text().splitlines()]


def gradients(before, after):
    """The gradient that AdamW's first step was made from."""
    moves = {name: before[name] - tensor for name, tensor in after.items()}
    return {name: move / (1 - move.abs()) for name, move in moves.items()}


def assert_same(ours, expected, before):
    for (weights_a, rows_a), (weights_b, rows_b) in zip(ours, expected, strict=True):
        assert [row["step"] for row in rows_a] == [row["step"] for row in rows_b]
        for row, other in zip(rows_a, rows_b, strict=True):
            assert row["tokens"] == other["tokens"]
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-6)
            if row["kind"] == "train":
                assert row["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)
        for name, tensor in weights_a.items():
            torch.testing.assert_close(tensor, weights_b[name], atol=2e-6, rtol=1e-4, msg=name)
    found, wanted = (gradients(before, runs[0][0]) for runs in (ours, expected))
    largest = max(float(gradient.abs().max()) for gradient in wanted.values())
    assert largest > 0.05
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], atol=1e-5, rtol=1e-3, msg=name)


def test_the_reference_takes_one_epoch_of_16_16_and_1(whole):
    (_, first), (_, epoch) = whole
    assert [row["step"] for row in first if row["kind"] == "train"] == [1]
    assert [row["step"] for row in epoch if row["kind"] == "train"] == [1, 2, 3]


def test_the_gradient_read_from_the_first_step_is_that_of_the_mean_over_the_batch(
    whole, jobs, model, objective
):
    job, again = jobs("again")[0], model()
    before = weights(model())
    indices = BatchPlan(
        job.readings[0].train.lengths, job.phase.batch, job.seed, job.phase.name
    ).epoch(0)[0]
    (batch,) = (
        Batcher(
            job.readings[0].train,
            OBJECTIVES[objective],
            job.vocabulary,
            job.phase.masking,
            16,
            4_096,
            0,
            "phase-1",
        )
        .step(indices, 0)
        .micro_batches
    )
    nats, positions = OBJECTIVES[objective].loss(PackedModel(again, job.family), batch)[objective]
    (nats / positions).backward()
    found = gradients(before, whole[0][0])
    for name, parameter in again.named_parameters():
        torch.testing.assert_close(parameter.grad, found[name], atol=1e-5, rtol=1e-3, msg=name)
    assert whole[0][1][0]["loss"] == pytest.approx(float(nats.detach()) / positions, rel=1e-6)


@pytest.mark.parametrize("micro_batch_tokens", [64, 16])
def test_micro_batches_take_the_steps_of_the_whole_batch(
    micro_batch_tokens, whole, jobs, model, accelerator
):
    cut = jobs("cut", micro_batch_tokens=micro_batch_tokens)
    ours = [run(job, model(), accelerator) for job in cut]
    assert_same(ours, whole, weights(model()))


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(whole, jobs, model, tmp_path):
    together = jobs("two", micro_batch_tokens=64)
    train_together(tmp_path, model(), together)
    for job in together:
        ranks = [load_file(job.folder / f"rank-{rank}.safetensors") for rank in (0, 1)]
        assert all(torch.equal(tensor, ranks[1][name]) for name, tensor in ranks[0].items())
    ours = [(load_file(job.folder / "rank-0.safetensors"), rows(job)) for job in together]
    assert_same(ours, whole, weights(model()))
