"""What divided weights ask of a step and of a checkpoint; with real processes: `invariants/`."""

from types import SimpleNamespace

import pytest
import torch

from lingraft.recipe import Optimizer
from lingraft.training import checkpoint, sharding
from lingraft.training.data import Step
from lingraft.training.trained import Trained

HERE = SimpleNamespace(device=torch.device("cpu"), num_processes=2)


def step_of(*kinds):
    batches = [SimpleNamespace(objective=kind) for kind in kinds]
    return Step(batches, [1.0] * len(kinds), {}, 0, 0)


@pytest.mark.parametrize(
    ("mine", "theirs", "weights"),
    [
        (("mlm", "mlm", "ca_mlm"), (1, 2), [1, 1, 1, 0]),
        (("mlm", "ca_mlm", "ca_mlm"), (2, 1), [1, 0, 1, 1]),
    ],
)
def test_processes_with_as_many_micro_batches_of_other_kinds_compute_the_same(
    mine, theirs, weights, monkeypatch
):
    def all_reduce(counts, op, group):
        assert op is torch.distributed.ReduceOp.MAX
        counts.copy_(torch.maximum(counts, torch.tensor(theirs)))

    monkeypatch.setattr(sharding, "FSDPModule", torch.nn.Identity)
    monkeypatch.setattr(sharding.distributed, "all_reduce", all_reduce)
    level = sharding.level(step_of(*mine), torch.nn.Identity(), HERE)
    assert [batch.objective for batch in level.micro_batches] == ["mlm", "mlm", "ca_mlm", "ca_mlm"]
    assert level.weights == weights


def test_a_process_that_does_not_write_keeps_nothing_of_a_checkpoint(
    tiny_model, tmp_path, monkeypatch
):
    model = tiny_model("bert")
    optimizer = Trained(model).optimizer(Optimizer())
    model(input_ids=torch.arange(8)[None]).logits.square().mean().backward()
    optimizer.step()
    gathered = []
    monkeypatch.setattr(sharding, "whole", lambda tensor: gathered.append(tensor) or tensor)
    assert checkpoint.weights(model, keep=False) == {}
    assert checkpoint.moments(optimizer, keep=False)["state"] == {}
    number = len(list(model.parameters()))
    assert len(gathered) == 4 * number  # weights, a step count and two moments: all come together
    checkpoint.save(tmp_path, 5, model, optimizer, {}, main=False)
    checkpoint.keep_look(tmp_path, model, 5, 1, main=False)
    assert list(tmp_path.iterdir()) == []
