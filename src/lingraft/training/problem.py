"""Problem that a phase learns: data, loss, and how well it goes. The loop knows no more than this.

Masked language modelling is one problem; fine-tuning on a task is another.

Gradients of a step are summed over micro-batches; each term of the loss is divided once. A step
whose passes do not fit into memory is taken again in smaller ones: its sums are equal.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch

from lingraft.devices import widest
from lingraft.errors import is_memory_full
from lingraft.models import lora
from lingraft.models.graft import is_tied
from lingraft.models.selection import Layout, Selection, gains_of
from lingraft.training.trained import select

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    from accelerate import Accelerator
    from torch import nn
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.recipe import Phase
    from lingraft.training.data import Step
    from lingraft.training.mean_teacher import MeanTeacher
    from lingraft.training.mixture import Plan
    from lingraft.training.objectives.common import Losses
    from lingraft.training.phase import Work
    from lingraft.training.trained import Trained

logger = logging.getLogger(__name__)


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
    mean: MeanTeacher | None = None
    """Mean of the weights, which teaches, and is looked at and saved in their place."""
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


def by_term(means: dict[str, float], prefix: str = "loss") -> dict[str, float]:
    """Return columns of metrics.jsonl for the terms of a loss; none where it has a single one."""
    return {f"{prefix}/{term}": mean for term, mean in means.items()} if len(means) > 1 else {}


class Totals:
    """Sums of a loss's terms, over micro-batches and steps, then over processes."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.targets: dict[str, int] = {}
        self.sums: dict[str, torch.Tensor] = {}
        """By term: nats and predicted tokens of this process."""

    def expect(self, step: Step) -> None:
        """Announce a step: what all processes together predict in it."""
        for term, count in step.targets.items():
            self.targets[term] = self.targets.get(term, 0) + count
            self.sums.setdefault(
                term, torch.zeros(2, dtype=widest(self.device), device=self.device)
            )

    def add(self, losses: Losses, weight: float) -> None:
        """Add a micro-batch; one that is a stand-in has weight 0."""
        for term, (nats, positions) in losses.items():
            self.sums[term][0] += nats.detach().to(widest(self.device)) * weight
            self.sums[term][1] += positions * weight

    def means(self, accelerator: Accelerator) -> dict[str, float]:
        """Return the mean nats of each term over all processes; 0 for no targets. A collective."""
        rows = accelerator.reduce(torch.stack(list(self.sums.values())), reduction="sum").tolist()
        sums = dict(zip(self.sums, rows, strict=True))
        counts = {term: int(count) for term, (_, count) in sums.items()}
        assert counts == self.targets, f"predicted {counts}, divided by {self.targets}"
        return {term: nats / max(1, counts[term]) for term, (nats, _) in sums.items()}


def accumulate(step: Step, module: nn.Module, accelerator: Accelerator) -> Totals:
    """Add up the gradients of a step's micro-batches; a term is divided by its own global count.

    Args:
        step: this process' share.
        module: prepared; gives the summed losses of a micro-batch, by term.
        accelerator: device, processes, precision.

    Returns:
        The terms' sums of this process.
    """
    totals = Totals(accelerator.device)
    totals.expect(step)
    # DDP averages gradients over processes
    scales = {
        term: accelerator.num_processes / max(1, count) for term, count in step.targets.items()
    }
    for number, (batch, weight) in enumerate(zip(step.micro_batches, step.weights, strict=True), 1):
        last = number == len(step.micro_batches)
        with contextlib.nullcontext() if last else accelerator.no_sync(module):
            losses: Losses = module(batch.to(accelerator.device))
            parts = [loss.nats * (scales[term] * weight) for term, loss in losses.items()]
            accelerator.backward(sum(parts[1:], parts[0]))
        totals.add(losses, weight)
    return totals


FEWEST = 16
"""Tokens at once; as in the recipe's hardware.micro_batch_tokens."""


def gradients(
    step: Step,
    place: tuple[np.ndarray[Any, Any], int, int],
    problem: Problem,
    module: nn.Module,
    accelerator: Accelerator,
) -> tuple[Step, Totals]:
    """Add up a step's gradients; where memory is full, of half as many tokens at once from then on.

    Several processes, of which one alone may be full, stop as before.

    Args:
        step: this process' share.
        place: indices of the global batch, pass over the data, and the seed of dropout.
        problem: lays a step out anew.
        module: prepared; holds all gradients, none yet.
        accelerator: device, processes, precision.

    Returns:
        The step as it was laid out in the end, and the terms' sums of this process.
    """
    indices, epoch, seed = place
    while True:
        torch.manual_seed(seed)
        try:
            return step, accumulate(step, module, accelerator)
        except (RuntimeError, MemoryError) as error:
            if not can_be_halved(error, accelerator):
                raise
            full = error.with_traceback(None)  # which holds what the passes have kept
        module.zero_grad(set_to_none=True)
        most = len(step.micro_batches)
        # the step may have been laid out before the number was halved last
        while len((step := problem.step(indices, epoch, 0, 1)).micro_batches) <= most:
            if not halve(problem):
                raise full


def can_be_halved(error: Exception, accelerator: Accelerator) -> bool:
    """Return whether memory is full, and smaller passes can help."""
    is_full = isinstance(error, torch.OutOfMemoryError) or is_memory_full(error)
    return is_full and accelerator.num_processes == 1


def halve(problem: Problem) -> bool:
    """Let half as many tokens go through the model at once; False where so few cannot be halved."""
    if problem.micro_batch_tokens <= FEWEST:
        return False
    problem.micro_batch_tokens //= 2
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()  # what the pass that failed has left idle
    logger.warning(
        "memory is full: training goes on with %d tokens at once "
        "(hardware.micro_batch_tokens), and the same sums",
        problem.micro_batch_tokens,
    )
    return True
