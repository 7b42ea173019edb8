"""Estimate the memory that training takes at its peak, from what the target's outline counts."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lingraft.devices import device_for
from lingraft.models.chunked import LOGITS_AT_ONCE
from lingraft.models.parts import layer_index
from lingraft.models.rows import ROW_MULTIPLE
from lingraft.recipe.base import READ_PAIRS
from lingraft.training.machine import multiplies_bf16

if TYPE_CHECKING:
    from lingraft.pipeline.outline import Outline
    from lingraft.recipe import Hardware, Phase

PROGRAM = 600_000_000
"""Bytes of Python with torch and transformers, before any model."""
FILLED = 0.9
"""Share of a machine's memory that can be used."""
MORE = 1.4
"""Times as much as in an encoder that a decoder's passes take, measured."""
LARGEST_MICRO_BATCH = 32_768
ERROR = 0.2
"""By how much an estimate is wrong (`research/benchmarks/memory.py` measures)."""


@dataclass(frozen=True)
class Need:
    """Bytes that a phase takes at its peak, by what they are for."""

    weights: int
    gradients: int
    moments: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All together, with the program's own."""
        return PROGRAM + sum(dataclasses.astuple(self))


def need(target: Outline, phase: Phase, hardware: Hardware) -> Need:
    """Estimate what a phase takes.

    Args:
        target: the model.
        phase: what trains on what.
        hardware: how many tokens go through the model at once, and in what numbers.
    """
    counted, model, config = target.counted(phase), target.model, target.model.config
    auto = hardware.precision == "auto" and (multiplies_bf16() or _on_gpu())
    size = 2 if auto or hardware.precision in ("bf16", "fp16") else 4
    row, tokens = _row_and_tokens(target, phase, hardware)
    crosses = {"ca_mlm"} & {name for e in phase.data for name in (e.objective, *e.also)}
    passes = 2 if crosses or phase.objective == "ca_mlm" else 1  # without partners and with them
    maps = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and layer_index(name, target.family) is not None
    ]
    attention = 0 if _on_gpu() else 4 * size * config.num_attention_heads * row
    layer = 16 * config.hidden_size + attention
    layer += int(size * sum(sum(one.shape) for one in maps) / target.layers)
    kept = layer * counted.layers
    if hardware.gradient_checkpointing:
        kept = layer + 4 * config.hidden_size * counted.layers
    activations = passes * tokens * (kept + 8 * config.hidden_size)
    copies = 2 * sum(one.numel() for one in maps) if size == 2 else 0
    saved = 2 * counted.frozen_maps if hardware.frozen_weights == "bf16" and size == 2 else 0
    predicted = tokens * (1.0 if phase.objective in ("clm", "denoise") else phase.masking.rate)
    logits = passes * int(predicted * target.rows)
    if phase.objective == "clm":
        logits = min(logits, LOGITS_AT_ONCE)
    more = MORE if phase.objective in ("clm", "denoise") else 1.0
    return Need(
        4 * (sum(target.by_part.values()) + target.teacher(phase)) - saved,
        4 * counted.gradients,
        8 * counted.parameters,
        int(more * activations) + copies,
        int(more * logits * (8 + size)),
    )


def _row_and_tokens(target: Outline, phase: Phase, hardware: Hardware) -> tuple[int, int]:
    """Tokens of a row, and of what goes through the model at once."""
    most = target.recipe.tokenizer.max_tokens
    context = getattr(target.model.config, "max_position_embeddings", None) or 2 * most
    unit = 0
    for entry, _ in target.recipe.read_in(phase):
        for objective in phase.objectives_of(entry):
            if objective in READ_PAIRS:
                unit = max(unit, 2 * min(entry.max_tokens or most, hardware.row_tokens))
            elif objective == "clm" or phase.packing:
                unit = max(unit, min(most, context))
    row = max(hardware.row_tokens, -(-unit // ROW_MULTIPLE) * ROW_MULTIPLE)
    batch = max(phase.batch.size, phase.mixture.bilingual_batch or 0)
    batch *= max(row, most) if phase.batch.unit == "sentences" else 1
    return row, max(row, min(hardware.at_once, batch))


def training_for(target: Outline, phase: Phase, hardware: Hardware) -> Hardware:
    """Choose how many tokens go through the model at once, where the recipe leaves it open.

    4,096; on a GPU, for which that is little, twice as many as long as half of its memory holds
    them, and a step has as many. Not with a teacher, whose activations are in no estimate.
    """
    if hardware.micro_batch_tokens is not None or not _on_gpu() or phase.distil is not None:
        return hardware
    now, most = need(target, phase, hardware).total, room() / 2
    while hardware.at_once < LARGEST_MICRO_BATCH:
        larger = hardware.model_copy(update={"micro_batch_tokens": 2 * hardware.at_once})
        total = need(target, phase, larger).total
        if not now < total <= most:
            break
        hardware, now = larger, total
    return hardware


def verdict(needs: dict[str, Need]) -> str:
    """Say whether all phases fit into this machine's memory, and what to do where not."""
    worst = max(needs, key=lambda name: needs[name].total)
    total, usable = needs[worst].total, room()
    machine = "this GPU" if _on_gpu() else "this machine"
    said = (
        f"phase '{worst}' needs about {total / 1e9:,.1f} GB (estimated, {ERROR:.0%} up or down), "
        f"and {machine} has {usable / FILLED / 1e9:,.1f} GB"
    )
    if total <= usable:
        return f"{said}: it fits"
    return (
        f"{said}: it does not fit; set hardware.gradient_checkpointing=true, train the body by "
        "LoRA or not at all (phases.….train), divide it over several GPUs "
        "(hardware.sharding=fsdp2), or take a smaller source"
    )


def room() -> float:
    """Bytes that can be filled: of the GPU, else of main memory, of which a container has less."""
    if _on_gpu():
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        return FILLED * int(device.total_memory)
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()).isdecimal():
        limits.append(int(text))
    return FILLED * min(limits)


def _on_gpu() -> bool:
    return device_for().type == "cuda"
