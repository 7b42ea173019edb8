import dataclasses
import json
import math

import pytest
import torch
from transformers import AutoModelForMaskedLM

from lingraft.errors import TrainingError
from lingraft.models.parts import part_of
from lingraft.recipe.records import PRESETS
from lingraft.training import checkpoint
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives import OBJECTIVES
from lingraft.training.validation import Validator

STEADY = {"shape": "constant", "warmup": 0}
ITL = frozenset({0, 3})
# What each paper trains in phase 1; all else is frozen.
PHASE_1 = {
    "xpt2021": {"embeddings", "output_bias", "inserted"},
    "chameleon2022": {"embeddings", "output_bias", "inserted", "positions", "head"},
}


def rows(job, kind="train"):
    lines = job.metrics_path.read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


def copy_of(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def grafted(tiny_model):
    return tiny_model("roberta", num_hidden_layers=4)


def best(job):
    return AutoModelForMaskedLM.from_pretrained(job.folder / "best").state_dict()


@pytest.mark.parametrize("preset", PHASE_1)
def test_phase_1_changes_what_the_paper_trains_and_not_one_bit_of_the_rest(
    preset, tiny_model, tiny_job, accelerator
):
    model = grafted(tiny_model)
    before = copy_of(model)
    job = tiny_job(phase={"train": list(PRESETS[preset].first_phase)}, itl_layers=ITL)
    result = train_phase(job, model, accelerator)
    parts = {name: part_of(name, job.family, ITL) for name in before}
    for name, tensor in model.state_dict().items():
        trained = parts[name] in PHASE_1[preset]
        assert torch.equal(tensor, before[name]) is not trained, name
    sizes = {n: p.numel() for n, p in model.named_parameters()}
    assert result["trainable_parameters"] == sum(
        size for name, size in sizes.items() if parts[name] in PHASE_1[preset]
    )
    assert result["train"] == sorted(PHASE_1[preset])


def test_a_batch_without_a_token_to_predict_costs_nothing(
    tiny_model, tiny_job, tiny_tokens, accelerator
):
    """Sentences of special tokens alone, as a text of unknown characters gives them."""
    settings = {"budget": {"value": 2}, "optimizer": {"weight_decay": 0.0}}
    model = tiny_model("roberta")
    before = copy_of(model)
    job = tiny_job(phase=settings, train=tiny_tokens(8, 2, 2))
    result = train_phase(job, model, accelerator)
    assert (result["steps"], result["masked"]) == (2, 0)
    assert [row["loss"] for row in rows(job)] == [0.0, 0.0]
    assert all(torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items())


def test_a_budget_in_tokens_ends_with_the_step_that_reaches_it(tiny_model, tiny_job, accelerator):
    job = tiny_job(phase={"budget": {"value": 700, "unit": "tokens"}})
    result = train_phase(job, tiny_model("roberta"), accelerator)
    counts = [row["tokens"] for row in rows(job)]
    assert counts[-2] < 700 <= counts[-1] == result["tokens"]


def test_the_rate_is_that_of_the_middle_of_each_step(tiny_model, tiny_job, accelerator):
    settings = {
        "budget": {"value": 10},
        "optimizer": {"learning_rate": 0.01},
        "schedule": {"warmup": 2},
    }
    job = tiny_job(phase=settings)
    train_phase(job, tiny_model("roberta"), accelerator)
    rising, falling = [0.25, 0.75], [(10 - i - 0.5) / 8 for i in range(2, 10)]
    assert [row["learning_rate"] for row in rows(job)] == pytest.approx(
        [0.01 * factor for factor in rising + falling]
    )


def test_the_metrics_file_holds_a_row_for_each_logged_step_and_look(
    tiny_model, tiny_job, accelerator
):
    job = tiny_job(
        phase={"budget": {"value": 10}, "validation": {"every_steps": 4}},
        hardware={"log_steps": 3},
    )
    result = train_phase(job, tiny_model("roberta"), accelerator)
    assert [row["step"] for row in rows(job)] == [1, 3, 6, 9]
    assert [row["step"] for row in rows(job, "valid")] == [4, 8, 10]
    for row in rows(job):
        assert row["phase"] == "phase-1"
        assert math.isfinite(row["loss"] + row["gradient_norm"] + row["tokens_per_second"])
    assert set(rows(job, "valid")[0]) == {"kind", "phase", "step", "tokens", "loss"}
    assert rows(job, "valid")[-1]["tokens"] == result["tokens"]


def looks(monkeypatch, *losses):
    """Let validation give these losses one after the other."""
    coming = iter(losses)
    monkeypatch.setattr(Validator, "losses", lambda *_: {"mlm": next(coming)})


def test_patience_ends_a_phase_and_the_best_weights_are_kept(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    settings = {"schedule": STEADY, "optimizer": {"learning_rate": 0.01}}
    short = tiny_job("short", phase=settings | {"budget": {"value": 2}})
    train_phase(short, tiny_model("roberta"), accelerator)
    looks(monkeypatch, 3.0, 2.0, 2.5, 2.4, 9.0)
    watch = {"every_steps": 1, "patience": 2}
    long = tiny_job("long", phase=settings | {"budget": {"value": 9}, "validation": watch})
    result = train_phase(long, tiny_model("roberta"), accelerator)
    assert (result["stopped"], result["steps"]) == ("patience", 4)
    assert result["best"] == {"step": 2, "loss": 2.0}
    expected = best(short)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in best(long).items())


def test_the_best_weights_are_saved_with_the_dropout_of_the_source(
    tiny_model, tiny_job, accelerator
):
    model = tiny_model("roberta", hidden_dropout_prob=0.0)
    job = tiny_job(kept_config={"hidden_dropout_prob": 0.1})
    train_phase(job, model, accelerator)
    saved = json.loads((job.folder / "best" / "config.json").read_text())
    assert saved["hidden_dropout_prob"] == 0.1
    assert model.config.hidden_dropout_prob == 0.0
    assert sorted(p.name for p in job.folder.iterdir()) == ["best", "metrics.jsonl"]


def turning_nan(monkeypatch, call):
    """Let the loss be NaN from the given forward pass on."""
    objective, calls = OBJECTIVES["mlm"], []

    def loss(packed, batch):
        calls.append(1)
        found = objective.loss(packed, batch)["mlm"]
        nats = found.nats * (math.nan if len(calls) >= call else 1.0)
        return {"mlm": found._replace(nats=nats)}

    monkeypatch.setitem(OBJECTIVES, "mlm", dataclasses.replace(objective, loss=loss))


def test_a_loss_that_is_not_a_number_stops_the_run_with_step_and_checkpoint(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    turning_nan(monkeypatch, 5)
    job = tiny_job(
        phase={"budget": {"value": 9}, "validation": {"every_steps": 100}},
        hardware={"checkpoint_steps": 2},
    )
    with pytest.raises(TrainingError) as caught:
        train_phase(job, tiny_model("roberta"), accelerator)
    path = job.folder / "checkpoint-00000004"
    message = str(caught.value)
    assert message.startswith("phase 'phase-1': loss nan, gradient norm nan at step 5; ")
    assert f"the last good checkpoint is {path};" in message
    assert "\n" not in message
    assert path.is_dir()


def test_a_checkpoint_is_good_even_where_few_steps_are_logged(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    turning_nan(monkeypatch, 4)
    job = tiny_job(
        phase={"budget": {"value": 20}, "validation": {"every_steps": 100}},
        hardware={"checkpoint_steps": 1, "log_steps": 10},
    )
    with pytest.raises(TrainingError, match="not finite at step 4; the last good checkpoint is"):
        train_phase(job, tiny_model("roberta"), accelerator)
    path = checkpoint.latest(job.folder)
    assert path is not None
    kept = checkpoint.load_file(path / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in kept.values())
    assert path.name == "checkpoint-00000003"
