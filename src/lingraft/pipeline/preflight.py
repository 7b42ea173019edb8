"""Refuse a recipe that cannot work before any text is read, and say what it will do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lingraft.corpus import inputs as text_inputs
from lingraft.corpus import streams
from lingraft.corpus.cleaning import decontamination
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.models import source
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.graft import is_tied
from lingraft.paths import path_of
from lingraft.pipeline import pairs, stages
from lingraft.pipeline.fingerprints import named_files
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pipeline.outline import outline, shapes_of
from lingraft.pretrained.checkpoints import folder_of
from lingraft.pretrained.load import one_line
from lingraft.recipe import catalogue, stage_order
from lingraft.recipe.baselines import baseline
from lingraft.recipe.needs import lacking
from lingraft.recipe.selectors import described
from lingraft.recipe.streams import distilled

if TYPE_CHECKING:
    from lingraft.models.source import LoadedSource
    from lingraft.pipeline.outline import Outline
    from lingraft.recipe import Phase, Recipe


@dataclass(frozen=True)
class Plan:
    """The work that a recipe stands for."""

    recipe: Recipe
    """With the phases that its source goes through."""
    files: list[dict[str, Any]]
    """Files of text: name, and size in bytes where it is known."""
    target: Outline | None
    """None where the source is not on this machine."""
    notes: list[str]

    @property
    def stages(self) -> list[str]:
        """Return the stages in their order, baselines last."""
        methods = (f"baseline {section.method}" for section in self.recipe.baselines)
        return [*stage_order(phase.name for phase in self.recipe.phases), "report", *methods]

    @property
    def by_part(self) -> dict[str, int]:
        """Return the target's parameters by part."""
        return {} if self.target is None else self.target.by_part

    @property
    def parameters(self) -> int | None:
        """Return the target's parameters."""
        return sum(self.by_part.values()) or None

    @cached_property
    def phases(self) -> list[dict[str, Any]]:
        """Return what each phase trains, and for how long."""
        return [self._phase(phase) for phase in self.recipe.phases]

    def _phase(self, phase: Phase) -> dict[str, Any]:
        return {
            "name": phase.name,
            "trains": described(phase.train, phase.lora.parts if phase.lora else ()),
            "trainable": None if self.target is None else self.target.trainable(phase),
            "budget": f"{phase.budget.value:,.12g} {phase.budget.unit}",
            "batch": f"{phase.batch.size:,} {phase.batch.unit}",
            "learning_rates": phase.optimizer.peaks,
        }

    @property
    def memory_bytes_estimate(self) -> int:
        """Estimate weights, gradients and AdamW's moments in fp32, of the largest phase."""
        most = max((phase["trainable"] or 0 for phase in self.phases), default=0)
        return 4 * (self.parameters or 0) + 12 * most


def check(recipe: Recipe, *, download: bool = False) -> Plan:
    """Build the target of a recipe and of its baselines without values, and look at their inputs.

    Args:
        recipe: complete.
        download: fetch a source and a tokenizer of the Hub, which are left out else.

    Raises:
        LingraftError: the recipe cannot work.
    """
    variants = [recipe, *(baseline(recipe, index) for index in range(len(recipe.baselines)))]
    for variant in variants:
        check_words(variant)
    files = _check_text(recipe)
    name, revision = recipe.source.model, recipe.source.revision
    if download and name is not None and folder_of(name) is None:
        source.load_model(name, revision, device_map="meta")
    loaded, given = shapes_of(recipe), recipe.tokenizer.model
    if loaded is None:
        note = (
            f"source '{name}' is not on this machine{catalogue.hint(str(name))}; its size is known "
            "once it is downloaded (check downloads nothing)"
        )
        return Plan(for_model_kind(recipe, None), files, None, [note])
    if download or given is None or folder_of(given) is not None:
        stages.check_tokenizers(recipe)
    target, *_ = [_built(variant, loaded) for variant in variants]
    tied = target.tied and target.recipe.embeddings.output_init is not None
    note = "embeddings.output_init: without effect, the output projection is tied"
    return Plan(target.recipe, files, target, [note] if tied else [])


def check_words(recipe: Recipe) -> None:
    """Refuse what contradicts itself, whatever source and text are."""
    pairs.check(recipe)
    taught = any(phase.distil for phase in recipe.phases)
    if recipe.source.model is None and (recipe.graft.source_weights != "random" or taught):
        raise RecipeError(
            "source.architecture: there are no weights to start or to learn from; "
            'set training.method = "scratch", and no other method as a baseline'
        )
    for phase in recipe.phases:
        if phase.distil is not None:
            distilled(phase, recipe.texts)
    if recipe.tokenizer.action != "keep":
        for initializer in recipe.embeddings.initializers:
            if need := lacking(recipe.embeddings, initializer):
                raise RecipeError(f"embeddings: '{initializer}' {need}, or use another initializer")


def _check_text(recipe: Recipe) -> list[dict[str, Any]]:
    """Return the files of text; refuse what is not there, and kept text that is trained on.

    Raises:
        DataError: a file is missing.
        RecipeError: nothing is held out, or a kept text is among those read.
    """
    files = [file for stream in recipe.texts for file in streams.inputs_of(stream)]
    for stream in recipe.texts:
        decontamination.files_of(stream.corpus.decontaminate)
        if not stream.corpus.test or (recipe.phases and not stream.corpus.valid):
            raise RecipeError(
                "corpus.valid and corpus.test: a run is watched and scored by text that is held "
                "out; hold out a share of the documents (corpus.test = 0.02)"
            )
    kept = [name for name in recipe.evaluation.kept if not name.startswith("hub:")]
    for name in (*named_files(recipe.embeddings), *kept):
        if not path_of(name).exists():
            raise DataError(f"{name}: no such file; correct the path, or leave it out")
    named = [name for stream in recipe.texts for name in stream.corpus.text]
    read = {path_of(name).resolve() for name in (*named, *(file["name"] for file in files))}
    for name in recipe.evaluation.kept:
        inside = (path_of(file["name"]).resolve() for file in text_inputs.inputs([name]))
        if not read.isdisjoint((path_of(name).resolve(), *inside)):
            raise RecipeError(f"evaluation.kept: {name}: is text of the run, which trains on it")
    return files


def _built(recipe: Recipe, loaded: LoadedSource) -> Outline:
    """Build the target and select what each phase trains.

    Raises:
        LingraftError: the source's architecture cannot have, or train, what is asked for.
    """
    for name in recipe.embeddings.initializers:
        if INITIALIZERS[name].runs_model and loaded.family.kind != "causal":
            raise UnsupportedModelError(
                f"graft: '{name}' is for causal language models, and the source is a "
                f"{loaded.family.model_type} model; use 'mean' or 'focus'"
            )
    recipe = for_model_kind(recipe, loaded.family, tied=is_tied(loaded.model))
    with one_line("the model cannot be built", "correct [tokenizer], [graft] or lora"):
        target = outline(recipe, loaded)
        for phase in recipe.phases:
            target.trainable(phase)
    return target
