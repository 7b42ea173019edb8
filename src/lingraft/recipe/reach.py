"""How far a plan lets the weights move: the sum of its learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingraft.recipe.phase import Phase

SPREAD = 0.02
"""Standard deviation that all families draw new weights with, unless a configuration says else."""


def warmup_share(phase: Phase, steps: float) -> float:
    """The share of the phase's steps in which the learning rate still rises."""
    warmup = phase.schedule.warmup
    return min(1.0, warmup if warmup < 1 else warmup / max(steps, 1))


def peak(phase: Phase) -> float:
    """The highest learning rate of a phase: a part, such as the embeddings, may have its own."""
    return max([phase.optimiser.learning_rate, *phase.optimiser.rates.values()])


def reach(phase: Phase, steps: float) -> float:
    """The sum of the learning rates of a phase's steps, of the part that learns fastest.

    A step of AdamW moves a weight by about the learning rate at most (Kingma and Ba 2015, section
    2.1), so no weight gets much farther than this from where it started.

    Args:
        phase: peak learning rate and schedule.
        steps: how many it takes.
    """
    warmup, shape = warmup_share(phase, steps), phase.schedule.shape
    decay = min(phase.schedule.decay, 1 - warmup) if shape == "wsd" else 0.0
    mean = 1 - (warmup + decay) / 2 if shape in ("constant", "wsd") else 0.5
    return peak(phase) * steps * mean
