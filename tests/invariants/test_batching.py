"""A batch of 16 is a batch of 16, however it is cut: whole, in four micro-batches, or over two
processes; also where the last batch of an epoch holds a single sentence. Of an objective with two
terms each is divided by its own count."""

import pytest
import torch
from phase_rows import STILL, rows_of
from processes import train_together, weights_of_ranks
from two_terms import TWO_TERMS

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
        both = ((f"{name}-first-step", FIRST_STEP), (f"{name}-epoch", EPOCH))
        settings = {"objective": objective}
        return [tiny_job(n, phase=p | settings, hardware=training, **data) for n, p in both]

    return made


@pytest.fixture
def model(tiny_model, objective):
    """Builds the model, without dropout: its draws depend on how a batch is cut."""
    if objective == "clm":
        return lambda: tiny_model("llama")
    return lambda: tiny_model("roberta", **STILL)


@pytest.fixture
def whole(jobs, model, accelerator):
    """Final weights and rows of both jobs, in one process and one micro-batch a step."""
    return [run(job, model(), accelerator) for job in jobs("whole")]


def run(job, started, accelerator):
    train_phase(job, started, accelerator)
    return weights(started), rows_of(job)


def first_step(job, objective, row_tokens):
    """The first step of the first epoch, laid out by hand."""
    text, fixed = job.readings[0].train, (job.vocabulary, job.phase.masking)
    batcher = Batcher(text, objective, *fixed, row_tokens, 4_096, 0, "phase-1")
    return batcher.step(BatchPlan(text.lengths, job.phase.batch, 0, "phase-1").epoch(0)[0], 0)


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
        torch.testing.assert_close(weights_a, weights_b, atol=2e-6, rtol=1e-4)
    found, wanted = (gradients(before, runs[0][0]) for runs in (ours, expected))
    assert max(float(gradient.abs().max()) for gradient in wanted.values()) > 0.05
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-3)


def test_the_reference_takes_one_epoch_of_16_16_and_1(whole):
    (_, first), (_, epoch) = whole
    assert [row["step"] for row in first if row["kind"] == "train"] == [1]
    assert [row["step"] for row in epoch if row["kind"] == "train"] == [1, 2, 3]


def test_the_gradient_read_from_the_first_step_is_that_of_the_mean_over_the_batch(
    whole, jobs, model, objective
):
    job, again = jobs("again")[0], model()
    (batch,) = first_step(job, OBJECTIVES[objective], 16).micro_batches
    nats, positions = OBJECTIVES[objective].loss(PackedModel(again, job.family), batch)[objective]
    (nats / positions).backward()
    found = {name: parameter.grad for name, parameter in again.named_parameters()}
    expected = gradients(weights(again), whole[0][0])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)
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
    ours = [(weights_of_ranks(job), rows_of(job)) for job in together]
    assert_same(ours, whole, weights(model()))


WIDE, NARROW = {"row_tokens": 64}, {"micro_batch_tokens": 16}


@pytest.fixture
def still(tiny_model):
    return lambda: tiny_model("roberta", **STILL)


@pytest.fixture
def train(tiny_job, still, accelerator, monkeypatch):
    """Trains one step; final weights and rows."""
    monkeypatch.setitem(OBJECTIVES, "mlm", TWO_TERMS)

    def one_step(name, **training):
        return run(tiny_job(name, phase=FIRST_STEP, hardware=training), still(), accelerator)

    return one_step


def assert_same_terms(ours, theirs):
    for row, other in zip(ours[1], theirs[1], strict=True):
        for column in ("loss", "loss/all", "loss/small"):
            assert row[column] == pytest.approx(other[column], rel=1e-6)
        assert row["loss"] == pytest.approx(row["loss/all"] + row["loss/small"], rel=1e-9)
    torch.testing.assert_close(ours[0], theirs[0], atol=2e-6, rtol=1e-4)


def test_the_gradient_is_that_of_the_sum_of_the_terms_means(train, tiny_job, still):
    after, (row, _) = train("whole", **WIDE)
    job, again = tiny_job("again", phase=FIRST_STEP), still()
    step = first_step(job, TWO_TERMS, 64)
    (batch,) = step.micro_batches
    assert step.targets["all"] > 2 * step.targets["small"] > 0
    losses = TWO_TERMS.loss(PackedModel(again, job.family), batch)
    means = {term: loss.nats / step.targets[term] for term, loss in losses.items()}
    sum(means.values()).backward()
    assert {term: row[f"loss/{term}"] for term in means} == pytest.approx(
        {term: float(mean.detach()) for term, mean in means.items()}, rel=1e-6
    )
    expected = {name: parameter.grad for name, parameter in again.named_parameters()}
    torch.testing.assert_close(gradients(weights(again), after), expected, atol=1e-5, rtol=1e-3)


def test_micro_batches_give_each_term_as_the_big_batch_does(train):
    assert_same_terms(train("cut", **NARROW), train("whole", **WIDE))


@pytest.mark.slow
def test_two_processes_give_each_term_as_one_does(train, tiny_job, still, tmp_path):
    job = tiny_job("two", phase=FIRST_STEP, hardware=NARROW)
    train_together(tmp_path, still(), [job], setup="two_terms")
    assert_same_terms((weights_of_ranks(job), rows_of(job)), train("whole", **WIDE))
