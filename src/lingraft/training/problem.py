"""Problem that a phase learns: data, loss, and how well it goes. The loop knows no more than this.

Masked language modelling is one problem; fine-tuning on a task is another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lingraft.models import lora
from lingraft.models.graft import is_tied
from lingraft.models.selection import Layout, Selection, gains_of
from lingraft.training.trained import select

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    import torch
    from accelerate import Accelerator
    from torch import nn
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.recipe import Phase
    from lingraft.training.data import Step
    from lingraft.training.mixture import Plan
    from lingraft.training.phase import Work
    from lingraft.training.trained import Trained


@dataclass(frozen=True)
class ValidationResult:
    """Result of a look at the held-out data."""

    loss: float
    """Mean nats, or the task's own loss."""
    score: float | None = None
    """Number that the best weights are chosen by, higher is better; None chooses by the loss."""
    metrics: dict[str, float] = field(default_factory=dict)
    """More numbers for metrics.jsonl."""
    tokens: int = 0
    """That were read, where somebody counts them."""

    @property
    def to_minimise(self) -> float:
        """Return the number by which looks are compared."""
        return self.loss if self.score is None else -self.score


class Problem(Protocol):
    """Problem of a phase, as the loop asks for it."""

    micro_batch_tokens: int
    """Tokens that go through the model at once; half as many where memory is full."""
    model: nn.Module
    """Its weights are what checkpoints keep; on the accelerator's device."""
    lengths: np.ndarray[Any, Any]
    """Real tokens of each training example."""
    module: nn.Module
    """From one of `step`'s micro-batches to the summed losses, by term."""
    trainable: int
    """Number of parameters that train."""
    uneven: bool
    """Whether a step may leave parameters out that train."""
    even: int | None = None
    """Tokens of a pass where all passes have one shape."""
    trained: Trained | None = None
    """Parameters that the optimizer is given; None: whatever of `model` has a gradient."""

    def plan(self, work: Work) -> Plan:
        """Return the order of the examples."""
        ...

    def step(self, indices: np.ndarray[Any, Any], epoch: int, rank: int, num_ranks: int) -> Step:
        """Return one process's share of a global batch."""
        ...

    def useful_flops(self, indices: np.ndarray[Any, Any], targets: int) -> float | None:
        """Return useful operations of a global batch; None where nobody counts them."""
        return None

    def look(self, module: nn.Module, accelerator: Accelerator) -> ValidationResult:
        """Judge the present weights; `module` is the prepared one."""
        ...

    def save(self, folder: Path) -> None:
        """Write the present weights as a checkpoint that can be loaded."""
        ...


def select_trained(
    model: PreTrainedModel,
    family: Family,
    phase: Phase,
    itl: frozenset[int],
    new_rows: Callable[[], torch.Tensor],
    seed: int = 0,
) -> Trained:
    """Put a phase's LoRA on a model, freeze what the phase does not train, in place.

    Args:
        model: a stock model; of one on the meta device only shapes are counted.
        family: its record.
        phase: what trains.
        itl: numbers of its inserted layers.
        new_rows: gives [V] whether the vocabulary stage added a row; asked where it matters.
        seed: of LoRA's weights.
    """
    depths = tuple(int(getattr(model.config, stack.depth_key)) for stack in family.lists)
    dimensions = ((name, parameter.dim()) for name, parameter in model.named_parameters())
    layout = Layout(family, itl, depths, is_tied(model), gains_of(dimensions, family, itl))
    selection = Selection(phase, layout)
    if phase.lora is not None:
        lora.insert(model, phase.lora, selection.adapts, f"phase '{phase.name}'", seed)
    return select(model, selection, new_rows)
