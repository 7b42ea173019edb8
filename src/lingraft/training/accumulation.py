"""Gradients of a step, summed over micro-batches; each term of the loss is divided once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from lingraft.devices import widest

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import nn

    from lingraft.training.data import Step
    from lingraft.training.objectives.common import Losses


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
