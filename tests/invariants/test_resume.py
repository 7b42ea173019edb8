"""A run that is stopped and goes on is the straight run, bit for bit, dropout and all."""

import json
import signal

import pytest
import torch
from stopping import assert_same_bits, at_call, killed_at, of_training
from transformers import AutoModelForMaskedLM

from lingraft.training import beside, checkpoint
from lingraft.training.data import Batcher
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import Stopped

# 40 sentences are three batches of 16 at most: ten steps cross three ends of an epoch.
SETTINGS = {
    "budget": {"value": 10},
    "optimizer": {"learning_rate": 0.01},
    "validation": {"every_steps": 4},
}
ROWS = ["embeddings.new", "output_bias.new", "layers[-1]"]
NEW = tuple(i % 7 == 3 for i in range(320))
LORA = {"parts": ["body"], "rank": 2, "dropout": 0.1}
KINDS = {"all": ["all"], "frozen": ["embeddings", "output_bias", "inserted"], "rows": ROWS}


@pytest.fixture
def model(tiny_model):
    """Builds the model, with dropout."""
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    return lambda: tiny_model("roberta", num_hidden_layers=3, **dropout)


@pytest.fixture
def job(tiny_job):
    return lambda name, train, **training: tiny_job(
        name,
        phase=SETTINGS | {"train": train} | ({"lora": LORA} if train == ROWS else {}),
        hardware=training,
        itl_layers=frozenset({0, 2}),
        new_rows=NEW,
    )


@pytest.fixture(params=["in turn", "beside"])
def order(request, monkeypatch):
    """Batches and checkpoints are made in turn with training, and beside it as with a GPU."""
    monkeypatch.setattr(beside, "has_time", lambda _: request.param == "beside")


def rows(job):
    """Step and loss of every row; those that a killed run wrote twice must be the same."""
    found = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    by_step = {}
    for row in found:
        facts = {key: row.get(key) for key in ("tokens", "loss", "learning_rate", "gradient_norm")}
        assert by_step.setdefault((row["step"], row["kind"]), facts) == facts
    return by_step


def interrupt():
    signal.raise_signal(signal.SIGINT)


def straight(job, model, accelerator):
    weights = model()
    result = train_phase(job, weights, accelerator)
    return result, weights.state_dict(), rows(job)


@pytest.mark.parametrize(
    ("number", "train"),
    [
        *((1, "all"), (6, "all")),
        *((1, "frozen"), (4, "frozen")),
        *((4, "rows"), (10, "rows")),
    ],
)
def test_a_run_stopped_by_a_signal_goes_on_to_the_same_bits(number, train, job, model, accelerator):
    whole, expected, expected_rows = straight(job("straight", KINDS[train]), model, accelerator)
    stopped = job("stopped", KINDS[train])
    refused = pytest.raises(Stopped, match=f"stopped by SIGINT at step {number} of phase")
    with at_call(number, Batcher, "step", interrupt, of_training), refused:
        train_phase(stopped, model(), accelerator)
    again = model()
    result = train_phase(stopped, again, accelerator)
    assert_same_bits(again.state_dict(), expected)
    assert rows(stopped) == expected_rows
    timed = {"seconds", "tokens_per_second"}
    assert {k: v for k, v in result.items() if k not in timed} == {
        k: v for k, v in whole.items() if k not in timed
    }


@pytest.mark.parametrize("number", [5, 8])
def test_a_run_killed_between_checkpoints_goes_on_to_the_same_bits(
    number, job, model, accelerator, order
):
    whole = job("straight", ["all"])
    _, expected, expected_rows = straight(whole, model, accelerator)
    broken = job("killed", ["all"], checkpoint_steps=3)
    with killed_at(number, Batcher, "step", of_training), pytest.raises(KeyboardInterrupt):
        train_phase(broken, model(), accelerator)
    assert checkpoint.latest(broken.folder).name == f"checkpoint-{(number - 1) // 3 * 3:08d}"
    again = model()
    train_phase(broken, again, accelerator)
    assert_same_bits(again.state_dict(), expected)
    assert rows(broken) == expected_rows
    ours, theirs = (
        AutoModelForMaskedLM.from_pretrained(j.folder / "best").state_dict()
        for j in (broken, whole)
    )
    assert_same_bits(ours, theirs)


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_from_the_one_before(
    job, model, accelerator, monkeypatch, order
):
    _, expected, _ = straight(job("straight", ["all"]), model, accelerator)
    broken, original = job("killed", ["all"], checkpoint_steps=3), checkpoint.write_json

    def write(path, data):
        if path.parent.name == "partial-00000006":
            path.write_text("{")
            raise KeyboardInterrupt
        original(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_json", write)
        with pytest.raises(KeyboardInterrupt):
            train_phase(broken, model(), accelerator)
    assert checkpoint.latest(broken.folder).name == "checkpoint-00000003"
    again = model()
    train_phase(broken, again, accelerator)
    assert_same_bits(again.state_dict(), expected)
    assert not list(broken.folder.glob("partial-*"))


def test_dropout_is_on_and_drawn_anew_every_step(job, model, tiny_model, accelerator):
    _, with_dropout, _ = straight(job("with", ["all"]), model, accelerator)
    plain = tiny_model("roberta", num_hidden_layers=3, hidden_dropout_prob=0.0,
                       attention_probs_dropout_prob=0.0)  # fmt: skip
    train_phase(job("without", ["all"]), plain, accelerator)
    name = "lm_head.dense.weight"
    assert not torch.allclose(with_dropout[name], plain.state_dict()[name], atol=1e-4)


def test_the_seed_of_the_run_decides_its_result(tiny_job, model, accelerator):
    results = []
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        weights = model()
        train_phase(tiny_job(name, phase=SETTINGS, seed=seed), weights, accelerator)
        results.append(weights.state_dict()["lm_head.dense.weight"].clone())
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
