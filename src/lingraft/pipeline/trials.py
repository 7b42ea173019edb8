"""The probe of preset 'auto': what its rules are unsure of, short trials of the real run decide.

First the initialisers, at the rule's learning rate; then learning rates, with the one that won. A
trial is the last phase with its whole schedule in a few dozen steps, from the run's own graft; the
lowest loss on validation text wins. All trials together take `TRIALS` of the budget. What won is
written into the run's plan, so a run that goes on asks no probe again.
"""

from __future__ import annotations

import logging
import math
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lingraft.errors import TrainingError
from lingraft.pipeline import planning, speed, stages
from lingraft.rundir import Run
from lingraft.training.phase import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lingraft.pipeline.speed import Speed
    from lingraft.pipeline.stages import Context
    from lingraft.recipe import Recipe
    from lingraft.recipe.choosing import Choice

logger = logging.getLogger(__name__)

TRIALS = 0.05
"""Of the budget, for all trials."""
FEWEST_STEPS, MOST_STEPS = 10, 60
"""Of a trial: with fewer it says nothing; more are not needed to tell rates apart."""
SENTENCES = 200
"""Of validation text, for its loss."""


def is_open(choice: Choice) -> bool:
    """Whether a rule was unsure, and names what to compare."""
    return not choice.sure and len(choice.candidates) > 1


@dataclass
class Probe:
    """The trials of one run."""

    context: Context
    """Behind its graft, with all that the rules decided."""
    recipe_of: Callable[[Sequence[Choice]], Recipe]
    """The recipe with these choices."""
    speeds: Sequence[Speed]
    """Of each phase, as measured."""
    losses: dict[tuple[Any, ...], float] = field(default_factory=dict)
    """Of trials so far, by the values of what is open."""

    def decide(self, choices: Sequence[Choice]) -> list[Choice]:
        """The choices, those that were open by trials where the budget allows.

        Args:
            choices: of all rules, in the table's order; initialisers come before learning rates.
        """
        opened = [choice.key for choice in choices if is_open(choice)]
        if not opened:
            return list(choices)
        trials = (
            sum(len(choice.candidates) for choice in choices if is_open(choice)) - len(opened) + 1
        )
        steps, why = self.steps(trials), ""
        if self.context.recipe.method.probe is False:
            why = "not probed, as was asked for (--no-probe)"
        elif steps < FEWEST_STEPS:
            why = (
                f"not probed: {TRIALS:.0%} of the budget are {max(steps, 0)} steps for each of "
                f"{trials} trials, and {FEWEST_STEPS} are needed"
            )
        if why:
            logger.info("probe: rules decide %s; %s", " and ".join(opened), why)
            return [
                replace(choice, why=f"{choice.why}; {why}", candidates=())
                if choice.key in opened
                else choice
                for choice in choices
            ]
        logger.info("probe: %s, %d trials of %d steps", " and ".join(opened), trials, steps)
        decided = list(choices)
        for index, choice in enumerate(choices):
            if choice.key in opened:
                decided[index] = self.tried(decided, index, opened, steps)
        return decided

    def steps(self, trials: int) -> int:
        """Optimiser steps of each trial, with its look at the validation text paid for."""
        context = self.context
        text = planning.text_of(context)
        total = look = 0.0
        for phase, measured in zip(context.recipe.phases, self.speeds, strict=True):
            seconds = phase.budget.seconds
            tokens = (
                planning.tokens_of(phase, measured)
                if seconds is None
                else seconds * measured.tokens_per_second
            )
            total += tokens / measured.tokens_per_step
            look = text.looked_at(SENTENCES) / planning.FORWARD / measured.tokens_per_step
        return min(MOST_STEPS, int(TRIALS * total / trials - look))

    def tried(
        self, choices: Sequence[Choice], index: int, opened: Sequence[str], steps: int
    ) -> Choice:
        """One choice by trials of its candidates; the others stay as they are by now."""
        choice, losses = choices[index], []
        for value in choice.candidates:
            trial = [*choices[:index], replace(choice, value=value), *choices[index + 1 :]]
            key = tuple(entry.value for entry in trial if entry.key in opened)
            if key not in self.losses:
                self.losses[key] = self.loss(self.recipe_of(trial), steps)
            losses.append((value, self.losses[key]))
            logger.info("probe: %s = %s, validation loss %.4f", choice.key, *losses[-1])
        best = min(losses, key=lambda pair: pair[1])
        if math.isinf(best[1]):
            best = (choice.value, math.inf)
        summary = ", ".join(f"{value}: {loss:.3f}" for value, loss in losses)
        why = f"{choice.why}; validation losses after trials of {steps} steps: {summary}"
        return replace(choice, value=best[0], why=why, tried=tuple(losses))

    def loss(self, recipe: Recipe, steps: int) -> float:
        """On validation text after a trial; infinite where it diverged."""
        context = replace(self.context, recipe=recipe)
        weights = grafted(context)
        try:
            return speed.trial(context, recipe.phases[-1], weights, steps, SENTENCES)
        except Stopped as error:  # a trial is no result of its own, and decides nothing
            message = "stopped in the probe; the same command begins it again"
            raise Stopped(message, error.signal_number) from None
        except TrainingError:
            return math.inf


def place_of(run: Run, initialiser: str) -> Run:
    """Where a graft with another initialiser lies; it shares the run's text and vocabulary."""
    return Run(run.path / speed.FOLDER / initialiser, parent=run.parent or run.path)


def grafted(context: Context) -> Path:
    """The graft of a recipe: the run's own, or one that is made beside it."""
    run, recipe = context.run, context.recipe
    vocabulary = str(run.stage("tokenizer").fingerprint())
    if stages.is_grafted(run, recipe, vocabulary):
        return run.weights([])
    trial_run = place_of(run, str(recipe.graft.embeddings))
    if context.accelerator.is_main_process:
        trial_run.path.mkdir(parents=True, exist_ok=True)
        stages.graft(replace(context, run=trial_run), vocabulary)
    context.accelerator.wait_for_everyone()
    return trial_run.weights([])


def settle(context: Context) -> None:
    """Put the graft that won in the run's place, and delete the others.

    A probe that was killed may have left grafts of another text or recipe: these go too.

    Args:
        context: the run, with the recipe that was decided.
    """
    run, recipe = context.run, context.recipe
    if not (run.path / speed.FOLDER).is_dir():
        return
    won = place_of(run, str(recipe.graft.embeddings))
    if stages.is_grafted(won, recipe, str(run.stage("tokenizer").fingerprint())):
        run.stage("graft").clear()
        won.stage("graft").path.replace(run.stage("graft").path)
    shutil.rmtree(run.path / speed.FOLDER)
