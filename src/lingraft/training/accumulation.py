"""One step's gradients, summed over micro-batches and divided once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from accelerate import Accelerator
    from torch import nn

    from lingraft.training.data import Step


def accumulate(
    step: Step,
    module: nn.Module,
    accelerator: Accelerator,
    lap: Callable[[str], None] = lambda done: None,
) -> torch.Tensor:
    """Add up the gradients of a step's micro-batches, divided by the targets of the global batch.

    Args:
        step: this process' share.
        module: prepared; gives the summed loss of a micro-batch.
        accelerator: device, processes, precision.
        lap: told 'forward' or 'backward' after each.

    Returns:
        The summed loss of this process, in nats (fp64).
    """
    nats = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    # DDP averages gradients over processes
    scale = accelerator.num_processes / max(1, step.global_targets)
    for number, (batch, weight) in enumerate(zip(step.micro_batches, step.weights, strict=True), 1):
        last = number == len(step.micro_batches)
        with contextlib.nullcontext() if last else accelerator.no_sync(module):
            loss = module(batch.to(accelerator.device))
            lap("forward")
            accelerator.backward(loss * (scale * weight))
            lap("backward")
        nats += loss.detach().double() * weight
    return nats
