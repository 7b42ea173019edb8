"""AdamW, its parameter groups, and the learning rate over a phase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from lingraft.training.sharding import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.recipe import Optimiser, Schedule


def optimiser_for(
    parameters: Iterable[torch.nn.Parameter], section: Optimiser, *, decay_all: bool = False
) -> torch.optim.AdamW:
    """Fused AdamW over the parameters that train.

    Biases and normalisation weights have no weight decay, unless `decay_all`. Frozen parameters
    get no state because they are not given to it.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": section.weight_decay},
        {
            "params": [p for p in trained if p.dim() < 2],
            "weight_decay": section.weight_decay if decay_all else 0.0,
        },
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=section.learning_rate,
        betas=section.betas,
        eps=section.epsilon,
        fused=True,
    )


def learning_rate_factor(done: float, schedule: Schedule, warmup_share: float) -> float:
    """The learning rate as a share of its peak.

    Args:
        done: share of the phase that is done, in [0, 1]; the middle of the step that is taken.
        schedule: its shape.
        warmup_share: share of the phase that warms up.
    """
    if done < warmup_share:
        return done / warmup_share
    if schedule.shape == "constant":
        return 1.0
    left = min(1.0, max(0.0, (1.0 - done) / max(1.0 - warmup_share, 1e-9)))
    return left if schedule.shape == "linear" else 0.5 * (1.0 - math.cos(math.pi * left))


def clip(parameters: Iterable[torch.nn.Parameter], max_norm: float | None) -> torch.Tensor:
    """Scale the gradients down to a global norm of `max_norm` at most; returns the norm before."""
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None]))
    if max_norm is not None:
        torch.nn.utils.clip_grads_with_norm_(trained, max_norm, norm)
    return norm
