"""A step that does not fit into memory is taken in smaller passes, and learns the same."""

import pytest
import torch

from lingraft.training.masked_text import train_phase
from lingraft.training.phase import WithObjective

FULL = {
    "a GPU's": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    "a CPU's": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
}


@pytest.fixture
def limited(monkeypatch):
    """Memory that is full where more tokens than this go through the model at once."""
    forward, sizes = WithObjective.forward, []

    def limit(tokens, error, when=lambda module: module.training):
        def limited_forward(self, batch):
            sizes.append(batch.input_ids_NT.numel())
            losses = forward(self, batch)
            if when(self) and sizes[-1] > tokens:
                raise error
            return losses

        monkeypatch.setattr(WithObjective, "forward", limited_forward)
        return sizes

    return limit


@pytest.mark.parametrize("whose", FULL)
def test_weights_are_those_of_small_passes(whose, limited, tiny_model, tiny_job, accelerator):
    batch = {"batch": {"size": 24}}
    small, large = tiny_model("roberta").train(), tiny_model("roberta").train()
    job = tiny_job("small", phase=batch, hardware={"micro_batch_tokens": 32})
    expected = train_phase(job, small, accelerator)
    sizes = limited(32, FULL[whose])
    job = tiny_job("large", phase=batch, hardware={"micro_batch_tokens": 256})
    result = train_phase(job, large, accelerator)
    assert max(sizes) > 32
    assert result["steps"] == expected["steps"]
    for name, weights in small.state_dict().items():
        assert torch.equal(large.state_dict()[name], weights), name


def test_validation_goes_on_in_smaller_passes(limited, tiny_model, tiny_job, accelerator):
    job = tiny_job("plain", hardware={"micro_batch_tokens": 256})
    expected = train_phase(job, tiny_model("roberta"), accelerator)
    sizes = limited(64, FULL["a GPU's"], when=lambda module: not module.training)
    job = tiny_job("limited", hardware={"micro_batch_tokens": 256})
    result = train_phase(job, tiny_model("roberta"), accelerator)
    assert max(sizes) > 64
    assert result["best"]["loss"] == pytest.approx(expected["best"]["loss"], rel=1e-3)
