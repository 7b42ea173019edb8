"""How much of a step goes through the model at once: on a GPU as much as suits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.pipeline import hardware
from lingraft.pipeline.fitting import training_for
from lingraft.pipeline.memory import Target
from lingraft.pipeline.preflight import Plan, sizes
from lingraft.pipeline.source_files import source_of

if TYPE_CHECKING:
    from lingraft.recipe import Recipe, Training


def training_here(recipe: Recipe, phase: str) -> Training:
    """How this machine is used in a phase: on a GPU with as many tokens at once as suit it.

    Short passes leave a large GPU idle (docs/performance-gpu.md). The gradients are the same, up to
    rounding.

    Args:
        recipe: of the run.
        phase: name of one of its phases.

    Returns:
        The recipe's, where it says how many, on a CPU, and where the model's size is not known.
    """
    training, machine = recipe.training, hardware.this_machine()
    if training.micro_batch_tokens is not None or not machine.is_gpu:
        return training
    source = source_of(recipe)
    plan = Plan(recipe, source.tied)
    sizes(recipe, source, plan)
    if plan.layers is None:
        return training
    target = Target(recipe, plan.by_part, plan.layers, machine)
    (used,) = (
        training_for(target, section, trained)
        for section, trained in zip(recipe.phases, plan.trainable, strict=True)
        if section.name == phase
    )
    return used
