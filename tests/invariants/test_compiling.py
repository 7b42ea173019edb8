"""Compiled layers train like plain ones, and a machine without a compiler says so at once."""

import json

import pytest
import torch
from torch._dynamo.utils import counters

from lingraft.training.checkpoint import weights
from lingraft.training.masked_text import train_phase

PHASE = {
    "budget": {"value": 6},
    "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3},
    "validation": {"every_steps": 3},
}


def trained(job, model, accelerator):
    train_phase(job, model, accelerator)
    return weights(model), [json.loads(line) for line in job.metrics_path.read_text().splitlines()]


@pytest.fixture
def clean_compiler():
    """Compiled code is no other test's."""
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # within torch
@pytest.mark.usefixtures("clean_compiler")
def test_compiled_layers_give_the_loss_curve_and_the_weights_of_plain_ones(
    tiny_job, tiny_model, tiny_tokens, accelerator
):
    # Every batch is 16 rows: one graph for training, one for looking.
    text = {"train": tiny_tokens(48), "valid": tiny_tokens(16, seed=1)}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    found = [
        trained(
            tiny_job(f"compile-{compiled}", phase=PHASE, hardware={"compile": compiled}, **text),
            tiny_model("roberta", **still),
            accelerator,
        )
        for compiled in (False, True)
    ]
    assert counters["stats"]["unique_graphs"] > 0
    assert not counters["graph_break"]
    (plain, rows), (compiled, compiled_rows) = found
    assert len(rows) == len(compiled_rows) == 8
    for row, other in zip(rows, compiled_rows, strict=True):
        assert other["loss"] == pytest.approx(row["loss"], rel=1e-5)
    assert plain.keys() == compiled.keys()  # no name of a wrapper
    for name, tensor in plain.items():
        torch.testing.assert_close(compiled[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
