"""The phases of a run: each is a stage that trains, and that goes on where it was stopped."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.pipeline import clearing, ending
from lingraft.pipeline.jobs import prepared
from lingraft.pipeline.stages import weights_before
from lingraft.pretrained import load as pretrained
from lingraft.pretrained.checkpoints import named_weights
from lingraft.recipe import Budget
from lingraft.rundir import FORMAT, fingerprint
from lingraft.training.checkpoint import last_state
from lingraft.training.loop import train_phase
from lingraft.training.machine import note_environment, resolve_precision

if TYPE_CHECKING:
    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Phase, Recipe


def phase_fingerprint(recipe: Recipe, index: int, before_fingerprint: str) -> str:
    """Of what phase `index` is made from; `before_fingerprint` is that of what it starts from."""
    return _fingerprint_of(recipe, recipe.phases[index], before_fingerprint)


def stable_fingerprint(recipe: Recipe, index: int, before_fingerprint: str) -> str:
    """As `phase_fingerprint`, but for the budget; empty of phases that keep nothing to go on from.

    The last phase alone gets longer.
    """
    section = recipe.phases[index]
    if index + 1 < len(recipe.phases) or section.schedule.shape != "wsd":
        return ""
    endless = section.model_copy(update={"budget": Budget(value=1)})
    return _fingerprint_of(recipe, endless, before_fingerprint)


def _fingerprint_of(recipe: Recipe, section: Phase, before_fingerprint: str) -> str:
    precision = resolve_precision(recipe.hardware)
    teacher = section.distil and section.distil.teacher
    return fingerprint(
        FORMAT["phase"], before_fingerprint, section, recipe.seed, precision,
        recipe.hardware.row_tokens, *([named_weights(teacher)] if teacher else []),
    )  # fmt: skip


def train(context: Context, index: int, before_fingerprint: str) -> str:
    """Train one phase; returns its fingerprint."""
    recipe, run = context.recipe, context.run
    section: Phase = recipe.phases[index]
    stage, started = run.stage(section.name), time.monotonic()
    stage_fingerprint = phase_fingerprint(recipe, index, before_fingerprint)
    stable = stable_fingerprint(recipe, index, before_fingerprint)
    main = context.accelerator.is_main_process
    if stage.is_done(stage_fingerprint):
        if main:  # a kill may have come between
            clearing.clear_checkpoints(stage.path)
        return stage_fingerprint
    if main:
        clearing.claim(run, stage.path, section, (stage_fingerprint, stable))
        if context.environment is not None:
            note_environment(run, context.environment, trains=True)
    context.accelerator.wait_for_everyone()
    trained = float(last_state(stage.path).get("passed", 0.0))
    if context.clock is not None:
        context.clock.before += trained
    pretrained.quiet_transformers()
    job, model = prepared(
        context, section, weights_before(context, index), stage.path, stage_fingerprint
    )
    allow = ending.allowance(context, index, trained) if section.budget.seconds else None
    job = replace(job, stable_fingerprint=stable, allow=allow)
    result = train_phase(job, model, context.accelerator)
    if main:
        stage.finish(stage_fingerprint, result, trained + time.monotonic() - started)
        clearing.clear_checkpoints(stage.path)
    context.accelerator.wait_for_everyone()
    return stage_fingerprint
