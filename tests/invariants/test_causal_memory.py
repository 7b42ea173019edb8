"""What saves memory changes no number of a causal model either: activations computed again, frozen
matrices in bf16, weights divided over two processes. LoRA and rows on two processes that talk over
gloo take the steps of one."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from phase_rows import CAUSAL_IDS, best_of, rows_of
from processes import train_together, weights_of_ranks
from stopping import assert_same_bits

from lingraft.models.families import FAMILIES
from lingraft.training import checkpoint, masked_text
from lingraft.training.machine import encoder_layers
from lingraft.training.masked_text import train_phase
from lingraft.training.phase import in_fp32, lighten

CAUSAL = ("gpt2", "llama")
PHASE = {
    "objective": "clm",
    "budget": {"value": 4},
    "batch": {"size": 9},  # on two processes: three micro-batches and two
    "optimizer": {"learning_rate": 0.01, "epsilon": 1e-3, "max_gradient_norm": 0.5},
    "validation": {"every_steps": 4},
}
STILL = {"gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}, "llama": {}}


@pytest.fixture
def clm_job(tiny_job):
    def made(name, family="llama", train=("all",), lora=None, new_rows=None, **training):
        phase = PHASE | {"train": list(train), "lora": lora}
        fields = {"family": FAMILIES[family], "vocabulary": CAUSAL_IDS, "new_rows": new_rows}
        fields["itl_layers"] = frozenset() if lora else frozenset({0})
        return tiny_job(name, phase=phase, hardware=training, **fields)

    return made


def losses(job):
    return [row["loss"] for row in rows_of(job)]


def published(model):
    """With weights as a model has them that was published in bf16."""
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    return model


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("family", CAUSAL)
def test_frozen_matrices_in_bf16_change_not_a_bit(family, clm_job, tiny_model, monkeypatch):
    found = []
    for kept in ("bf16", "fp32"):
        AcceleratorState._reset_state(reset_partial_state=True)
        if kept == "fp32":
            monkeypatch.setattr(masked_text, "lighten", lambda _: 0)
        job = clm_job(kept, family, train=("embeddings", "inserted"))
        model = published(tiny_model(family))
        train_phase(job, model, Accelerator(cpu=True, mixed_precision="bf16"))
        first, last = encoder_layers(model)
        formats = {p.dtype for p in last.parameters() if p.dim() > 1}
        assert formats == {getattr(torch, {"fp32": "float32", "bf16": "bfloat16"}[kept])}
        assert {p.dtype for p in first.parameters()} == {torch.float32}
        assert model.get_input_embeddings().weight.dtype == torch.float32
        found.append((losses(job), best_of(job)))
    (light, halved), (plain, whole) = found
    assert plain == light
    assert {tensor.dtype for tensor in halved.values()} == {torch.float32}
    assert_same_bits(halved, whole)


def test_what_bf16_would_round_stays_in_fp32_and_all_is_fp32_while_it_is_saved(tiny_model):
    model = tiny_model("llama").requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert lighten(model) == 0
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    model = published(model)
    model.model.layers[0].mlp.up_proj.weight.requires_grad_(True)
    maps = [part for part in model.model.layers.modules() if hasattr(part, "in_features")]
    trained = model.model.layers[0].mlp.up_proj.weight.numel()
    assert lighten(model) == sum(part.weight.numel() for part in maps) - trained
    assert model.model.layers[0].mlp.up_proj.weight.dtype == torch.float32
    assert model.model.layers[1].mlp.up_proj.weight.dtype == torch.bfloat16
    with in_fp32(model):
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name].bfloat16().float())
    assert model.model.layers[1].mlp.up_proj.weight.dtype == torch.bfloat16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "tied", "train", "light"),
    [
        ("llama", False, ("all",), False),
        ("gpt2", True, ("all",), False),
        ("llama", True, ("embeddings", "inserted"), True),
    ],
    ids=["llama untied", "gpt2 tied", "llama frozen bf16"],
)
def test_two_processes_that_divide_the_weights_take_the_steps_of_one(
    family, tied, train, light, clm_job, tiny_model, one_process, tmp_path
):
    def model():
        return published(tiny_model(family, tie_word_embeddings=tied, **STILL[family]))

    one, two = (
        clm_job(sharding, family, train, micro_batch_tokens=32, sharding=sharding)
        for sharding in ("none", "fsdp2")
    )
    with one_process():
        AcceleratorState._reset_state(reset_partial_state=True)
        precision = "bf16" if light else "no"
        train_phase(one, model(), Accelerator(cpu=True, mixed_precision=precision))
    train_together(tmp_path, model(), [two], precision=precision)
    assert losses(two) == pytest.approx(losses(one), rel=2e-3 if light else 1e-5)
    tolerance = {"atol": 5e-3, "rtol": 0} if light else {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(best_of(two), best_of(one), **tolerance)
    assert checkpoint.latest(two.folder) is None


@pytest.mark.slow
def test_two_processes_with_lora_give_the_weights_of_one(
    clm_job, tiny_model, one_process, tmp_path
):
    start = tiny_model("llama")
    new = tuple(i >= 300 for i in range(start.get_input_embeddings().num_embeddings))
    lora = {"parts": ["body"], "rank": 4, "alpha": 8}
    settings = {"train": ["embeddings.new"], "lora": lora, "new_rows": new}
    alone, together = (clm_job(n, micro_batch_tokens=32, **settings) for n in ("one", "two"))
    with one_process() as accelerator:
        train_phase(alone, tiny_model("llama"), accelerator)
    train_together(tmp_path, start, [together])
    one, two, before = best_of(alone), best_of(together), start.state_dict()
    assert two.keys() <= before.keys()  # LoRA is merged: stock names alone
    torch.testing.assert_close(two, one, atol=1e-5, rtol=1e-4)
    moved = {name for name, tensor in two.items() if not torch.equal(tensor, before[name])}
    maps = {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)}
    assert maps | {"model.embed_tokens.weight"} <= moved
    assert not any("norm" in name for name in moved)
    assert weights_of_ranks(together)
