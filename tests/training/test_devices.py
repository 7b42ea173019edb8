"""What a GPU, or several processes, would notice first: memory that stays, time that nobody counts,
questions that wait for the device."""

import gc
import time
import weakref

import pytest
import torch

from lingraft.finetuning.coders.common import TaskBatch
from lingraft.models import loading
from lingraft.models.chunked import loss_and_slope
from lingraft.recipe import Hardware
from lingraft.training import loop, machine
from lingraft.training.accumulation import Totals
from lingraft.training.loop import train_phase
from lingraft.training.trained import Trained


@pytest.fixture
def no_collector():
    """Garbage in cycles stays until somebody asks for its collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_what_a_phase_trained_with_is_gone_when_it_ends(
    tiny_model, tiny_job, accelerator, monkeypatch, no_collector
):
    made, original = [], Trained.optimizer

    def optimizer(*arguments, **options):
        result = original(*arguments, **options)
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(Trained, "optimizer", optimizer)
    monkeypatch.setattr(loop, "LARGE", 0)
    train_phase(tiny_job(), tiny_model("roberta"), accelerator)
    assert [reference() for reference in made] == [None]


def test_a_model_that_was_trained_is_gone_before_the_next_one_comes(
    tiny_model, tiny_source, tiny_job, one_process, tmp_path, monkeypatch, no_collector
):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with one_process():
        accelerator = machine.accelerator_for(Hardware(precision="bf16"), tmp_path)
        model = tiny_model("roberta")
        reference = weakref.ref(model)
        train_phase(tiny_job(), model, accelerator)
        del model
        loading.load(str(tiny_source("roberta")))
        assert reference() is None


def test_the_time_that_a_device_is_waited_for_is_the_steps_own(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    original = Totals.means

    def means(totals, accelerator):
        time.sleep(0.3)
        return original(totals, accelerator)

    model, job = tiny_model("roberta"), tiny_job()
    monkeypatch.setattr(Totals, "means", means)
    assert train_phase(job, model, accelerator)["seconds"] >= 3 * 0.3


def test_nobody_asks_a_gpu_which_targets_count():
    logits = torch.zeros(4, 7, device="meta")  # a question would be an error here
    nats, slope = loss_and_slope(logits, torch.zeros(4, dtype=torch.int64, device="meta"))
    assert (nats.shape, slope.shape) == ((), (4, 7))


def test_inputs_of_a_task_do_not_wait_for_the_device(monkeypatch):
    asked = []
    monkeypatch.setattr(
        torch.Tensor, "to", lambda tensor, *_, **options: asked.append(options) or tensor
    )
    tensors = {"input_ids": torch.zeros(1, 2)}
    TaskBatch(tensors, tensors, 1).to(torch.device("cpu"))
    assert asked == [{"non_blocking": True}] * 2
