"""What divided weights ask of a step and of a checkpoint; with real processes: `invariants/`."""

from types import SimpleNamespace

import pytest
import torch

from lingraft.training import sharding
from lingraft.training.data import Step

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
