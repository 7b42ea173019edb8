"""What training is said to take: what is certain exactly, and which settings take less."""

from __future__ import annotations

import types

import pytest
import torch

from lingraft.pipeline import memory
from lingraft.pipeline.jobs import training_here
from lingraft.pipeline.memory import need, verdict
from lingraft.pipeline.outline import outline, shapes_of
from lingraft.pipeline.suiting import suited
from lingraft.recipe.methods import recipe_from

GB = 10**9


@pytest.fixture
def target(tiny_source):
    """Builds the outline of a run that trains one phase."""

    def made(train=("all",), size=20_000, **training):
        phase = {"name": "p", "train": list(train), "budget": {"value": 1}}
        phase |= {"batch": {"size": size, "unit": "tokens"}}
        data = {"language": "ko", "source": {"model": str(tiny_source("llama"))}}
        data |= {"corpus": {"text": ["a.txt"]}, "phases": [phase], "hardware": training}
        data |= {"tokenizer": {"action": "extend", "new_pieces": 100}}
        recipe = recipe_from(data)
        loaded = shapes_of(recipe)
        return outline(suited(recipe, loaded.family, tied=True), loaded)

    return made


def needed(made):
    return need(made, made.recipe.phases[0], made.recipe.hardware)


def test_weights_gradients_and_moments_are_those_of_the_built_model(target):
    whole, rows = target(), target(train=["embeddings.new"])
    total = whole.model.num_parameters()
    found = needed(whole)
    assert (found.weights, found.gradients, found.moments) == (4 * total, 4 * total, 8 * total)
    matrix = rows.model.get_input_embeddings().weight.numel()
    found = needed(rows)
    assert found.gradients == 4 * (matrix + 100 * 32)  # the matrix has one whole
    assert found.moments == 8 * 100 * 32


def test_settings_that_save_memory_save_some(target):
    plain = needed(target(precision="fp32"))
    again = needed(target(precision="fp32", gradient_checkpointing=True))
    assert again.activations < plain.activations
    small = needed(target(precision="fp32", micro_batch_tokens=1_024))
    assert small.activations < plain.activations / 3
    top = needed(target(train=["layers[-1]"], precision="fp32"))
    assert top.activations < plain.activations / 2  # one of four layers has a backward pass


@pytest.fixture
def gpu(monkeypatch):
    """Says that this machine has a GPU of so many bytes."""

    def has(size):
        for where in ("lingraft.pipeline.jobs", "lingraft.pipeline.memory"):
            monkeypatch.setattr(f"{where}.device_for", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        device = types.SimpleNamespace(total_memory=size)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: device)

    return has


def test_a_gpu_with_memory_to_spare_takes_more_tokens_at_once(target, gpu):
    def count(made):
        return training_here(made.recipe, made.recipe.phases[0]).at_once

    assert count(target()) == 4_096  # a CPU
    gpu(80 * GB)
    assert count(target()) == memory.LARGEST_MICRO_BATCH
    assert count(target(size=4_096)) == 4_096  # all of a batch
    assert count(target(micro_batch_tokens=512)) == 512  # as was asked for
    gpu(GB)
    assert count(target()) == 4_096


def test_what_does_not_fit_is_told_what_to_change(target, gpu):
    needs = {"p": needed(target())}
    gpu(80 * GB)
    assert verdict(needs).endswith("this GPU has 80.0 GB: it fits")
    gpu(GB // 2)
    assert "it does not fit; set hardware.gradient_checkpointing=true" in verdict(needs)
