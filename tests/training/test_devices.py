"""What a GPU would notice first: memory that stays, time that nobody counts."""

import gc
import time
import weakref

import pytest

from lingraft.models import loading
from lingraft.recipe import Training
from lingraft.training import machine
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
    made, original = [], Trained.optimiser

    def optimiser(*arguments, **options):
        result = original(*arguments, **options)
        made.append(weakref.ref(result))
        return result

    monkeypatch.setattr(Trained, "optimiser", optimiser)
    train_phase(tiny_job(), tiny_model("roberta"), accelerator)
    assert [reference() for reference in made] == [None]


def test_a_model_that_was_trained_is_gone_before_the_next_one_comes(
    tiny_model, tiny_source, tiny_job, one_process, tmp_path, no_collector
):
    with one_process():
        accelerator = machine.accelerator_for(Training(precision="bf16"), tmp_path)
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
