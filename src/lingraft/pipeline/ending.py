"""How much of a budget in time a phase may take: what comes after training is held back.

One look at the validation text, before a phase's first step, says how long a token takes; the text
says how many tokens the evaluation reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accelerate.utils import broadcast_object_list

from lingraft.errors import RecipeError
from lingraft.models.families import family_of
from lingraft.models.source import config_of
from lingraft.recipe.defaults import CHARACTERS_A_TOKEN
from lingraft.recipe.evaluation import (
    CHARACTERS_OF_A_SENTENCE,
    SAMPLE_TOKENS,
    SAMPLES_AT_ONCE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.pipeline.stages import Clock, Context
    from lingraft.recipe import Evaluation

LEAST_TRAINING = 0.2
"""Of a budget in time that is left for training, at least."""
LEAST = 0.01
"""Of a phase's budget, that it may take however late it is: its schedule must come to its end."""
ENDING, A_BYTE = 4.0, 4e-9
"""Seconds that loading, export and report of a small model take, and a byte of weights, twice."""
CONTEXT = 2.0
"""A word stands in a sentence of so many times the mean length: long ones have more words."""
A_TOKEN, A_LAYER = 2e-3, 1e-3
"""Seconds of a generated token that do not depend on the width: of the loop, and of a layer."""
READING = {"cpu": 1e-10}
"""Seconds a byte of weights, which every generated token reads ..."""
READING_ELSEWHERE = 1e-12
"""... and on a GPU."""


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
    needed = (whole - left) / (1 - LEAST_TRAINING)
    raise RecipeError(
        f"training.budget: {whole / 60:g} minutes are too few here: reading the text, the "
        "vocabulary, the graft and the evaluation leave no time to train; give at least "
        f"{math.ceil(needed / 60):,} minutes (--budget, with --update: what is done is kept), or "
        "less text"
    )


def check_time(context: Context) -> None:
    """Refuse to go on after a stage before training that leaves no time for it."""
    if context.clock is not None:
        check_left(context.clock.seconds, context.clock.seconds - passed(context.clock))


def allowance(context: Context, index: int, trained: float) -> Callable[[float, int], float]:
    """Return what says how many seconds are left for a phase, by those of a look and its tokens.

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
        after = models * evaluating(context, a_token) + exporting(context) + look
        left = clock.seconds - passed(clock) - after
        if index == 0 and not trained:
            check_left(clock.seconds, left)
        return max(left * budgets[0] / sum(budgets) / models, LEAST * budgets[0])

    return allow


def exporting(context: Context) -> float:
    """Return the seconds that model and report take, about."""
    return ENDING + 2 * A_BYTE * _bytes(context)


def evaluating(context: Context, a_token: float) -> float:
    """Return the seconds that the evaluation takes, about.

    Args:
        context: of the run, behind its graft.
        a_token: seconds of a forward pass of one process, each token.
    """
    recipe = context.recipe
    config = config_of(recipe.source)
    family = family_of(config.model_type)
    made = context.run.stage("tokenizer").result()
    text = Text(tuple((made.get("streams") or {"": made}).values()), family.kind == "causal")
    seconds = text.scored(recipe.evaluation) * a_token
    if not text.causal:
        return seconds
    a_byte = READING.get(context.accelerator.device.type, READING_ELSEWHERE)
    a_written = A_TOKEN + A_LAYER * int(getattr(config, family.depth_key))
    return seconds + written(recipe.evaluation) * (a_written + a_byte * _bytes(context))


def _bytes(context: Context) -> float:
    """Of the model's weights."""
    return 4.0 * int(context.run.stage("graft").result()["parameters"]["total"])


def written(section: Evaluation) -> float:
    """Return how many tokens a causal model and its source write for an evaluation."""
    samples = 2 * math.ceil(section.samples / SAMPLES_AT_ONCE)  # greedy and drawn
    return (1 + section.untouched) * SAMPLE_TOKENS * samples


@dataclass(frozen=True)
class Text:
    """What the tokenizer stage counted, of each stream: all are scored."""

    streams: tuple[dict[str, Any], ...]
    causal: bool

    def scored(self, section: Evaluation) -> float:
        """Return the tokens that an evaluation reads.

        Of an encoder two schemes, and a pass for each token of a word, at most one of a sentence.
        Of a causal model each document once, and by its source too, in the source's own tokens.
        """
        if self.causal:
            return sum(_documents(stream, section) for stream in self.streams) + _others(section)
        total = 0.0
        for stream in self.streams:
            test = stream["tokens"]["test"]
            per_word = stream["statistics"]["train"]["tokens_per_word"] or 2.0
            passes = min(section.max_words, test["sentences"]) * per_word * CONTEXT
            length = test["tokens"] / max(test["sentences"], 1)
            total += (2 * min(section.max_sentences, test["sentences"]) + passes) * length
        return total


def _documents(stream: dict[str, Any], section: Evaluation) -> float:
    """Return the tokens of a stream's test documents, by the model and its source."""
    sides = [stream["statistics"]["test"]]
    there = stream["tokens"]["test"]["tokens"] * (
        sides[0]["characters_per_token"] or CHARACTERS_A_TOKEN
    )
    if section.untouched and "source_statistics" in stream:
        sides.append(stream["source_statistics"]["test"])
    a_token = [side["characters_per_token"] or CHARACTERS_A_TOKEN for side in sides]
    characters = min(there, section.max_sentences * CHARACTERS_OF_A_SENTENCE)
    return sum(characters / per_token for per_token in a_token)


def _others(section: Evaluation) -> float:
    """Return the tokens of kept texts, by the model and its source."""
    kept = section.max_sentences * CHARACTERS_OF_A_SENTENCE * len(section.kept)
    return (1 + section.untouched) * kept / CHARACTERS_A_TOKEN
