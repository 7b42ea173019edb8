import json

import pytest
import torch
from accelerate import Accelerator

from lingraft.training.masked_text import train_phase
from lingraft.training.trained import Trained

SETTINGS = {"budget": {"value": 6}, "optimizer": {"learning_rate": 0.01, "max_gradient_norm": 0.5}}


@pytest.fixture
def fp16(monkeypatch):
    """Steps take fp16's way, with fp32's numbers: what its factor does is all that differs."""
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(Accelerator, "mixed_precision", "fp16")
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device: scaler(device, growth_interval=4))


def rows(job):
    found = [json.loads(line) for line in job.metrics_path.read_text().splitlines()]
    return [row for row in found if row["kind"] == "train"]


def test_a_scaled_loss_gives_the_plain_step(tiny_model, tiny_job, accelerator, request):
    """Factors are powers of two, so not even rounding differs; it doubles after four steps."""
    plain, model = tiny_model("roberta"), tiny_model("roberta")
    first, second = tiny_job("plain", phase=SETTINGS), tiny_job("scaled", phase=SETTINGS)
    train_phase(first, plain, accelerator)
    request.getfixturevalue("fp16")
    train_phase(second, model, accelerator)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
    norms = [[row["gradient_norm"] for row in rows(job)] for job in (first, second)]
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert max(norms[0]) > 0.5  # clipping was at work
    assert [row["loss_scale"] for row in rows(second)] == [2**16] * 3 + [2**17] * 3


def test_a_step_whose_gradients_overflow_is_skipped_counted_and_resumed_alike(
    tiny_model, tiny_job, accelerator, fp16, monkeypatch
):
    collect, steps = Trained.collect, []

    def overflow(trained):
        collect(trained)
        steps.append({n: p.detach().clone() for n, p in trained.model.named_parameters()})
        if len(steps) == 3:
            next(p for p in trained.model.parameters() if p.grad is not None).grad[0] = torch.inf

    monkeypatch.setattr(Trained, "collect", overflow)
    job = tiny_job(phase=SETTINGS, hardware={"checkpoint_steps": 4})
    model = tiny_model("roberta")
    result = train_phase(job, model, accelerator)
    assert all(torch.equal(tensor, steps[2][name]) for name, tensor in steps[3].items())
    assert not all(torch.equal(tensor, steps[3][name]) for name, tensor in steps[4].items())
    assert [row["skipped_steps"] for row in rows(job)] == [0, 0, 1, 1, 1, 1]
    assert [row["loss_scale"] for row in rows(job)] == [2**16] * 2 + [2**15] * 4
    assert [row["gradient_norm"] is None for row in rows(job)] == [i == 2 for i in range(6)]
    assert result["skipped_steps"] == 1
    again = tiny_model("roberta")
    train_phase(job, again, accelerator)
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))
