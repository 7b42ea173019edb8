"""The mean teacher: its mean and loss by hand, a stopped phase goes on to the same bits."""

import signal
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from stopping import assert_same_bits, at_call, of_training
from transformers import AutoModelForMaskedLM

from lingraft.errors import RecipeError
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.models.rows import pack
from lingraft.pipeline.preflight import check_words
from lingraft.recipe.methods import expand, recipe_from, with_phases
from lingraft.training.data import Batcher
from lingraft.training.masked_text import train_phase
from lingraft.training.mean_teacher import MeanTeacher
from lingraft.training.objectives.mlm import MLM
from lingraft.training.phase import Stopped
from lingraft.training.trained import Trained

SETTINGS = {
    "budget": {"value": 20},
    "mean_teacher": 0.7,
    "validation": {"every_steps": 5},
    "optimizer": {"learning_rate": 0.01},
}


def best(job):
    return AutoModelForMaskedLM.from_pretrained(job.folder / "best").state_dict()


def test_the_loss_has_the_labels_of_the_text_and_of_the_mean(tiny_model, tiny_tokens, monkeypatch):
    model, teacher = tiny_model("bert"), tiny_model("bert")
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    mean = MeanTeacher(0.7)
    optimizer = torch.optim.SGD(model.parameters())
    for ours, theirs in zip(model.parameters(), teacher.parameters(), strict=True):
        optimizer.state[ours]["mean"] = theirs.detach().clone()
    mean.optimizer, mean.trained, mean.teaches = optimizer, Trained(model), True
    sentences = tiny_tokens(5).rows(range(5))
    places = [np.array([2, 5])] * 5
    targets = [row[[2, 5]].astype(np.int64) for row in sentences]
    rows, width = pack(np.array([len(row) for row in sentences]), 32)
    batch = assemble(sentences, places, targets, rows, width, 1)
    packed = PackedModel(model, FAMILIES["bert"])
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    packed.eval()
    (hard,) = mean.teach(MLM).loss(packed, batch).values()  # a look has the text's labels alone
    expected_hard, expected = torch.zeros(()), torch.zeros(())
    teacher.eval()
    for row, gold in zip(sentences, targets, strict=True):
        ids = torch.from_numpy(row.astype(np.int64))[None]
        log = model(input_ids=ids).logits[0, [2, 5]].log_softmax(1)
        with torch.no_grad():
            soft = teacher(input_ids=ids).logits[0, [2, 5]].softmax(1)
        own = log[[0, 1], gold].sum()
        expected_hard = expected_hard - own
        expected = expected - 0.3 * own - 0.7 * (soft * log).sum()
    assert hard.nats.item() == pytest.approx(expected_hard.item(), rel=1e-5)
    expected.backward()
    gradients = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    packed.train()
    (found,) = mean.teach(MLM).loss(packed, batch).values()
    found.nats.backward()
    assert found.nats.item() == pytest.approx(expected.item(), rel=1e-5)
    assert found.positions == 10
    now = [weight.grad for weight in model.parameters() if weight.grad is not None]
    for ours, theirs in zip(now, gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)
    assert_same_bits(model.state_dict(), before)

    full = Mock(side_effect=torch.OutOfMemoryError)
    monkeypatch.setattr(PackedModel, "logits", full)
    with pytest.raises(torch.OutOfMemoryError):
        mean.teach(MLM).loss(packed, batch)
    assert packed.training  # so the repeated step has a teacher and dropout


def test_what_a_phase_leaves_is_the_mean_of_the_weights_over_its_last_steps(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    seen, inner = [], MeanTeacher.update

    def update(self, step, done):
        seen.append([weight.detach().clone() for weight in self.optimizer.state])
        inner(self, step, done)

    monkeypatch.setattr(MeanTeacher, "update", update)
    job = tiny_job(phase=SETTINGS | {"validation": {"every_steps": 20}})
    model = tiny_model("roberta")
    names = [name for name, weight in model.named_parameters()]
    train_phase(job, model, accelerator)
    mean = seen[0]
    for number, weights in enumerate(seen[1:], start=2):
        window = 0.1 * number / ((number - 0.5) / 20)
        share = 1 / max(1.0, min(number, window))
        mean = [old + share * (new - old) for old, new in zip(mean, weights, strict=True)]
    kept = best(job)
    by_shape = {name: kept[name] for name in names if name in kept}
    assert len(seen) == 20
    assert len(by_shape) == len(mean)
    last = dict(zip(names, seen[-1], strict=True))
    found = sorted(float(tensor.double().sum()) for tensor in by_shape.values())
    assert found == pytest.approx(sorted(float(one.double().sum()) for one in mean), abs=1e-4)
    assert any(not torch.equal(last[name], tensor) for name, tensor in by_shape.items())


def test_a_stopped_phase_goes_on_to_the_same_bits(tiny_model, tiny_job, accelerator):
    straight, stopped = (tiny_job(name, phase=SETTINGS) for name in ("straight", "stopped"))
    train_phase(straight, tiny_model("roberta"), accelerator)
    stop = at_call(12, Batcher, "step", lambda: signal.raise_signal(signal.SIGINT), of_training)
    with stop, pytest.raises(Stopped):
        train_phase(stopped, tiny_model("roberta"), accelerator)
    train_phase(stopped, tiny_model("roberta"), accelerator)
    assert_same_bits(best(stopped), best(straight))


def test_a_mean_teacher_is_for_masked_words_alone():
    table = {"source": {"model": "m"}, "language": "ko", "corpus": {"text": ["ko.txt"]}}
    recipe = with_phases(expand(recipe_from(table | {"training": {"mean_teacher": 0.8}})))
    assert {phase.mean_teacher for phase in recipe.phases} == {0.8}
    check_words(recipe)
    causal = tuple(p.model_copy(update={"objective": "clm"}) for p in recipe.phases)
    sharded = recipe.hardware.model_copy(update={"sharding": "fsdp2"})
    for changes in ({"phases": causal}, {"hardware": sharded}):
        with pytest.raises(RecipeError, match="mean_teacher: is for masked words alone"):
            check_words(recipe.model_copy(update=changes))
