"""A step whose passes do not fit into memory is taken again in smaller ones: its sums are equal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch

from lingraft.errors import is_memory_full
from lingraft.training.accumulation import Totals, accumulate

if TYPE_CHECKING:
    import numpy as np
    from accelerate import Accelerator
    from torch import nn

    from lingraft.training.data import Step
    from lingraft.training.problem import Problem

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
