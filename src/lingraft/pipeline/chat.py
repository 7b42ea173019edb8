"""What makes a model answer, put onto the language that its base has learnt (Huang et al. 2023).

With `source.base` the base's weights are grafted and trained. Behind the last phase every weight
gets the difference chat − base; of embeddings those rows whose piece the source has too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models import export
from lingraft.models.source import load_model
from lingraft.pipeline import fingerprints
from lingraft.rundir import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel

    from lingraft.models.source import LoadedSource
    from lingraft.recipe import Recipe, Source
    from lingraft.rundir import Run

Array = np.ndarray[Any, Any]
STAGE = "chat"


def check(recipe: Recipe) -> None:
    """Refuse a base whose difference would not fit the result.

    Raises:
        RecipeError: so it is.
    """
    graft = recipe.graft
    if recipe.source.base is None:
        return
    if any(graft.places) or graft.adapters or graft.source_weights == "random":
        raise RecipeError("source.base: goes with the source's own layers alone; insert none")
    if not recipe.phases:
        raise RecipeError("source.base: is trained, and the method trains nothing; leave it out")


def load_base(section: Source, loaded: LoadedSource, **options: Any) -> PreTrainedModel:
    """Load the base of a chat model; `options` are those of `from_pretrained`.

    Raises:
        UnsupportedModelError: its tensors have other shapes; it may have fewer rows of pieces.
    """
    base = load_model(str(section.base), **options).model
    rows = (loaded.family.word_embeddings, loaded.family.decoder)
    theirs = dict(base.named_parameters())
    for name, parameter in loaded.model.named_parameters():
        skipped = int(name in rows)
        if name not in theirs or theirs[name].shape[skipped:] != parameter.shape[skipped:]:
            raise UnsupportedModelError(
                f"source.base: '{section.base}' has no '{name}' like that of '{section.model}'; "
                "name the model that it was made of"
            )
    return base


@torch.no_grad()
def take_base(section: Source, loaded: LoadedSource) -> None:
    """Give a chat model the weights of its base, in place; rows that the base lacks stay."""
    if section.base is not None:
        theirs = dict(load_base(section, loaded).named_parameters())
        for name, parameter in loaded.model.named_parameters():
            rows = theirs[name][: len(parameter)]
            parameter[: len(rows)] = rows


def add_difference(recipe: Recipe, run: Run, trained: str) -> str:
    """Add chat − base to the trained weights; return the fingerprint of what comes out."""
    source, stage = recipe.source, run.stage(STAGE)
    digest = fingerprint(STAGE, trained, fingerprints.source_fingerprint(recipe))
    if not stage.is_done(digest):
        with stage.building(digest) as (folder, result):
            chat = load_model(str(source.model), source.revision)
            model = load_model(str(run.weights([phase.name for phase in recipe.phases]))).model
            ids = source_ids(run.stage("graft").path)
            result["rows"] = add(model, chat, load_base(source, chat), ids)
            export.save(model, folder / "model")
    return digest


@torch.no_grad()
def add(
    model: PreTrainedModel, chat: LoadedSource, base: PreTrainedModel, source_ids: Array
) -> int:
    """Add chat − base to a model in place; return how many rows of pieces got it.

    Args:
        model: trained from the base, with another vocabulary.
        chat: the source.
        base: what the source was made of.
        source_ids: [U] the source's id of each piece; -1 without one.
    """
    theirs, own = dict(base.named_parameters()), dict(chat.model.named_parameters())
    matrices = {chat.family.word_embeddings, chat.family.decoder, *chat.family.output_bias}
    known = len(theirs[chat.family.word_embeddings])
    rows = np.flatnonzero((source_ids >= 0) & (source_ids < known))
    for name, parameter in model.named_parameters():
        to, at = (rows, source_ids[rows]) if name in matrices else (slice(None), slice(None))
        parameter[to] += own[name][at] - theirs[name][at]
    return len(rows)


def source_ids(graft: Path) -> Array:
    """Return [U] the source's id of each row that is a copy, by the graft stage; -1 of others."""
    lines = (graft / "provenance.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    return np.array([int(line.split("\t")[3]) for line in lines])
