"""What `lingraft check` says of memory: what is counted, what fits, and what to change."""

from __future__ import annotations

import json
import math
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from lingraft.models import chunked
from lingraft.models.families import FAMILIES
from lingraft.pipeline import memory, preflight
from lingraft.pipeline.memory import (
    Layers,
    Machine,
    Target,
    need,
    remedies,
    training_for,
    verdict,
)
from lingraft.pipeline.source_files import tensor_shapes
from lingraft.pipeline.trainable import Trained
from lingraft.recipe.methods import recipe_from
from lingraft.recipe.phase import Batch, Data, Distil, Masking
from lingraft.training.machine import multiplies_bf16

GB = 10**9
CPU, GPU = Machine(16 * GB, is_gpu=False, bf16=False), Machine(16 * GB, is_gpu=True)
BY_PART = dict.fromkeys(("positions", "embedding_norm", "adapters", "cross_attention", "head"), 0)
BY_PART |= {"embeddings": 50_000 * 1_024, "output_bias": 0, "itl": 20_000_000, "body": 200_000_000}
LAYERS = Layers(
    number=12,
    width=1_024,
    heads=16,
    read=10_000,
    written=12_000,
    parameters=190_000_000,
    rows=50_000,
)
MATRIX, BODY = BY_PART["embeddings"], BY_PART["body"]
WHOLE = Trained(sum(BY_PART.values()), 0, 12, 12, 0)
NEW = Trained(MATRIX + BY_PART["itl"], 0, 12, 2, 180_000_000)
"""Of embeddings and two inserted layers."""


def recipe(*, train=("all",), objective="clm", **training):
    phase = {"name": "phase-1", "train": list(train), "objective": objective}
    phase |= {"budget": {"value": 10}}
    data = {"language": "ko", "source": {"model": "m"}, "corpus": {"text": ["a.txt"]}}
    return recipe_from(data | {"phases": [phase], "training": training})


def needed(machine=CPU, trained=WHOLE, **changes):
    made = recipe(**changes)
    return need(Target(made, BY_PART, LAYERS, machine), made.phases[0], trained)


def test_what_is_certain_is_counted_exactly():
    whole, part = needed(), needed(trained=NEW, train=("embeddings", "itl"))
    total, trained = sum(BY_PART.values()), BY_PART["embeddings"] + BY_PART["itl"]
    assert (whole.weights, whole.gradients, whole.optimiser) == (4 * total, 4 * total, 8 * total)
    assert (part.weights, part.gradients, part.optimiser) == (4 * total, 4 * trained, 8 * trained)
    certain = whole.weights + whole.gradients + whole.optimiser
    assert whole.total == certain + whole.activations + whole.logits + whole.program


def test_a_matrix_of_which_rows_train_has_a_gradient_whole_and_moments_of_these_rows():
    rows = needed(train=("embeddings.new",), trained=Trained(MATRIX // 5, MATRIX, 12, 0, BODY))
    assert rows.optimiser == 8 * MATRIX // 5
    assert rows.gradients == 4 * (MATRIX + MATRIX // 5)


def test_layers_beneath_the_lowest_that_trains_keep_nothing():
    above, none = (
        needed(train=("output_bias",), trained=Trained(9, 0, n, n, BODY)).activations
        for n in (3, 0)
    )
    frozen = needed(train=("embeddings",), trained=Trained(9, 0, 12, 0, BODY)).activations
    outside = 8 * 1_024 * 4_096  # the rows that are looked up
    assert none == outside
    assert above - outside == (needed().activations - outside) / 4
    assert above < frozen < needed().activations  # frozen maps keep not what they read


def test_each_setting_that_saves_memory_saves_some():
    plain = needed()
    assert needed(gradient_checkpointing=True).activations < plain.activations / 3
    assert needed(micro_batch_tokens=1_024).activations < plain.activations / 3
    half = needed(precision="bf16")
    assert half.activations < plain.activations
    assert half.weights == plain.weights
    frozen = {"train": ("embeddings", "itl"), "precision": "bf16"}
    light = needed(trained=NEW, frozen_weights="bf16", **frozen)
    assert needed(trained=NEW, **frozen).weights - light.weights == 2 * NEW.frozen_maps
    assert needed(GPU, precision="fp32").activations < plain.activations  # fused attention


def test_logits_of_causal_models_are_those_of_a_chunk():
    assert chunked.LOGITS_AT_ONCE == memory.LOGITS_AT_ONCE
    whole = 4_096 * 50_000 * 12
    assert needed(train=("body",)).logits < whole / 5
    masked = needed(train=("body",), objective="mlm")
    assert masked.logits == int(4_096 * 0.15 * 50_000 * 12)


def test_what_is_read_twice_and_what_a_decoder_writes_are_counted():
    def of(objective, **more):
        made = recipe(objective="mlm").phases[0].model_copy(update={"objective": objective})
        target = Target(recipe(objective="mlm"), BY_PART, LAYERS, GPU)
        return need(target, made.model_copy(update=more), WHOLE)

    plain, crossed = of("mlm"), of("ca_mlm")
    maps = 2 * LAYERS.parameters  # in bf16, once
    assert crossed.activations - maps == 2 * (plain.activations - maps)
    assert crossed.logits == 2 * plain.logits
    pairs = Data(stream="two", objective="ca_mlm", masking=Masking(rate=0.3))
    assert of("mlm", data=(Data(stream="one"), pairs)).logits == pytest.approx(4 * plain.logits)
    assert of("mlm", data=(Data(stream="one", also=("ca_mlm",)),)).logits == crossed.logits
    all_written = of("denoise", masking=Masking(scheme="infilling")).logits
    assert all_written == pytest.approx(plain.logits / 0.15)
    spans = of("denoise", masking=Masking(scheme="spans")).logits
    assert plain.logits / 0.15 * 0.2 < spans < plain.logits / 0.15 * 0.3


def test_what_does_not_fit_is_told_what_to_change_and_then_it_fits():
    made = recipe()
    _, said = verdict(Target(made, BY_PART, LAYERS, Machine(100 * GB, is_gpu=False)), [WHOLE])
    assert said.endswith("it fits")
    small = Machine(9 * GB, is_gpu=False, bf16=False)
    needs, said = verdict(Target(made, BY_PART, LAYERS, small), [WHOLE])
    assert "does not fit; with training.gradient_checkpointing=true it needs" in said
    settings = dict(needs)
    assert settings["phase-1"].total > 0.9 * 9 * GB
    again = recipe(gradient_checkpointing=True)
    _, then = verdict(Target(again, BY_PART, LAYERS, small), [WHOLE])
    assert then.endswith("it fits")


def test_every_remedy_needs_less_than_the_one_before_it():
    made = recipe(train=("embeddings", "itl"), precision="bf16")
    found = remedies(Target(made, BY_PART, LAYERS, CPU), made.phases[0], NEW)
    totals = [entry.total for _, entry in found]
    assert len(totals) == 5
    assert totals == sorted(totals, reverse=True)


def test_what_no_setting_makes_fit_names_fewer_parts_and_more_processes():
    _, said = verdict(Target(recipe(), BY_PART, LAYERS, Machine(2 * GB, is_gpu=True)), [WHOLE])
    assert "this GPU has 2.0 GB: it does not fit, nor with" in said
    assert "LoRA" in said
    assert "training.sharding=fsdp2" in said


def test_what_needs_nearly_all_of_the_memory_is_told_how_much_of_it_counts():
    needs, _ = verdict(Target(recipe(), BY_PART, LAYERS, CPU), [WHOLE])
    size = int(1.01 * needs["phase-1"].total)
    tight = Machine(size, is_gpu=False, bf16=False)
    _, said = verdict(Target(recipe(), BY_PART, LAYERS, tight), [WHOLE])
    usable = f"{tight.usable / 1e9:.1f} GB"
    assert f"has {size / 1e9:.1f} GB, of which {usable} can be filled: it does not fit" in said


def test_a_gpu_with_memory_to_spare_takes_more_tokens_at_once():
    batch = {"size": 20_000, "unit": "tokens"}

    def made(machine, batch=batch, **training):
        plain = recipe(**training)
        phase = plain.phases[0].model_copy(update={"batch": Batch(**batch)})
        return Target(plain.model_copy(update={"phases": (phase,)}), BY_PART, LAYERS, machine)

    def count(*arguments, **training):
        target = made(*arguments, **training)
        return training_for(target, target.recipe.phases[0], WHOLE).at_once

    wide, narrow = Machine(400 * GB, is_gpu=True), Machine(32 * GB, is_gpu=True)
    assert count(wide) == 32_768  # all of a batch
    assert count(narrow) == 8_192
    assert count(wide, {"size": 4_096, "unit": "tokens"}) == 4_096
    assert count(wide, micro_batch_tokens=4_096) == 4_096  # as was asked for
    assert count(Machine(400 * GB, is_gpu=False)) == 4_096
    target = made(wide)
    taught = target.recipe.phases[0].model_copy(update={"distil": Distil()})
    assert training_for(target, taught, WHOLE).at_once == 4_096  # a teacher, which nobody counts

    needs, said = verdict(made(narrow), [WHOLE])
    asked, _ = verdict(made(narrow, micro_batch_tokens=8_192), [WHOLE])
    assert needs == asked
    assert needs["phase-1"].total <= narrow.usable / 2
    assert said.endswith("it fits, with 8,192 tokens at once")
    assert verdict(made(narrow, micro_batch_tokens=8_192), [WHOLE])[1].endswith("it fits")


@pytest.mark.parametrize("family", ["llama", "gpt2", "roberta", "modernbert", "t5"])
def test_layers_are_read_from_the_files(family, tiny_source, tiny_model):
    folder, record = tiny_source(family), FAMILIES[family]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    data = {"language": "ko", "source": {"model": str(folder)}, "corpus": {"text": ["a.txt"]}}
    made = recipe_from(data | {"graft": {"layers_after": 0}})
    found = Layers.of(tensor_shapes(folder), config, record, made)
    model = tiny_model(family)
    last = f"{record.lists[-1].layers}.1."
    maps = [p for n, p in model.named_parameters() if n.startswith(last) and p.dim() == 2]
    assert found.width == 32
    assert found.heads == 2
    assert found.number == 3 * len(record.lists)
    assert found.parameters == found.number * sum(p.numel() for p in maps)
    up = max(math.prod(p.shape) for p in maps)
    assert found.read >= 32
    assert found.written * 32 >= up


def test_this_machine_has_memory_and_its_guess_of_bf16_is_torch_s():
    found = memory.this_machine()
    assert found.bytes > GB / 2
    if not found.is_gpu:
        assert found.bf16 == multiplies_bf16()


def test_a_limit_of_the_container_counts(monkeypatch):
    monkeypatch.setattr(memory, "_gpu", lambda: None)
    monkeypatch.setattr(memory, "_control_group", lambda: 3 * GB)
    assert memory.this_machine().bytes == 3 * GB
    monkeypatch.setattr(memory, "_gpu", lambda: Machine(5 * GB, is_gpu=True))
    assert memory.this_machine() == Machine(5 * GB, is_gpu=True)


SMI = """#!/bin/sh
case "$*" in
*--id=1*) echo "15360, 7.5" ;;
*--id=GPU-b*) echo "81559, 9.0" ;;
*) printf "4096, 8.6\\n15360, 7.5\\n" ;;
esac
"""


def test_without_torch_the_first_gpu_that_it_may_see_is_the_machine(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", None)
    for visible, size, bf16 in (("0", 4096, True), ("1,0", 15360, False), ("GPU-b1", 81559, True)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert memory.this_machine() == Machine(size << 20, is_gpu=True, bf16=bf16)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not memory.this_machine().is_gpu


@pytest.mark.parametrize("has_gpu", [True, False])
def test_where_torch_is_loaded_it_knows_the_gpu_and_nobody_else_is_asked(has_gpu, monkeypatch):
    slice_of_one = SimpleNamespace(total_memory=20 * GB)
    monkeypatch.setattr(shutil, "which", lambda _: pytest.fail("asked another program"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: slice_of_one)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    found = memory.this_machine()
    assert found.is_gpu is has_gpu
    if has_gpu:
        assert found == Machine(20 * GB, is_gpu=True, bf16=False)


def test_the_plan_of_a_source_has_all_of_it(tiny_source, korean_text):
    data = {"language": "ko", "source": {"model": str(tiny_source("llama"))}}
    plan = preflight.check(recipe_from(data | {"corpus": {"text": [str(korean_text)]}}))
    assert set(plan.memory) == {phase["name"] for phase in plan.phases}
    assert "needs about" in plan.fits
