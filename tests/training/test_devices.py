"""What a GPU, or several processes, would notice first: memory that stays, time that nobody counts,
questions that wait for the device."""

import gc
import weakref

import pytest

from lingraft.training import loop
from lingraft.training.masked_text import train_phase
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
