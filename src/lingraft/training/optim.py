"""AdamW, its parameter groups, and the learning rate over a phase."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import DTensor

from lingraft.training.sharding import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.models.selection import Piece
    from lingraft.recipe import Optimiser, Schedule


def optimiser_groups(
    parameters: Iterable[tuple[torch.nn.Parameter, Piece | None]],
    section: Optimiser,
    *,
    decay_all: bool = False,
) -> list[dict[str, Any]]:
    """Groups of parameters with the same settings: `params`, `weight_decay`, `peak`.

    Biases and normalisation weights have no weight decay, unless `decay_all`.

    Args:
        parameters: parameters that train, with their own settings or None.
        section: the settings of the others.
        decay_all: also decay vectors.
    """
    rate, decay = section.learning_rate, section.weight_decay
    groups: dict[tuple[bool, float, float, bool], list[torch.nn.Parameter]] = {
        (True, rate, decay, False): [],
        (False, rate, decay if decay_all else 0.0, False): [],
    }
    for parameter, piece in parameters:
        is_matrix = parameter.dim() >= 2
        own = (rate, decay) if piece is None else (piece.rate, piece.weight_decay)
        are_rows = piece is not None and piece.rows is not None  # never divided over processes
        key = (is_matrix, own[0], own[1] if is_matrix or decay_all else 0.0, are_rows)
        groups.setdefault(key, []).append(parameter)
    return [
        {"params": members, "weight_decay": decay, "peak": peak}
        for (_, peak, decay, _), members in groups.items()
        if members
    ]


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
    falling = 1.0 - warmup_share
    if schedule.shape == "wsd":
        falling = min(falling, schedule.decay)  # a long warm-up leaves no room for all of it
    left = min(1.0, max(0.0, (1.0 - done) / max(falling, 1e-9)))
    fall = 0.5 * (1.0 - math.cos(math.pi * left)) if schedule.shape == "cosine" else left
    return schedule.floor + (1.0 - schedule.floor) * fall if schedule.floor else fall


def clip(parameters: Iterable[torch.nn.Parameter], max_norm: float | None) -> torch.Tensor:
    """Scale the gradients down to a global norm of `max_norm` at most; returns the norm before."""
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    # Whole ones and those divided over processes do not go into one call.
    kinds = [[p for p in trained if isinstance(p, DTensor) is divided] for divided in (False, True)]
    kinds = [kind for kind in kinds if kind] or [trained]
    norms = [
        whole(torch.nn.utils.get_total_norm([p.grad for p in kind if p.grad is not None]))
        for kind in kinds
    ]
    norm = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    if max_norm is not None:
        for kind in kinds:
            torch.nn.utils.clip_grads_with_norm_(kind, max_norm, norm)
    return norm
