"""The phases of a run: each is a step that trains, and that goes on where it was stopped.

A phase of a run as the training loop takes it.

What comes after training is held back of a budget in time: one look at the validation text, before
a phase's first step, says how long a token takes; the text says how many tokens the evaluation
reads.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accelerate.utils import broadcast_object_list

from lingraft.errors import RecipeError
from lingraft.models import damage, source
from lingraft.models.families import family_of
from lingraft.models.parts import translation_layers
from lingraft.pipeline.grafted import new_rows
from lingraft.pipeline.phase_data import readings
from lingraft.pipeline.stages import source_family, weights_before
from lingraft.pretrained import load as pretrained
from lingraft.pretrained.load import check_longest, load_config, longest_text
from lingraft.recipe import Budget
from lingraft.recipe.defaults import CHARACTERS_A_TOKEN
from lingraft.recipe.run import CHARACTERS_OF_A_SENTENCE
from lingraft.recipe.streams import distilled
from lingraft.rundir import FORMAT, fingerprint
from lingraft.tokenizer import files as tokenizer_files
from lingraft.training.checkpoint import OLD, STABLE, last_state, last_step, leftovers, stable_state
from lingraft.training.machine import note_environment, resolve_precision
from lingraft.training.masked_text import train_phase
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.distillation import Teacher
from lingraft.training.objectives.soft_labels import SoftLabels
from lingraft.training.phase import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft.models.families import Family
    from lingraft.pipeline.stages import Clock, Context
    from lingraft.recipe import Hardware, Phase, Recipe
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
    trained = float(last_state(stage.path).get("passed", 0.0))
    if context.clock is not None:
        context.clock.before += trained
    pretrained.quiet_transformers()
    job, model = prepared(
        context, section, weights_before(context, index), stage.path, stage_fingerprint
    )
    allow = allowance(context, index, trained) if section.budget.seconds else None
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
    done = {
        "steps": state["step"],
        "tokens": state["tokens"],
        "epochs": state.get("passes", math.inf),
    }
    return float(done.get(unit, state["passed"]) / max(stable, 1e-9) + elsewhere)


LONGEST = 512
"""Tokens of a sentence that a teacher reads."""
GPU_TOKENS = {True: 32_768, False: 8_192}
"""At once on a GPU, by whether one process trains alone: memory that is full then halves them."""


def prepared(
    context: Context, section: Phase, weights: Path, folder: Path, fingerprint: str
) -> tuple[Job, PreTrainedModel]:
    """Load the model that a phase starts from, and gather what it trains on.

    Args:
        context: the run.
        section: the phase.
        weights: the checkpoint before it.
        folder: takes its checkpoints; metrics go into the run where it is the phase's own.
        fingerprint: the phase's fingerprint.
    """
    recipe, run = context.recipe, context.run
    changed, kept_config = _dropout(weights, section)
    loaded = source.load_model(str(weights), settings=changed)
    shards = run.stage("tokenizer").path
    tokenizer = tokenizer_files.load(str(shards))
    own = folder == run.stage(section.name).path
    job = Job(
        phase=section,
        hardware=training_here(context, section),
        family=loaded.family,
        itl_layers=translation_layers(loaded.model.config, loaded.family, recipe.graft.places),
        new_rows=new_rows(run.stage("graft").path, section),
        readings=readings(shards, recipe, section, tokenizer),
        vocabulary=TokenIds.of(tokenizer, loaded.family.kind),
        **_teachers(recipe, section, loaded.family, tokenizer),
        seed=context.seed_for("training"),
        folder=folder,
        metrics_path=run.metrics_path if own else folder / run.metrics_path.name,
        fingerprint=fingerprint,
        kept_config=kept_config,
        on_row=context.report_row,
    )
    return job, loaded.model


def _dropout(checkpoint: Path, section: Phase) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings of the phase's dropout, and those that put the source's back."""
    if section.dropout is None:
        return {}, {}
    config = load_config(str(checkpoint))
    keys = family_of(config.model_type).dropout_keys
    return dict.fromkeys(keys, section.dropout), {key: getattr(config, key) for key in keys}


def _teachers(
    recipe: Recipe, phase: Phase, family: Family, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Return what a job must know of the source where the phase learns from it; else nothing."""
    soft = any(entry.soft_labels for entry in phase.data)
    if phase.distil is None and not soft:
        return {}
    name, revision = str(recipe.source.model), recipe.source.revision
    loaded, own = source.load_model(name, revision), tokenizer_files.load(name, revision)
    damage.tell(name, damage.mend(name, loaded, own), own)
    found: dict[str, Any] = {}
    if soft:
        pieces, pad = (own.get_vocab(), tokenizer.get_vocab()), TokenIds.of(own, family.kind).pad
        found["soft_labels"] = SoftLabels(loaded.model, family, *pieces, pad)
    if phase.distil is not None:
        longest = min(LONGEST, longest_text(loaded.model.config, int(own.pad_token_id)))
        found["teacher"] = Teacher(
            loaded.model, family, own, tokenizer, longest=check_longest(name, longest), weight=1.0
        )
        found["distilled"] = distilled(phase, recipe.texts).name
    return found


def training_here(context: Context, section: Phase) -> Hardware:
    """Return how this machine is used in a phase: on a GPU with as many tokens at once as suit it.

    Short passes leave a large GPU idle. The gradients are the same, up to rounding.
    """
    hardware, accelerator = context.recipe.hardware, context.accelerator
    if hardware.micro_batch_tokens is not None or accelerator.device.type != "cuda":
        return hardware
    most = GPU_TOKENS[accelerator.num_processes == 1 and section.distil is None]
    return hardware.model_copy(update={"micro_batch_tokens": most})


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

    The run's own model and its baselines have equal shares of the time for training; what is left
    of a share is divided among the phases to come by their budgets.

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
        before = (context.run.stage(phase.name).done() for phase in recipe.phases[:index])
        own = trained + sum(stage["seconds"] for stage in before)
        a_token = look * context.accelerator.num_processes / max(tokens, 1)
        after = models * evaluated_tokens(context) * a_token + exporting(context) + look
        left = clock.seconds - passed(clock) - after
        if index == 0 and not trained:
            check_left(clock.seconds, left)
        share = (left + own) / models - own
        return max(share * budgets[0] / sum(budgets), LEAST * budgets[0])

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
    causal, total = source_family(context.recipe.source).kind == "causal", 0.0
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
