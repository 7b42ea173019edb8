"""LoRA and rows on two processes that talk over gloo take the steps of one."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from processes import train_together
from safetensors.torch import load_file

from lingraft.models.families import FAMILIES
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives.common import TokenIds

IDS = TokenIds(size=320, mask=None, pad=1, special=(0, 1, 2))
PHASE = {
    "objective": "clm",
    "train": ["embeddings.new"],
    "lora": {"parts": ["body"], "rank": 4, "alpha": 8},
    "budget": {"value": 4},
    "batch": {"size": 9},  # uneven: one process has a sentence more
    "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3, "max_gradient_norm": 0.5},
    "validation": {"every_steps": 4},
}


@pytest.mark.slow
def test_two_processes_with_lora_give_the_weights_of_one(
    tiny_job, tiny_model, one_process, tmp_path
):
    start = tiny_model("llama")
    rows = start.get_input_embeddings().num_embeddings
    fields = {"family": FAMILIES["llama"], "vocabulary": IDS}
    fields |= {"new_rows": tuple(i >= 300 for i in range(rows))}
    alone, together = (
        tiny_job(name, phase=PHASE, hardware={"micro_batch_tokens": 32}, **fields)
        for name in ("one", "two")
    )
    with one_process():
        AcceleratorState._reset_state(reset_partial_state=True)
        train_phase(alone, tiny_model("llama"), Accelerator(cpu=True, mixed_precision="no"))
    train_together(tmp_path, start, [together])
    one, two = (load_file(job.folder / "best" / "model.safetensors") for job in (alone, together))
    before = start.state_dict()
    assert one.keys() == two.keys() <= before.keys()  # LoRA is merged: stock names alone
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, msg=name, atol=1e-5, rtol=1e-4)
    moved = {name for name, tensor in two.items() if not torch.equal(tensor, before[name])}
    maps = {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)}
    assert maps | {"model.embed_tokens.weight"} <= moved
    assert not any("norm" in name for name in moved)
    ranks = [load_file(together.folder / f"rank-{rank}.safetensors") for rank in (0, 1)]
    for name, tensor in ranks[0].items():
        assert torch.equal(ranks[1][name], tensor), name
