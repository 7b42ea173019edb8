"""`lingraft check`: is the recipe sound, and what will it do? Quick: no torch, no network."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from lingraft.corpus import inputs as text_inputs
from lingraft.corpus import streams
from lingraft.corpus.cleaning import evaluations, scripts
from lingraft.errors import DataError, RecipeError
from lingraft.paths import path_of
from lingraft.pipeline import held_out, pairs, vocabularies
from lingraft.pipeline.contents import named_resources
from lingraft.pipeline.fitting import verdict
from lingraft.pipeline.hardware import this_machine
from lingraft.pipeline.memory import Layers, Need, Target
from lingraft.pipeline.source_files import SourceFiles, depth_and_width, grafted_sizes, source_of
from lingraft.pipeline.suiting import check_context, suited
from lingraft.pipeline.trainable import Trained, check_grafts, trainable
from lingraft.recipe import catalogue, stage_order
from lingraft.recipe.baselines import baseline
from lingraft.recipe.defaults import TOKENS_PER_SENTENCE
from lingraft.recipe.phase import SPREAD
from lingraft.recipe.run import FROZEN_IN_FP32, KEEPING, READ_LEXICONS
from lingraft.recipe.selectors import described, trained_parts
from lingraft.recipe.streams import distilled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Graft, Phase, Recipe, Resources, Training

TRACKER_MODULES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
BYTES_PER_TOKEN = 4.5
"""UTF-8 bytes of raw text to one token of a 50k vocabulary: a rough figure for estimates."""


@dataclass
class Plan:
    """What a recipe will do; every number that is an estimate says so in its name."""

    recipe: Recipe
    """With the phases that its source goes through."""
    tied: bool | None
    """Whether the source's output projection is its word embeddings; None: nobody knows yet."""
    stages: list[str] = field(default_factory=list)
    text_bytes: int = 0
    unpacked_bytes_estimate: float = 0.0
    text_files: int = 0
    model_type: str = ""
    parameters: int | None = None
    by_part: dict[str, int] = field(default_factory=dict)
    trainable: list[Trained] = field(default_factory=list)
    """Parameters that each phase trains; empty where they are not known."""
    phases: list[dict[str, Any]] = field(default_factory=list)
    disk_bytes_estimate: int | None = None
    memory: dict[str, Need] = field(default_factory=dict)
    """By phase."""
    fits: str = ""
    """Whether this machine has so much, and what to change if not."""
    layers: Layers | None = None
    """None where nothing but config.json is there, or nothing at all."""
    depth_and_width: tuple[int, int] | None = None
    """Of the target; None where the source is not on this machine, or an architecture."""
    notes: list[str] = field(default_factory=list)


def _check_upload(recipe: Recipe) -> None:
    """Refuse a name that the Hub would refuse when all is trained."""
    name = recipe.export.push_to_hub
    if not name:
        return
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise RecipeError(f"export.push_to_hub: {reason}; write USER/NAME") from None


def check_names(recipe: Recipe) -> None:
    """Check what needs no model and no text: parts, language, extras, baselines.

    Raises:
        RecipeError: the first thing that is wrong.
    """
    for stream in recipe.texts:
        for language in stream.languages:
            scripts.of_language(language, stream.corpus.scripts)
    for phase in recipe.phases:
        trained_parts(phase.train, phase.name)
        if phase.lora and importlib.util.find_spec("peft") is None:
            raise RecipeError(f'phase {phase.name}: LoRA needs peft; pip install "lingraft[lora]"')
    _check_upload(recipe)
    _check_teachers(recipe)
    pairs.check(recipe)
    methods, grafts = set(), [recipe.graft]
    for index, section in enumerate(recipe.baselines):
        if section.method in methods:
            raise RecipeError(f"baselines: method '{section.method}' occurs twice; leave one out")
        methods.add(section.method)
        variant = baseline(recipe, index)
        pairs.check(variant)
        grafts.append(variant.graft)
    _check_resources(recipe, grafts)
    vocabularies.check_vectors(recipe, grafts)
    _check_training(recipe.training)
    if recipe.source.architecture is not None:
        if any(graft.source_weights != "random" for graft in grafts):
            raise RecipeError(
                "source.architecture: there are no weights to start from; "
                'set method.name = "scratch", and no other method as a baseline'
            )
        if recipe.tokenizer.kind in ("source", "replace", *KEEPING):
            raise RecipeError(
                "tokenizer.kind: there is no source tokenizer to follow or to keep; "
                "set unigram, byte-bpe or wordpiece"
            )


def _check_training(training: Training) -> None:
    """Refuse what does not go together, and trackers that are not installed."""
    if training.precision in ("fp16", "fp32") and training.frozen_weights == "bf16":
        raise RecipeError(FROZEN_IN_FP32)
    for tracker in training.trackers:
        if importlib.util.find_spec(TRACKER_MODULES[tracker]) is None:
            raise RecipeError(
                f"training.trackers: '{tracker}' is not installed; "
                f'pip install "lingraft[{tracker}]"'
            )


def _check_teachers(recipe: Recipe) -> None:
    """Refuse a teacher without a stream in its language, or without a model.

    Raises:
        RecipeError: one of the phases, or a baseline's, has such.
    """
    variants = [baseline(recipe, index).phases for index in range(len(recipe.baselines))]
    for phase in (*recipe.phases, *(phase for phases in variants for phase in phases)):
        if phase.distil is not None:
            distilled(phase, recipe.texts)
            if phase.distil.teacher is None and recipe.source.model is None:
                raise RecipeError(
                    f"phase '{phase.name}': distil: there is no source model to learn from; name "
                    "one in phases.….distil.teacher"
                )


def _check_resources(recipe: Recipe, grafts: Sequence[Graft]) -> None:
    """Refuse an initialiser without the dictionaries that it needs."""
    for graft, name in ((one, name) for one in grafts for name in one.initialisers):
        if name in READ_LEXICONS and not recipe.resources.lexicons:
            key = "embeddings" if graft.embeddings == name else "output_embeddings"
            raise RecipeError(
                f"resources.lexicons: is empty, and graft.{key} = '{name}' needs a bilingual "
                "lexicon; set resources.lexicons (--lexicons), or use another initialiser"
            )


def check_inputs(recipe: Recipe) -> list[dict[str, Any]]:
    """Check that text and source are there and of a known kind, without reading them.

    Returns:
        The text files: name, and size in bytes where it is known.

    Raises:
        DataError: text, source or a resource is missing, or the source's configuration is broken.
        UnsupportedModelError: the source is of another family.
    """
    files = [file for stream in recipe.texts for file in streams.inputs_of(stream)]
    held_out.check_shares(recipe)
    for stream in recipe.texts:
        evaluations.files_of(stream.corpus.decontaminate)
    for name in named_files(recipe.resources):
        if not path_of(name).exists():
            raise DataError(f"resources: {name}: no such file; correct the path, or leave it out")
    _check_kept(recipe, files)
    source = source_of(recipe)
    if source.folder is not None:
        vocabularies.check_tokens(recipe, source.folder)
    vocabularies.check_reused(recipe, source)
    check_grafts(recipe, source)
    return files


def _check_kept(recipe: Recipe, files: Sequence[dict[str, Any]]) -> None:
    """Check that the kept texts are there, and that none of them is among those read.

    Raises:
        DataError: a file is missing.
        RecipeError: a kept text is trained on.
    """
    kept = recipe.evaluation.kept
    for name in kept:
        if not name.startswith("hub:") and not path_of(name).exists():
            raise DataError(
                f"evaluation.kept: {name}: no such file; correct the path, or leave it out"
            )
    named = [name for stream in recipe.texts for name in stream.corpus.text]
    read = {path_of(name).resolve() for name in (*named, *(file["name"] for file in files))}
    for name in kept:
        inside = (path_of(file["name"]).resolve() for file in text_inputs.inputs([name]))
        if not read.isdisjoint((path_of(name).resolve(), *inside)):
            raise RecipeError(
                f"evaluation.kept: {name}: is text of the run, which trains on it; name text that "
                "it does not read"
            )


def named_files(resources: Resources) -> list[str]:
    """The files that the section names, but for Hub datasets."""
    names = chain.from_iterable(named_resources(resources).values())
    return [name for name in names if not name.startswith("hub:")]


def check(recipe: Recipe) -> Plan:
    """Check a recipe and say what it will do.

    Raises:
        RecipeError: the recipe cannot work.
        DataError: its text or its source is not there.
    """
    check_names(recipe)
    files = check_inputs(recipe)
    source = source_of(recipe)
    recipe = suited(recipe, source.family, tied=source.tied)
    plan = Plan(recipe, source.tied)
    positions = source.config.get("max_position_embeddings", source.config.get("n_positions"))
    if source.family is not None and positions is not None:
        check_context(recipe, source.family, int(positions))
    plan.text_files = len(files)
    plan.text_bytes = sum(int(entry.get("bytes") or 0) for entry in files)
    plan.unpacked_bytes_estimate = text_inputs.unpacked_bytes(files)
    plan.stages = [*stage_order(phase.name for phase in recipe.phases), "report"]
    plan.stages += [f"baseline {section.method}" for section in recipe.baselines]
    sizes(recipe, source, plan)
    plan.phases = [
        _phase(recipe, phase, plan, count)
        for phase, count in zip_longest(recipe.phases, plan.trainable)
    ]
    if plan.parameters:
        _estimates(recipe, plan)
    plan.notes += [*unread(recipe), *too_small(recipe)]
    return plan


def unread(recipe: Recipe) -> list[str]:
    """A note where dictionaries are named that no method of the run reads."""
    variants = (baseline(recipe, index) for index in range(len(recipe.baselines)))
    read = {name for run in (recipe, *variants) for name in run.graft.initialisers}
    if not recipe.resources.lexicons or not read.isdisjoint(READ_LEXICONS):
        return []
    return [
        f"resources.lexicons: graft.embeddings = '{recipe.graft.embeddings}' reads no "
        "dictionaries; take --method metaxlm-dict (graft.embeddings = 'dictionary'), or leave "
        "them out"
    ]


def too_small(recipe: Recipe) -> list[str]:
    """A note where the phases cannot move new weights away from where they start.

    Silent where the number of steps is not known before the text is read, and where nothing is new.
    """
    graft = recipe.graft
    inserted = any(graft.places)
    is_old = recipe.tokenizer.kind == "keep" and not inserted and graft.source_weights != "random"
    steps = [_steps(phase) for phase in recipe.phases]
    counts = [count for count in steps if count is not None]
    if is_old or not counts or len(counts) < len(steps):
        return []
    total = sum(phase.reach(own) for phase, own in zip(recipe.phases, counts, strict=True))
    if total >= SPREAD:
        return []
    return [
        f"the plan is too small to learn from: the learning rates of all {sum(counts):,.0f} steps "
        f"add up to {total:.2g}, about as far as a weight can move, and new weights start with a "
        f"spread of {SPREAD:g}; take more steps or a larger learning rate"
    ]


def _steps(phase: Phase) -> float | None:
    """Optimiser steps of a phase; None where they depend on the text."""
    if phase.budget.unit == "steps":
        return phase.budget.value
    if phase.budget.unit == "tokens" and phase.batch.unit == "tokens":
        return phase.budget.value / phase.batch.size
    return None


def sizes(recipe: Recipe, source: SourceFiles, plan: Plan) -> None:
    """Note what the source's files tell of the target's size; what they do not, as a note."""
    family = source.family
    plan.model_type = family.model_type if family else ""
    if recipe.source.architecture is not None:
        plan.notes.append(
            "parameters are known once the model is built: the source is an architecture"
        )
        return
    if family is None or source.folder is None:
        plan.notes.append(
            f"source '{recipe.source.model}' is not on this machine"
            f"{catalogue.hint(str(recipe.source.model))}; "
            "its size is known once it is downloaded (check downloads nothing)"
        )
        return
    shapes, tied = source.shapes, source.tied
    if shapes is None or tied is None:
        plan.depth_and_width = depth_and_width(source.config, family, recipe)
        plan.notes.append(
            "the source has no .safetensors file, so its size is not known before it is loaded"
        )
        return
    grafted = grafted_sizes(shapes, family, recipe, tied=tied)
    plan.by_part, plan.parameters = grafted, sum(grafted.values())
    plan.trainable = [
        trainable(recipe, phase, shapes, family, grafted, tied=tied) for phase in recipe.phases
    ]
    words = shapes[family.word_embeddings][0]
    plan.notes += vocabularies.notes(recipe, source.folder, words, tied=tied)
    plan.layers = Layers.of(shapes, source.config, family, recipe)
    if plan.layers is not None:
        plan.depth_and_width = plan.layers.number, plan.layers.width


def _phase(recipe: Recipe, phase: Phase, plan: Plan, count: Trained | None) -> dict[str, Any]:
    return {
        "name": phase.name,
        "trains": described(phase.train, phase.lora.parts if phase.lora else ()),
        "trainable": None if count is None else count.parameters,
        "budget": f"{phase.budget.value:,.12g} {phase.budget.unit}",
        "batch": _batch(recipe, phase),
        "learning_rates": phase.optimiser.peaks,
        "tokens_estimate": _tokens(recipe, phase, plan),
    }


def _batch(recipe: Recipe, phase: Phase) -> str:
    size, unit = f"{phase.batch.size:,}", phase.batch.unit
    if phase.mixture.bilingual_batch is not None:
        size += f" or {phase.mixture.bilingual_batch:,}"
    if unit == "sentences" and pairs.tokens_of_a_step(recipe, phase) is not None:
        return f"{size} pairs"
    joins = phase.join_sentences and unit == "sentences"
    return f"{size} blocks of sentences" if joins else f"{size} {unit}"


def _tokens(recipe: Recipe, phase: Phase, plan: Plan) -> float | None:
    """An estimate; None where the budget is in time, which `lingraft adapt` turns into tokens."""
    if phase.budget.seconds is not None:
        return None
    per_epoch = plan.unpacked_bytes_estimate / BYTES_PER_TOKEN
    if phase.sentences is not None:
        per_epoch = min(per_epoch, phase.sentences * TOKENS_PER_SENTENCE)
    per_sample = recipe.tokenizer.max_tokens if phase.join_sentences else TOKENS_PER_SENTENCE
    if phase.budget.unit == "tokens":
        return phase.budget.value
    if phase.budget.unit == "epochs":
        return phase.budget.value * per_epoch
    of_unit = per_sample if phase.batch.unit == "sentences" else 1
    step = pairs.tokens_of_a_step(recipe, phase) or phase.batch.size * of_unit
    return phase.budget.value * step


def _estimates(recipe: Recipe, plan: Plan) -> None:
    parameters = plan.parameters or 0
    most = max((entry["trainable"] or 0 for entry in plan.phases), default=0)
    models = 1 + len(recipe.baselines)
    # graft and best of each phase in fp32, one checkpoint with two moments, the exported model;
    # clean text and tokens
    copies = 1 + len(recipe.phases) + 1
    plan.disk_bytes_estimate = int(
        models * (parameters * 4 * copies + parameters * 4 + most * 8)
        + 2.5 * plan.unpacked_bytes_estimate
    )
    if plan.layers is not None:
        target = Target(recipe, plan.by_part, plan.layers, this_machine())
        plan.memory, plan.fits = verdict(target, plan.trainable)
