"""What preset 'auto' will decide, as far as it can be told before the text is read. No torch.

`lingraft check` shows it, and a study's estimates count with it. The run itself decides when it has
read its text and measured its speed (`pipeline.budgeting`).
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft import threads
from lingraft.corpus.cleaning import scripts
from lingraft.errors import RecipeError
from lingraft.models.families import family_of
from lingraft.pipeline import preflight
from lingraft.pipeline.hardware import this_machine
from lingraft.recipe import auto, choosing, scales
from lingraft.recipe.facts import CHARACTERS_A_TOKEN, TOKENS_PER_SENTENCE, Facts
from lingraft.recipe.methods import is_open, promised
from lingraft.recipe.phase import most_sentences

if TYPE_CHECKING:
    from lingraft.pipeline.hardware import Machine
    from lingraft.recipe import Budget, Recipe
    from lingraft.recipe.choosing import Choice

USUAL_STEP = 2_048
"""Tokens of a step, where rules need tokens and the recipe counts steps and gives no batch."""
PREDICTED = 0.15
"""Share of the tokens that are predicted."""
GPU, BF16_CORE, PLAIN_CORE = 3e13, 5e10, 1.5e10
"""Operations a second of training, by the machine: a rough figure for budgets in time."""
GPU_STEP = 0.045
"""Seconds that a GPU takes for a step whatever it holds: the processor starts small kernels."""


def foreseen(recipe: Recipe) -> tuple[Recipe, list[Choice]]:
    """The recipe with what preset 'auto' would decide of it now, and what that is.

    By the source's config, the bytes of the text (of packed files about as many as they hold), and
    the budget; one in time is taken at a rough speed of such machines. Nothing is decided where the
    recipe leaves nothing open, or where the source's config.json is not on this machine.

    Raises:
        LingraftError: the recipe cannot work.
    """
    facts = facts_now(recipe)
    if facts is None:
        return recipe, []
    early = choosing.choices(recipe, facts, before_speed=True)
    facts = facts.with_method(choosing.applied(recipe, early))
    decided = [*early, *choosing.choices(recipe, facts, before_speed=False)]
    return choosing.applied(recipe, decided), decided


def facts_now(recipe: Recipe) -> Facts | None:
    """Return what `foreseen` decides by; None where it decides nothing."""
    if not is_open(recipe) or recipe.method.preset != auto.AUTO:
        return None
    plan = preflight.check(recipe)
    if plan.depth_and_width is None:
        return None
    depth, width = plan.depth_and_width
    tokens = plan.unpacked_bytes_estimate / preflight.BYTES_PER_TOKEN
    characters, sentences = int(tokens * CHARACTERS_A_TOKEN), tokens / TOKENS_PER_SENTENCE
    a_token = operations(width, depth, characters)
    machine = this_machine()
    speed = speed_of(a_token, _usual_speed(machine), promised(recipe) or 0.0, machine.is_gpu)
    budget = tokens_of(recipe, characters, speed, sentences)
    known = Facts(family_of(plan.model_type).kind, width, characters, budget)
    return facts_of(recipe, sentences, known)


def decided_now(recipe: Recipe) -> Recipe:
    """The recipe as preset 'auto' would decide it now, for what cannot wait for a run.

    Raises:
        RecipeError: rules are to choose, and the source's config.json is not on this machine, or
            it is an architecture, which has none.
    """
    decided, choices = foreseen(recipe)
    if is_open(recipe) and recipe.method.preset == auto.AUTO and not choices:
        why = "source.architecture has none;"
        if recipe.source.model is not None:
            why = (
                f"that of '{recipe.source.model}' is not on this machine, or does not say how deep "
                "and wide the model is; download it first, or"
            )
        raise RecipeError(
            f"preset 'auto' chooses by the source's config.json, and {why} name a paper's preset "
            "(lingraft list presets)"
        )
    return decided


def facts_of(recipe: Recipe, sentences: float, known: Facts) -> Facts:
    """What rules may ask for: what is known of source and text, with what the recipe says.

    Args:
        recipe: with phases.
        sentences: of the training text.
        known: kind, width, characters, tokens and slowdown.
    """
    most = most_sentences(recipe.phases)
    facts = replace(
        known,
        seconds=promised(recipe),
        has_vectors=importlib.util.find_spec("gensim") is not None,
        share=1.0 if most is None else min(1.0, most / max(sentences, 1.0)),
        latin=is_latin(recipe),
        step=step_given(recipe),
    )
    return choosing.at_own_step(recipe, facts)


def tokens_of(
    recipe: Recipe, characters: int, tokens_a_second: float, sentences: float | None = None
) -> float:
    """Tokens of the recipe's budget, shared with its baselines where it is in time.

    Args:
        recipe: with phases.
        characters: of the training text, for epochs.
        tokens_a_second: of training, for budgets in time.
        sentences: of the training text where they are known: a phase may read a share of them.
    """
    seconds = promised(recipe)
    if seconds is not None:
        return tokens_a_second * seconds / (1 + len(recipe.baselines))
    shares = (min(1.0, (phase.sentences or math.inf) / (sentences or 1)) for phase in recipe.phases)
    pairs = zip(recipe.phases, shares, strict=True)
    step = step_given(recipe) or USUAL_STEP
    return sum(_tokens(phase.budget, characters * share, step) for phase, share in pairs)


def is_latin(recipe: Recipe) -> bool:
    """Whether the languages of all streams are written in Latin letters."""
    return all(
        scripts.of_language(language, stream.corpus.scripts, warn=False) == ("Latn",)
        for stream in recipe.texts
        for language in stream.languages
    )


def _tokens(budget: Budget, characters: float, step: int) -> float:
    if budget.unit == "epochs":
        return budget.value * characters / CHARACTERS_A_TOKEN
    return budget.value * (step if budget.unit == "steps" else 1)


def step_given(recipe: Recipe) -> int | None:
    """Tokens of a step where the recipe gives the batch, roughly where that counts sentences."""
    batch = recipe.method.batch
    if batch is None:
        return None
    return batch.size * (1 if batch.unit == "tokens" else TOKENS_PER_SENTENCE)


def operations(width: int, depth: int, characters: int) -> float:
    """Of training with one token, roughly: of an encoder so wide and deep on so much text."""
    predicted = PREDICTED * scales.vocabulary_for(characters) * width
    return 6 * (12 * depth * width**2 + predicted)


def speed_of(a_token: float, a_second: float, seconds: float, is_gpu: bool) -> float:
    """Tokens a second of training, roughly.

    Args:
        a_token: operations.
        a_second: operations, of products as large as the machine likes.
        seconds: of training: what lasts longer has longer steps, by the rules.
        is_gpu: small steps are slow on a GPU.
    """
    if not is_gpu:
        return a_second / a_token
    step, speed = scales.batch_for(0), 0.0
    for _ in range(8):
        speed = step / (GPU_STEP + step * a_token / a_second)
        step = scales.batch_for(speed * seconds)
    return speed


def _usual_speed(machine: Machine) -> float:
    if machine.is_gpu:
        return GPU
    return threads.cores() * (BF16_CORE if machine.bf16 else PLAIN_CORE)
