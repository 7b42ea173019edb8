"""Gradients of a step, summed over micro-batches; each term of the loss is divided once.

A step whose passes do not fit into memory is taken again in smaller ones: its sums are equal.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import torch

from lingraft.devices import widest
from lingraft.errors import is_memory_full

if TYPE_CHECKING:
    import numpy as np
    from accelerate import Accelerator
    from torch import nn

    from lingraft.training.data import Step
    from lingraft.training.objectives.common import Losses
    from lingraft.training.problem import Problem


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


logger = logging.getLogger(__name__)
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
    """Return whether memory is full, and smaller passes can help; give back what is held idle."""
    is_full = isinstance(error, torch.OutOfMemoryError) or is_memory_full(error)
    if accelerator.device.type == "cuda":
        torch.cuda.empty_cache()
    return is_full and accelerator.num_processes == 1


def halve(problem: Problem) -> bool:
    """Let half as many tokens go through the model at once; False where so few cannot be halved."""
    if problem.micro_batch_tokens <= FEWEST:
        return False
    problem.micro_batch_tokens //= 2
    logger.warning(
        "memory is full: training goes on with %d tokens at once "
        "(hardware.micro_batch_tokens), and the same sums",
        problem.micro_batch_tokens,
    )
    return True
