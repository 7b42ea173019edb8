"""Whether phases fit into a machine's memory, by `memory`'s estimate, and what makes them fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.pipeline.memory import need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lingraft.pipeline.memory import Need, Target
    from lingraft.pipeline.trainable import Trained
    from lingraft.recipe import Phase, Training

SHORTEST_MICRO_BATCH = 512
LONGEST_MICRO_BATCH = 32_768


def _need_with(target: Target, training: Training, phase: Phase, trained: Trained) -> Need:
    """What a phase takes where the machine is used so."""
    recipe = target.recipe.model_copy(update={"training": training})
    return need(replace(target, recipe=recipe), phase, trained)


def remedies(target: Target, phase: Phase, trained: Trained) -> Iterator[tuple[str, Need]]:
    """Settings that take less memory, each with those before it, and what is needed then."""
    training, settings = target.recipe.training, list[str]()

    def with_them(changed: Training) -> tuple[str, Need]:
        return ", ".join(settings), _need_with(target, changed, phase, trained)

    if not training.gradient_checkpointing:
        training = training.model_copy(update={"gradient_checkpointing": True})
        settings.append("training.gradient_checkpointing=true")
        yield with_them(training)
    smaller = training.at_once
    while smaller > SHORTEST_MICRO_BATCH:
        smaller = max(SHORTEST_MICRO_BATCH, smaller // 2)
        training = training.model_copy(update={"micro_batch_tokens": smaller})
        settings[:] = [setting for setting in settings if "micro_batch" not in setting]
        settings.append(f"training.micro_batch_tokens={smaller}")
        yield with_them(training)
    if trained.frozen_maps and training.frozen_weights != "bf16":
        training = training.model_copy(update={"frozen_weights": "bf16"})
        settings.append("training.frozen_weights=bf16")
        yield with_them(training)


def training_for(target: Target, phase: Phase, trained: Trained) -> Training:
    """How the machine is used in a phase: with how many tokens through the model at once.

    What the recipe says; else 4,096, and on a GPU, for which that is little, twice as many as long
    as half of its memory holds them, since all this is an estimate, and a step has as many. Not
    with a teacher: what it computes is in no estimate.

    Args:
        target: the model, and where it trains.
        phase: what trains on what.
        trained: what of the target the phase trains.
    """
    training, machine = target.recipe.training, target.machine
    if training.micro_batch_tokens is not None or not machine.is_gpu or phase.distil is not None:
        return training
    now = need(target, phase, trained).total
    while training.at_once < LONGEST_MICRO_BATCH:
        larger = training.model_copy(update={"micro_batch_tokens": 2 * training.at_once})
        total = _need_with(target, larger, phase, trained).total
        if not now < total <= machine.usable / 2:
            break
        training, now = larger, total
    return training


def verdict(target: Target, trained: Sequence[Trained]) -> tuple[dict[str, Need], str]:
    """What each phase needs, and a sentence on whether it fits.

    Args:
        target: the model, its recipe with its phases, and where it trains.
        trained: what of the target each phase trains.
    """
    recipe, machine = target.recipe, target.machine
    counted = {phase.name: counts for phase, counts in zip(recipe.phases, trained, strict=True)}
    used = {phase.name: training_for(target, phase, counted[phase.name]) for phase in recipe.phases}
    needs = {
        phase.name: _need_with(target, used[phase.name], phase, counted[phase.name])
        for phase in recipe.phases
    }
    worst = max(recipe.phases, key=lambda phase: needs[phase.name].total, default=None)
    if worst is None:
        return needs, ""
    most = needs[worst.name].total
    tight = machine.usable < most <= machine.bytes
    begin = (
        f"phase '{worst.name}' needs about {_shown(most)} of memory (an estimate), and "
        f"{machine.name} has {_shown(machine.bytes)}"
        f"{f', of which {_shown(machine.usable)} can be filled' if tight else ''}"
    )
    if most <= machine.usable:
        tokens = used[worst.name].at_once
        more = f", with {tokens:,} tokens at once" if tokens > recipe.training.at_once else ""
        return needs, f"{begin}: it fits{more}"
    options = list(remedies(target, worst, counted[worst.name]))
    fitting = next((entry for entry in options if entry[1].total <= machine.usable), None)
    if fitting is not None:
        return needs, (
            f"{begin}: it does not fit; with {fitting[0]} it needs {_shown(fitting[1].total)}, "
            "and fits"
        )
    least = min((entry[1].total for entry in options), default=most)
    trains_body = "body" in worst.trained
    fewer = "train the body by LoRA or not at all (phases.….train), " if trains_body else ""
    tried = f", nor with {options[-1][0]} ({_shown(least)})" if options else ""
    return needs, (
        f"{begin}: it does not fit{tried}; {fewer}divide it over several GPUs or processes "
        "(training.sharding=fsdp2), or take a smaller source"
    )


def _shown(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
