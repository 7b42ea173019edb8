"""Models of a run with the source's parts put back, to see where the source's language is lost.

Son et al. 2022, table 4: after each phase, with and without the implicit translation layers (ITL),
with the target's or the source's vocabulary; beside them the source, and random weights.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import export
from lingraft.models.families.record import KINDS
from lingraft.models.graft import VocabularyTensors, rebuild
from lingraft.models.modules import wanted_by
from lingraft.models.source import load_model
from lingraft.pretrained.load import load_config
from lingraft.processes import check_one_process
from lingraft.recipe.base import Places
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft.finetuning.recipe import Finetune
    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

MODELS = "models"
"""Folder in OUT where the models lie while they are fine-tuned."""
SOURCE = "source"
"""Label of the source as it was."""
OF_VOCABULARY = ("mask_token_id", "vocab_size", "tokenizer_class")
"""Configuration values that belong to a vocabulary, beside its special tokens."""


@dataclass(frozen=True)
class RestoredModel:
    """A model that is fine-tuned."""

    label: str
    after: str | None
    """The phase whose best weights it has; None: the source's."""
    without_itl: bool = False
    of_source: bool = False
    """Whether tokenizer, word embeddings and output bias are the source's."""
    random: bool = False
    """Draw all weights anew: what fine-tuning alone reaches."""


@contextlib.contextmanager
def built(recipe: Finetune, out: Path, base: Path) -> Iterator[Finetune]:
    """Build the models of a run in OUT/models, and delete them at the end.

    Args:
        recipe: its one model is the folder of a run.
        out: the folder of the results.
        base: the folder that the recipe's paths are relative to.

    Yields:
        The recipe with the built models in the run's place.

    Raises:
        LingraftError: a part of the run or its source is missing, or the run has no such parts.
    """
    check_one_process("restore_source", "start it without torchrun or accelerate launch")
    run = Run.existing(base / recipe.models[0])
    adapted = read_recipe(run.recipe_path)
    phases = phases_of(run, adapted)
    origin = source_of(run, adapted, phases[0])
    models = Run(out / MODELS)
    with models.locked():
        wanted = trained_models(phases, adapted)
        folders = {one.label: models.path / one.label for one in wanted}
        try:
            for variant in wanted:
                build(variant, run, adapted, origin, folders[variant.label])
            changes = {"models": tuple(str(folder.resolve()) for folder in folders.values())}
            yield recipe.model_copy(
                update=changes | {"labels": tuple(folders), "restore_source": False}
            )
        finally:
            for folder in folders.values():
                shutil.rmtree(folder, ignore_errors=True)


def phases_of(run: Run, adapted: Recipe) -> list[str]:
    """Return the phases whose weights are there.

    Raises:
        RecipeError: the run has no layers of a source that trained.
        DataError: no weights are there.
    """
    modules = [module.part for module in wanted_by(adapted.graft)]
    if adapted.source.model is None or modules:
        raise RecipeError(
            f"{run.path}: restore_source takes a source's layers apart that trained without "
            f"modules, and it has {', '.join(modules) or 'no source'}"
        )
    names = [phase.name for phase in adapted.phases]
    stages = [run.stage(name) for name in names]
    kept = [s.name for s in stages if s.done_path.is_file() and (s.path / "best").is_dir()]
    if not kept:
        raise DataError(f"{run.path}: holds the weights of no finished phase; finish the run")
    if left_out := [name for name in names if name not in kept]:
        logger.warning("left out, since the weights were not kept: %s", ", ".join(left_out))
    return kept


def source_of(run: Run, adapted: Recipe, phase: str) -> LoadedSource:
    """Load the source that a run was made from.

    Raises:
        DataError: it is not there, or another model is.
        UnsupportedModelError: it is no masked language model.
    """
    name = str(adapted.source.model)
    origin = load_model(name, adapted.source.revision)
    if origin.family.kind != "masked":
        raise UnsupportedModelError(f"source model '{name}': restore_source is for encoders")
    config, own = load_config(str(run.stage(phase).path / "best")), origin.model.config
    depth = adapted.graft.places.source_layers(config.num_hidden_layers)
    expected = (config.model_type, config.hidden_size, depth)
    is_own = expected == (own.model_type, own.hidden_size, own.num_hidden_layers)
    grafted = run.stage("graft").path / "model"
    if is_own and adapted.graft.source_weights == "pretrained" and grafted.is_dir():
        first, copied = f"{origin.family.layers}.0.", load_model(str(grafted)).model.state_dict()
        moved = f"{origin.family.layers}.{adapted.graft.places.before}."
        is_own = all(
            torch.equal(copied[name.replace(first, moved)], tensor)
            for name, tensor in origin.model.state_dict().items()
            if name.startswith(first)
        )
    if not is_own:
        raise DataError(
            f"source model '{name}': is not the one that the run was made from; source.model in "
            f"{run.recipe_path} says where it is"
        )
    return origin


def trained_models(phases: list[str], adapted: Recipe) -> list[RestoredModel]:
    """List the models: the source first, the random weights of both vocabularies last."""
    names = {False: ".inserted", True: ".not-inserted"}
    names = names if any(adapted.graft.places) else {False: ""}
    return [
        RestoredModel(SOURCE, None, of_source=True),
        *(
            RestoredModel(f"{phase}{names[without]}.{whose}-vocab", phase, without, whose == SOURCE)
            for phase in phases
            for whose in ("target", SOURCE)
            for without in names
        ),
        RestoredModel("random.target-vocab", phases[0], random=True),
        RestoredModel("random.source-vocab", None, of_source=True, random=True),
    ]


def build(
    variant: RestoredModel, run: Run, adapted: Recipe, origin: LoadedSource, folder: Path
) -> None:
    """Write a model with its tokenizer as a stock checkpoint.

    All are of the stock class of masked language models, so that what a fine-tuning draws anew (the
    head; BERT's pooler) is the same for all.
    """
    loaded, places = origin, Places()
    if variant.after is not None:
        loaded = load_model(str(run.stage(variant.after).path / "best"))
        places = adapted.graft.places
    depth = int(getattr(loaded.model.config, loaded.family.depth_key))
    left_out = places.inserted(depth) if variant.without_itl else ()
    changes, vocabulary = {}, None
    if variant.of_source and variant.after is not None:
        config = origin.model.config
        keys = (*KINDS[origin.family.kind].special_ids, *OF_VOCABULARY)
        changes = {key: getattr(config, key) for key in keys if hasattr(config, key)}
        vocabulary = VocabularyTensors.of(origin.model, origin.family, "the source's")
    model, _ = rebuild(
        loaded.model,
        loaded.family,
        [index for index in range(depth) if index not in left_out],
        config_changes=changes,
        seed=0,
        keep_source=not variant.random,
        vocabulary=vocabulary,
        missing=loaded.missing,
    )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    export.write_model(model, folder)
    named = (str(adapted.source.model), adapted.source.revision)
    tokenizer = named if variant.of_source else (str(run.stage("tokenizer").path), None)
    tokenizer_files.save(tokenizer_files.load(*tokenizer), folder)
