"""Parts of a phase of training: its inputs, how far it has come, what it trains, who looks on."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lingraft.errors import TrainingError
from lingraft.training.compiling import encoder_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.packed import PackedBatch, PackedModel
    from lingraft.recipe import Hardware, Phase
    from lingraft.training.data import Reading, Step
    from lingraft.training.objectives.common import Losses, Objective, TokenIds
    from lingraft.training.objectives.distillation import Teacher


class Stopped(TrainingError):
    """Stop of a run that a signal asked for, after a checkpoint."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number
        self.exit_status = 128 + signal_number


class WithObjective(nn.Module):
    """Model and objectives as one module: a distributed wrapper sees the whole forward pass."""

    def __init__(self, packed: PackedModel, *objectives: Objective) -> None:
        super().__init__()
        self.packed = packed
        self.objectives = {objective.name: objective for objective in objectives}

    def forward(self, batch: PackedBatch) -> Losses:
        """Return the summed loss by term, of the objective that the batch is for."""
        return self.objectives[batch.objective].loss(self.packed, batch)


@dataclass
class State:
    """Progress of a phase; plain data, kept in the checkpoint."""

    fingerprint: str
    step: int = 0
    epoch: int = 0
    index: int = 0
    tokens: int = 0
    sentences: int = 0
    masked: int = 0
    seconds: float = 0.0
    passed: float = 0.0
    """Seconds since the first step, of everything, by the main process' clock."""
    step_seconds: float = 0.0
    """Seconds that the coming step may take."""
    allowed: float = 0.0
    """Seconds that `passed` may come to, of a budget in time; 0 before that is known."""
    cooling: bool = False
    """Whether the cooldown of warm-up, stable, decay has begun."""
    stable_fingerprint: str = ""
    warmed: float = math.inf
    """Share of the phase in which a shorter one had warmed up that it goes on from."""
    looks_since_best: int = 0
    best_step: int = -1
    best: float = math.inf
    """The number that looks are compared by, lower is better."""
    best_loss: float = math.inf
    last_loss: float = math.inf
    stopped: str = ""
    loss_scale: dict[str, Any] = field(default_factory=dict)
    """State of fp16's factor; empty in other formats."""

    def go_on(self, fingerprint: str) -> None:
        """Begin a longer phase where the cooldown of a shorter one began."""
        self.fingerprint, self.stopped, self.cooling, self.allowed = fingerprint, "", False, 0.0
        self.best, self.best_loss, self.best_step, self.looks_since_best = math.inf, math.inf, -1, 0

    @property
    def result(self) -> dict[str, Any]:
        """Return what done.json says of a phase."""
        return {
            "steps": self.step,
            "tokens": self.tokens,
            "sentences": self.sentences,
            "masked": self.masked,
            "seconds": round(self.seconds, 2),
            "tokens_per_second": round(self.tokens / max(self.seconds, 1e-9), 1),
            "best": {"step": self.best_step, "loss": self.best_loss},
            "last_loss": self.last_loss,
            "stopped": self.stopped,
        }


@dataclass(frozen=True, kw_only=True)
class Work:
    """Settings of where and how a phase runs, whatever it learns."""

    phase: Phase
    hardware: Hardware
    seed: int
    folder: Path
    metrics_path: Path
    fingerprint: str
    average_last: int = 0
    """Keep the weights at so many last looks (`checkpoint`)."""
    decay_all: bool = False
    """Weight decay on biases and normalisation weights too."""
    stable_fingerprint: str = ""
    """Fingerprint of what the phase is made from but for its budget: what the cooldown begins with
    is kept for a longer phase of the same; none where nothing is to be kept."""
    allow: Callable[[float, int], float] | None = None
    """Seconds that a phase with a budget in time may take from now on, by the seconds and tokens of
    a look at the validation text."""
    clock: Callable[[], float] = time.monotonic
    on_row: Callable[[dict[str, Any]], None] | None = None
    """Told, on the main process, of each row that is written to `metrics_path`."""


@dataclass(frozen=True, kw_only=True)
class Job(Work):
    """A phase of masked language modelling: what it trains on, fixed for the phase."""

    family: Family
    itl_layers: frozenset[int]
    new_rows: tuple[bool, ...] | None = None
    """[V] whether the vocabulary stage added a piece; None where no phase asks for rows."""
    readings: tuple[Reading, ...]
    vocabulary: TokenIds
    teacher: Teacher | None = None
    """Whose sentence states the phase draws its own to, on the stream `distilled`."""
    distilled: str | None = None
    kept_config: dict[str, Any] = field(default_factory=dict)
    """Configuration values that training changed (dropout) and saving puts back."""


def lighten(model: nn.Module) -> int:
    """Keep the frozen matrices of linear maps in bf16, where that rounds nothing.

    Under autocast these maps compute in bf16 whatever their weights are kept in, so that not a bit
    of the result changes; models that were published in bf16 take half of the memory.

    Returns:
        How many numbers are kept so.
    """
    count = 0
    for layer in encoder_layers(model):
        for part in layer.modules():
            if not isinstance(part, nn.Linear | Conv1D) or part.weight.requires_grad:
                continue
            halved = part.weight.detach().bfloat16()
            if torch.equal(halved.float(), part.weight.detach()):
                part.weight.data = halved
                count += halved.numel()
    return count


@contextlib.contextmanager
def in_fp32(model: nn.Module, *, on_cpu: bool = True) -> Iterator[None]:
    """Keep all weights in fp32 for a while.

    Args:
        model: some of its matrices may be in bf16.
        on_cpu: these come to the CPU, which has room; else they stay where they are, to be
            computed with.
    """
    halved = {p: p.data for p in model.parameters() if p.dtype == torch.bfloat16}
    for parameter, data in halved.items():
        parameter.data = (data.cpu() if on_cpu else data).float()
    try:
        yield
    finally:
        for parameter, data in halved.items():
            parameter.data = data


def recompute_activations(model: PreTrainedModel) -> None:
    """Let each layer keep only its input in training and compute the rest again.

    Activation checkpointing (Chen et al. 2016), without reentrant autograd: frozen parts may stand
    below. Dropout draws the same again, so the gradients are those of the plain backward pass.
    """
    model.activation_checkpointing_enable({"use_reentrant": False})
    # It gives the embeddings' output a gradient, for reentrant autograd; where the embeddings are
    # frozen, that would cost a backward pass through frozen layers.
    model.disable_input_require_grads()


class StepCallback:
    """Observer of every step; this one does nothing. It may end the training by its own error."""

    def begin(self) -> None:
        """Take note that a step begins."""

    def end(self, indices: np.ndarray[Any, Any], step: Step) -> None:
        """Take note that a step is done, with everything that belongs to it.

        Args:
            indices: examples of the global batch.
            step: this process' share of it.
        """
