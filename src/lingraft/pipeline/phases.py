"""The phases of a run: each is a step that trains, and that goes on where it was stopped."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lingraft.pipeline import ending
from lingraft.pipeline.jobs import prepared
from lingraft.pipeline.stages import weights_before
from lingraft.pretrained import load as pretrained
from lingraft.recipe import Budget
from lingraft.rundir import FORMAT, fingerprint
from lingraft.training.checkpoint import OLD, STABLE, last_state, last_step, leftovers, stable_state
from lingraft.training.loop import train_phase
from lingraft.training.machine import note_environment, resolve_precision

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Phase, Recipe
    from lingraft.rundir import Run, Step

logger = logging.getLogger(__name__)


def phase_fingerprint(recipe: Recipe, index: int, before_fingerprint: str) -> str:
    """Return the fingerprint of what phase `index` is made from; what it starts from has one."""
    return _fingerprint_of(recipe, recipe.phases[index], before_fingerprint)


def _fingerprint_of(recipe: Recipe, section: Phase, before_fingerprint: str) -> str:
    computed = (recipe.seed, resolve_precision(recipe.hardware), recipe.hardware.row_tokens)
    return fingerprint(FORMAT["phase"], before_fingerprint, section, *computed)


def stable_fingerprint(recipe: Recipe, index: int, before_fingerprint: str) -> str:
    """Return a phase's fingerprint but for its budget; empty where it keeps nothing to go on from.

    The last phase alone gets longer.
    """
    section = recipe.phases[index]
    if index + 1 < len(recipe.phases) or section.schedule.shape != "wsd":
        return ""
    endless = section.model_copy(update={"budget": Budget(value=1)})
    return _fingerprint_of(recipe, endless, before_fingerprint)


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
            clear_checkpoints(stage.path)
        return stage_fingerprint
    if main:
        begin(run, stage, section, (stage_fingerprint, stable))
        if context.environment is not None:
            note_environment(run, context.environment, trains=True)
    context.accelerator.wait_for_everyone()
    state = last_state(stage.path)
    trained = float(state.get("passed", 0.0))
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
        clear_checkpoints(stage.path)
    context.accelerator.wait_for_everyone()
    return stage_fingerprint


def begin(run: Run, stage: Step, phase: Phase, fingerprints: tuple[str, str]) -> None:
    """Make a phase's folder ready; what other settings left goes, and rows to be written again.

    What a phase that differs in its budget alone has kept of before its cooldown stays.

    Args:
        run: the run.
        stage: the phase's folder.
        phase: what trains.
        fingerprints: of what it is made from, and of that but for its budget.
    """
    before, state = stage.inputs(), stable_state(stage.path)
    stays = goes_on(state, phase, fingerprints[1])
    if before.get("fingerprint") != fingerprints[0]:
        if stays:
            logger.info(
                "%s: goes on from before its cooldown, at step %d", stage.name, state["step"]
            )
        elif before:
            logger.info("%s: begins anew, what lies there was made by other settings", stage.name)
    stage.begin({"fingerprint": fingerprints[0]}, (STABLE, OLD) if stays else ())
    step = last_step(stage.path)
    run.keep_metrics(lambda row: row["phase"] != stage.name or row["step"] <= step > 0)


def clear_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of a phase that is done."""
    for leftover in leftovers(folder):
        shutil.rmtree(leftover)


def goes_on(state: dict[str, Any], phase: Phase, fingerprint: str) -> bool:
    """Return whether a phase goes on from what one has kept that differs in its budget alone.

    Args:
        state: of before its cooldown; empty where nothing is kept.
        phase: which has a budget of its own.
        fingerprint: of what it is made from, but for its budget.
    """
    if not state or state["stable_fingerprint"] != fingerprint:
        return False
    return least_budget(state, phase) <= (phase.budget.seconds or phase.budget.value)


def least_budget(state: dict[str, Any], phase: Phase, elsewhere: float = 0.0) -> float:
    """Return the least budget with which a phase goes on from a state before the cooldown.

    Args:
        state: of the checkpoint.
        phase: which has a budget of its own, whose unit counts; of time in seconds.
        elsewhere: seconds of a budget in time that are not the phase's own.
    """
    schedule, unit = phase.schedule, phase.budget.unit
    stable = 1.0 - min(schedule.decay, 1.0 - schedule.warmup if schedule.warmup < 1 else 1.0)
    done = {"steps": state["step"], "tokens": state["tokens"], "epochs": state["epoch"]}
    return float(done.get(unit, state["passed"]) / max(stable, 1e-9) + elsewhere)
