"""Hold back of a budget in time what comes after training.

One look at the validation text, before a phase's first step, says how long a token takes; the text
says how many tokens the evaluation reads.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accelerate.utils import broadcast_object_list

from lingraft.errors import RecipeError
from lingraft.pipeline.stages import source_family
from lingraft.recipe.defaults import CHARACTERS_A_TOKEN
from lingraft.recipe.run import CHARACTERS_OF_A_SENTENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.pipeline.stages import Clock, Context

LEAST_TRAINING = 0.2
"""Smallest share of a budget in time that is left for training."""
LEAST = 0.01
"""Share of its budget that a phase may take however late it is: its schedule must reach its end."""
ENDING, A_PARAMETER = 4.0, 3.2e-8
"""Seconds that loading, export and report of a small model take, and a parameter more."""
WORD_PASSES = 4
"""Passes over a sentence for a word: two tokens, in sentences of twice the mean length."""


def passed(clock: Clock) -> float:
    """Return the seconds of the run so far, by the main process' clock."""
    seconds = [clock.passed()]
    broadcast_object_list(seconds)
    return float(seconds[0])


def check_left(whole: float, left: float) -> None:
    """Refuse to go on where too little of a budget in time is left for training.

    Args:
        whole: seconds that the run may take.
        left: of them, without what comes after training as far as that is known.

    Raises:
        RecipeError: it is too little.
    """
    if left >= LEAST_TRAINING * whole:
        return
    needed = math.ceil((whole - left) / (1 - LEAST_TRAINING) / 60)
    raise RecipeError(
        f"training.budget: {whole / 60:g} minutes are too few here: text, vocabulary, graft and "
        f"evaluation leave no time to train; give at least {needed:,} minutes (--budget, with "
        "--update: what is done is kept)"
    )


def allowance(context: Context, index: int, trained: float) -> Callable[[float, int], float]:
    """Return a function of the seconds and tokens of a look, for the seconds left for a phase.

    The time that is left is divided among the phases to come by their budgets, and evenly among the
    run's own model and its baselines.

    Args:
        context: of the run.
        index: of the phase.
        trained: seconds that the phase has trained already.
    """
    recipe, clock = context.recipe, context.clock
    budgets = [phase.budget.seconds or 0.0 for phase in recipe.phases[index:]]

    def allow(look: float, tokens: int) -> float:
        if clock is None:  # a phase by itself
            return budgets[0]
        models = 1 + len(recipe.baselines)
        a_token = look * context.accelerator.num_processes / max(tokens, 1)
        after = models * evaluated_tokens(context) * a_token + exporting(context) + look
        left = clock.seconds - passed(clock) - after
        if index == 0 and not trained:
            check_left(clock.seconds, left)
        return max(left * budgets[0] / sum(budgets) / models, LEAST * budgets[0])

    return allow


def exporting(context: Context) -> float:
    """Estimate the seconds that model and report take."""
    return ENDING + A_PARAMETER * context.run.stage("graft").result()["parameters"]["total"]


def evaluated_tokens(context: Context) -> float:
    """Estimate the tokens that the evaluation reads, of all streams.

    Of a causal model each document, and by its source too; of others two schemes, and a pass for
    each token of a word, at most one of a sentence.
    """
    section, made = context.recipe.evaluation, context.run.stage("tokenizer").result()
    causal, total = source_family(context.recipe).kind == "causal", 0.0
    characters = section.max_sentences * CHARACTERS_OF_A_SENTENCE
    for stream in (made.get("streams") or {"": made}).values():
        tokens, number = stream["tokens"]["test"]["tokens"], stream["tokens"]["test"]["sentences"]
        if causal:
            total += 2 * min(tokens, characters / CHARACTERS_A_TOKEN)
        else:
            passes = 2 * min(section.max_sentences, number)
            passes += WORD_PASSES * min(section.max_words, number)
            total += passes * tokens / max(number, 1)
    return total
