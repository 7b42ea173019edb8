"""Refuse a recipe that cannot work, before any text is read and without the network."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from lingraft.corpus import inputs as text_inputs
from lingraft.corpus import streams
from lingraft.corpus.cleaning import evaluations, scripts
from lingraft.errors import DataError, LingraftError, RecipeError, UnsupportedModelError
from lingraft.models.graft import is_tied
from lingraft.paths import path_of
from lingraft.pipeline import pairs, stages
from lingraft.pipeline.contents import named_files
from lingraft.pipeline.outline import outline, shapes_of
from lingraft.pipeline.source_config import source_of
from lingraft.pipeline.suiting import suited
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import one_line
from lingraft.recipe.baselines import baseline
from lingraft.recipe.embeddings import READ_LEXICONS, RUN_MODEL
from lingraft.recipe.needs import lacking
from lingraft.recipe.phase import SPREAD
from lingraft.recipe.run import FROZEN_IN_FP32
from lingraft.recipe.selectors import trained_parts
from lingraft.recipe.streams import distilled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.models.families import Family
    from lingraft.models.source import LoadedSource
    from lingraft.pipeline.outline import Outline
    from lingraft.recipe import Embeddings, Hardware, Recipe

TRACKER_MODULES = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


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
            scripts.of_language(language, stream.corpus.scripts, warn=False)
    for phase in recipe.phases:
        trained_parts(phase.train, phase.name)
        if phase.lora and importlib.util.find_spec("peft") is None:
            raise RecipeError(f'phase {phase.name}: LoRA needs peft; pip install "lingraft[lora]"')
    _check_upload(recipe)
    _check_teachers(recipe)
    pairs.check(recipe)
    methods, runs = set(), [recipe]
    for index, section in enumerate(recipe.baselines):
        if section.method in methods:
            raise RecipeError(f"baselines: method '{section.method}' occurs twice; leave one out")
        methods.add(section.method)
        runs.append(baseline(recipe, index))
        pairs.check(runs[-1])
    _check_embeddings(recipe, [run.embeddings for run in runs])
    _check_hardware(recipe.hardware)
    random = all(run.graft.source_weights == "random" for run in runs)
    if recipe.source.architecture is not None and not random:
        raise RecipeError(
            "source.architecture: there are no weights to start from; "
            'set training.method = "scratch", and no other method as a baseline'
        )


def _check_hardware(hardware: Hardware) -> None:
    """Refuse what does not go together, and trackers that are not installed."""
    if hardware.precision in ("fp16", "fp32") and hardware.frozen_weights == "bf16":
        raise RecipeError(FROZEN_IN_FP32)
    for tracker in hardware.trackers:
        if importlib.util.find_spec(TRACKER_MODULES[tracker]) is None:
            raise RecipeError(
                f"hardware.trackers: '{tracker}' is not installed; "
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


def _check_tokenizers(recipe: Recipe, *, download: bool) -> None:
    """Refuse tokenizers of which no vocabulary can be made; those not here only with a download."""
    names = (recipe.source.model, recipe.tokenizer.model)
    known = source_of(recipe).family is not None
    if download or (known and all(name is None or folder_of(name) is not None for name in names)):
        stages.check_tokenizers(recipe)


def _check_embeddings(recipe: Recipe, sections: Sequence[Embeddings]) -> None:
    """Refuse an initializer without what it needs."""
    if recipe.tokenizer.action == "keep":
        return
    for section, name in ((one, name) for one in sections for name in one.initializers):
        if need := lacking(recipe.embeddings, name):
            key = "init" if section.init == name else "output_init"
            raise RecipeError(f"embeddings.{key}: '{name}' {need}, or use another initializer")


def check_inputs(
    recipe: Recipe, *, download: bool = False
) -> tuple[list[dict[str, Any]], Outline | None]:
    """Check that text and source are there and of a known kind, without reading them.

    Args:
        recipe: of the run.
        download: fetch tokenizers of the Hub.

    Returns:
        The text files: name, and size in bytes where it is known; and as `check_grafts`.

    Raises:
        DataError: text, source or a resource is missing, or the source's configuration is broken.
        UnsupportedModelError: the source is of another family.
    """
    files = [file for stream in recipe.texts for file in streams.inputs_of(stream)]
    for stream in recipe.texts:
        for split in ("valid", "test") if recipe.phases else ("test",):
            if not getattr(stream.corpus, split):
                raise RecipeError(
                    f"corpus.{split} = 0: a run is watched and scored by text that is held out; "
                    f"hold out a share of the documents (corpus.{split} = 0.02)"
                )
    for stream in recipe.texts:
        evaluations.files_of(stream.corpus.decontaminate)
    for name in named_files(recipe.embeddings):
        if not path_of(name).exists():
            raise DataError(f"resources: {name}: no such file; correct the path, or leave it out")
    _check_kept(recipe, files)
    _check_tokenizers(recipe, download=download)
    return files, check_grafts(recipe)


def check_grafts(recipe: Recipe) -> Outline | None:
    """Build the target of the run and of each baseline without values, and select what trains.

    Returns:
        The run's; None where the source is not on this machine.

    Raises:
        LingraftError: the source's architecture cannot have, or train, what is asked for.
    """
    loaded = shapes_of(recipe)
    _check_initializers(recipe, source_of(recipe).family)
    if loaded is None:
        return None
    target = _check_graft(recipe, loaded)
    for index, section in enumerate(recipe.baselines):
        try:
            _check_graft(baseline(recipe, index), loaded)
        except LingraftError as error:
            raise type(error)(f"baseline '{section.method}': {error}") from None
    return target


def _check_graft(recipe: Recipe, loaded: LoadedSource) -> Outline:
    _check_initializers(recipe, loaded.family)
    recipe = suited(recipe, loaded.family, tied=is_tied(loaded.model))
    with one_line("the model cannot be built", "correct [tokenizer], [graft] or lora"):
        target = outline(recipe, loaded)
        for phase in recipe.phases:
            target.trainable(phase)
    return target


def _check_initializers(recipe: Recipe, family: Family | None) -> None:
    """Refuse an initializer that cannot run this source."""
    for name in recipe.embeddings.initializers:
        if name in RUN_MODEL and family is not None and family.kind != "causal":
            raise UnsupportedModelError(
                f"graft: '{name}' is for causal language models, and the source is a "
                f"{family.model_type} model; use 'mean' or 'focus'"
            )


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


def unread(recipe: Recipe) -> list[str]:
    """A note where dictionaries are named that no method of the run reads."""
    variants = (baseline(recipe, index) for index in range(len(recipe.baselines)))
    read = {name for run in (recipe, *variants) for name in run.embeddings.initializers}
    if not recipe.embeddings.lexicons or not read.isdisjoint(READ_LEXICONS):
        return []
    return [
        f"embeddings.lexicons: embeddings.init = '{recipe.embeddings.init}' reads no "
        "dictionaries; take --method metaxlm-dict (embeddings.init = 'dictionary'), or leave "
        "them out"
    ]


def too_small(recipe: Recipe) -> list[str]:
    """Return a note where the phases cannot move new weights away from where they start.

    Nothing is said where the number of steps is not known before the text is read, and where
    nothing is new.
    """
    graft = recipe.graft
    is_new = (
        recipe.tokenizer.action != "keep" or any(graft.places) or graft.source_weights == "random"
    )
    steps, reach = 0.0, 0.0
    for phase in recipe.phases:
        budget, batch = phase.budget, phase.batch
        if budget.unit == "steps":
            count = budget.value
        elif budget.unit == batch.unit == "tokens":
            count = budget.value / batch.size
        else:
            return []
        steps += count
        reach += phase.reach(count)
    if not is_new or not steps or reach >= SPREAD:
        return []
    return [
        f"the plan is too small to learn from: the learning rates of all {steps:,.0f} steps add up "
        f"to {reach:.2g}, about as far as a weight can move, and new weights start with a spread "
        f"of {SPREAD:g}; take more steps or a larger learning rate"
    ]
