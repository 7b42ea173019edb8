"""How much memory a phase will take, and what this machine has. No torch: `lingraft check` asks.

Sizes come from the headers of the source's files. It is a sum of what is certain (weights,
gradients, the optimiser's two moments) and of what the layers keep for the backward pass: what
their maps read and write, what norms keep, and on a CPU the probabilities of attention.
`benchmarks/memory.py --training` measures how near that comes.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.models.parts import layer_index
from lingraft.recipe.facts import TOKENS_PER_SENTENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lingraft.models.families import Family
    from lingraft.pipeline.trainable import Trained
    from lingraft.recipe import Phase, Recipe, Training
    from lingraft.recipe.base import Objective
    from lingraft.recipe.phase import Masking

PROGRAM = 600_000_000
"""Bytes of Python with torch and transformers, before any model."""
LOGITS_AT_ONCE = 1 << 25
"""Logits of clm that are there at a time; `models.chunked` says why, and a test that it is so."""
HEAD_COUNT = ("num_attention_heads", "n_head", "encoder_attention_heads", "num_heads", "n_heads")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
SHORTEST_MICRO_BATCH = 512
LONGEST_MICRO_BATCH = 32_768
AMPERE = 8.0
"""The compute capability from which NVIDIA's GPUs multiply bf16; V100 and T4 have a lower one."""
FILLED = 0.9
"""Share of a machine's memory that can be used."""


@dataclass(frozen=True)
class Layers:
    """What a target's layers are like."""

    number: int
    width: int
    heads: int
    read: int
    """Numbers that the linear maps of a layer read for each token."""
    written: int
    """Numbers that they write."""
    parameters: int
    """Of all linear maps of all layers."""
    rows: int
    """Of the embeddings."""

    @classmethod
    def of(
        cls,
        shapes: Mapping[str, tuple[int, ...]],
        config: Mapping[str, Any],
        family: Family,
        recipe: Recipe,
    ) -> Layers | None:
        """From the source's tensors; None where its config.json lacks a number.

        Args:
            shapes: of the source's tensors.
            config: its config.json.
            family: its record.
            recipe: what is inserted, and how many rows there will be.
        """
        numbers = {index for name in shapes if (index := layer_index(name, family)) is not None}
        width = next((int(config[key]) for key in WIDTH if config.get(key)), None)
        heads = next((int(config[key]) for key in HEAD_COUNT if config.get(key)), None)
        if not numbers or width is None or heads is None:
            return None
        maps = [
            shape
            for name, shape in shapes.items()
            if layer_index(name, family) == max(numbers) and len(shape) == 2
        ]
        in_first, out_first = (0, 1) if family.model_type == "gpt2" else (1, 0)
        lists = len(family.lists)
        number = len(numbers) + lists * recipe.graft.places.number(len(numbers) // lists)
        return cls(
            number,
            width,
            heads,
            sum(shape[in_first] for shape in maps),
            sum(shape[out_first] for shape in maps),
            number * sum(math.prod(shape) for shape in maps),
            recipe.tokenizer.most_rows(shapes[family.word_embeddings][0]),
        )


@dataclass(frozen=True)
class Need:
    """Bytes that a phase takes at its peak, by what they are for."""

    weights: int
    gradients: int
    optimiser: int
    activations: int
    """What layers keep for the backward pass, and the copies in bf16 that they compute with."""
    logits: int
    program: int = PROGRAM

    @property
    def total(self) -> int:
        """All together."""
        return sum(dataclasses.astuple(self))


@dataclass(frozen=True)
class Machine:
    """Where a model trains."""

    bytes: int
    is_gpu: bool
    bf16: bool = True
    """Whether 'auto' is taken for bf16; a guess where nobody asked the processor."""

    @property
    def name(self) -> str:
        """For messages."""
        return "this GPU" if self.is_gpu else "this machine"

    @property
    def usable(self) -> int:
        """Bytes that can be filled."""
        return int(self.bytes * FILLED)


@dataclass(frozen=True)
class Target:
    """A model and where it trains: what the memory of every phase depends on."""

    recipe: Recipe
    """How long rows are, and how the machine is used."""
    by_part: Mapping[str, int]
    """Parameters."""
    layers: Layers
    machine: Machine


def this_machine() -> Machine:
    """The GPU if there is one, else main memory, of which a container may have less."""
    if (gpu := _gpu()) is not None:
        return gpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [memory, *filter(None, [_control_group()])]
    return Machine(min(limits), is_gpu=False, bf16=_multiplies_bf16())


def _gpu() -> Machine | None:
    """The GPU that torch uses, or where torch is not loaded the first one that it may see.

    Then NVIDIA's own program is asked, which names whole GPUs, and no others.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if not torch.cuda.is_available():
            return None
        size = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return Machine(int(size), is_gpu=True, bf16=bool(bf16))
    name = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    program = shutil.which("nvidia-smi")
    if name in ("", "-1") or program is None:
        return None
    query = [program, "--query-gpu=memory.total,compute_cap", "--format=csv,noheader,nounits"]
    chosen = [] if name.startswith("MIG-") else [f"--id={name}"]
    try:
        done = subprocess.run(
            query + chosen, capture_output=True, text=True, check=True, timeout=20
        )
        size, capability = done.stdout.splitlines()[0].split(",")
        return Machine(int(size) << 20, is_gpu=True, bf16=float(capability) >= AMPERE)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _control_group() -> int | None:
    """What a container may take; None without a limit."""
    path = Path("/sys/fs/cgroup/memory.max")
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _multiplies_bf16() -> bool:
    """As `training.machine` asks torch: AMX, or AVX512 with bf16."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "amx_bf16" in flags or "avx512_bf16" in flags


def need(target: Target, phase: Phase, trained: Trained) -> Need:
    """What a phase takes.

    Args:
        target: the model, and where it trains.
        phase: what trains on what.
        trained: what of the target the phase trains.
    """
    recipe, layers, machine = target.recipe, target.layers, target.machine
    training = recipe.training
    bf16 = training.precision == "bf16" or (training.precision == "auto" and machine.bf16)
    size = 2 if bf16 else 4
    is_clm = phase.objective == "clm"
    row = max(training.row_tokens, recipe.tokenizer.max_tokens if is_clm else 0)
    tokens = max(row, training.at_once)
    if phase.batch.unit == "tokens":
        tokens = max(row, min(tokens, phase.batch.size))
    else:
        tokens = min(tokens, phase.batch.size * max(row, recipe.tokenizer.max_tokens))
    learning, still = (
        _layer_bytes(layers, size, row, machine, trained=trains) for trains in (True, False)
    )
    everything = learning * trained.learning + still * (trained.layers - trained.learning)
    if training.gradient_checkpointing and trained.layers:
        most = learning if trained.learning else still
        everything = 4 * layers.width * trained.layers + most
    embedded, passes = 8 * layers.width, _passes(phase)
    activations = passes * tokens * (everything + embedded)
    activations += 2 * layers.parameters if bf16 else 0
    weights = 4 * sum(target.by_part.values())
    if training.frozen_weights == "bf16" and bf16:
        weights -= 2 * trained.frozen_maps
    return Need(
        weights,
        4 * (trained.parameters + trained.matrices),
        8 * trained.parameters,
        activations,
        passes * _logit_bytes(target, phase, tokens, size),
    )


def _layer_bytes(layers: Layers, size: int, row: int, machine: Machine, *, trained: bool) -> int:
    """What a layer keeps for each token until the backward pass."""
    norms = 16 * layers.width  # their input and the normalised input, twice, in fp32
    maps = size * (layers.written + (layers.read if trained else layers.width))
    # a fused kernel of a GPU keeps no probabilities; on a CPU those before and behind dropout
    attention = 0 if machine.is_gpu else size * layers.heads * row
    return norms + maps + attention


def _logit_bytes(target: Target, phase: Phase, tokens: int, size: int) -> int:
    """Logits of what is predicted at once, with their softmax and gradient in fp32."""
    rows = target.layers.rows
    if phase.objective == "clm":
        at_once = min(tokens * rows, LOGITS_AT_ONCE)
        own = 2 * 4 * target.by_part["embeddings"] if "embeddings" in phase.trained else 0
        return at_once * (8 + size) + own  # the head's gradient too, before it is scaled
    return int(tokens * _predicted(phase) * rows * (8 + size))


def _read(phase: Phase) -> list[tuple[Objective, Masking]]:
    """Under which objectives a phase reads its streams, and how they are masked."""
    return [
        (objective, entry.masking or phase.masking)
        for entry in phase.data
        for objective in (entry.objective or phase.objective, *entry.also)
    ] or [(phase.objective, phase.masking)]


def _passes(phase: Phase) -> int:
    """How often the model reads a batch before the backward pass: twice for CA-MLM (VECO)."""
    return 2 if any(objective == "ca_mlm" for objective, _ in _read(phase)) else 1


def _predicted(phase: Phase) -> float:
    """The largest share of the tokens at once that is predicted."""
    shares = []
    for objective, masking in _read(phase):
        share = masking.rate
        if objective == "denoise":  # the decoder writes the whole sentence, or all spans
            spans = share * (1 + 1 / masking.mean_span) + 2 / TOKENS_PER_SENTENCE
            share = min(1.0, spans) if masking.scheme == "spans" else 1.0
        shares.append(share)
    return max(shares)


def _need_with(target: Target, training: Training, phase: Phase, trained: Trained) -> Need:
    """What a phase takes where the machine is used so."""
    recipe = target.recipe.model_copy(update={"training": training})
    return need(replace(target, recipe=recipe), phase, trained)


def remedies(target: Target, phase: Phase, trained: Trained) -> Iterator[tuple[str, Need]]:
    """Settings that take less memory, each with those before it, and what is needed then."""
    training, settings = target.recipe.training, list[str]()

    def with_them(changed: Training) -> tuple[str, Need]:
        return ", ".join(settings), _need_with(target, changed, phase, trained)

    if not training.gradient_checkpointing:
        training = training.model_copy(update={"gradient_checkpointing": True})
        settings.append("training.gradient_checkpointing=true")
        yield with_them(training)
    smaller = training.at_once
    while smaller > SHORTEST_MICRO_BATCH:
        smaller = max(SHORTEST_MICRO_BATCH, smaller // 2)
        training = training.model_copy(update={"micro_batch_tokens": smaller})
        settings[:] = [setting for setting in settings if "micro_batch" not in setting]
        settings.append(f"training.micro_batch_tokens={smaller}")
        yield with_them(training)
    if trained.frozen_maps and training.frozen_weights != "bf16":
        training = training.model_copy(update={"frozen_weights": "bf16"})
        settings.append("training.frozen_weights=bf16")
        yield with_them(training)


def training_for(target: Target, phase: Phase, trained: Trained) -> Training:
    """How the machine is used in a phase: with how many tokens through the model at once.

    What the recipe says; else 4,096, and on a GPU, for which that is little, twice as many as long
    as half of its memory holds them, since all this is an estimate, and a step has as many. Not
    with a teacher, which is in no estimate.

    Args:
        target: the model, and where it trains.
        phase: what trains on what.
        trained: what of the target the phase trains.
    """
    training, machine = target.recipe.training, target.machine
    if training.micro_batch_tokens is not None or not machine.is_gpu or phase.distil is not None:
        return training
    now = need(target, phase, trained).total
    while training.at_once < LONGEST_MICRO_BATCH:
        larger = training.model_copy(update={"micro_batch_tokens": 2 * training.at_once})
        total = _need_with(target, larger, phase, trained).total
        if not now < total <= machine.usable / 2:
            break
        training, now = larger, total
    return training


def verdict(target: Target, trained: Sequence[Trained]) -> tuple[dict[str, Need], str]:
    """What each phase needs, and a sentence on whether it fits.

    Args:
        target: the model, its recipe with its phases, and where it trains.
        trained: what of the target each phase trains.
    """
    recipe, machine = target.recipe, target.machine
    counted = {phase.name: counts for phase, counts in zip(recipe.phases, trained, strict=True)}
    used = {phase.name: training_for(target, phase, counted[phase.name]) for phase in recipe.phases}
    needs = {
        phase.name: _need_with(target, used[phase.name], phase, counted[phase.name])
        for phase in recipe.phases
    }
    worst = max(recipe.phases, key=lambda phase: needs[phase.name].total, default=None)
    if worst is None:
        return needs, ""
    most = needs[worst.name].total
    tight = machine.usable < most <= machine.bytes
    begin = (
        f"phase '{worst.name}' needs about {_shown(most)} of memory (an estimate), and "
        f"{machine.name} has {_shown(machine.bytes)}"
        f"{f', of which {_shown(machine.usable)} can be filled' if tight else ''}"
    )
    if most <= machine.usable:
        tokens = used[worst.name].at_once
        more = f", with {tokens:,} tokens at once" if tokens > recipe.training.at_once else ""
        return needs, f"{begin}: it fits{more}"
    options = list(remedies(target, worst, counted[worst.name]))
    fitting = next((entry for entry in options if entry[1].total <= machine.usable), None)
    if fitting is not None:
        return needs, (
            f"{begin}: it does not fit; with {fitting[0]} it needs {_shown(fitting[1].total)}, "
            "and fits"
        )
    least = min((entry[1].total for entry in options), default=most)
    trains_body = "body" in worst.trained
    fewer = "train the body by LoRA or not at all (phases.….train), " if trains_body else ""
    tried = f", nor with {options[-1][0]} ({_shown(least)})" if options else ""
    return needs, (
        f"{begin}: it does not fit{tried}; {fewer}divide it over several GPUs or processes "
        "(training.sharding=fsdp2), or take a smaller source"
    )


def _shown(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
