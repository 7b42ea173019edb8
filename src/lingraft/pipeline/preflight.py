"""Refuse a recipe that cannot work before any text is read, and say what it will do.

The target of a recipe on torch's meta device: built by the run's own code, counted, not filled.

What is counted of it is exact for the vocabulary that it is built with. Of a vocabulary that is
trained yet this is the largest that the recipe allows.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lingraft.corpus import inputs as text_inputs, streams
from lingraft.corpus.cleaning import decontamination
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.files import path_of
from lingraft.models import damage, export, source
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.families.record import KINDS
from lingraft.models.graft import VocabularyTensors, is_tied
from lingraft.models.modules import in_folder
from lingraft.models.parts import translation_layers
from lingraft.pipeline import phase_data, stages
from lingraft.pipeline.fingerprints import named_files
from lingraft.pipeline.grafting import assemble, counts_of
from lingraft.pipeline.model_kinds import for_model_kind
from lingraft.pretrained.checkpoints import folder_of, place_of
from lingraft.pretrained.load import one_line
from lingraft.pretrained.tokenizers import SETTINGS
from lingraft.recipe import catalogue, stage_order
from lingraft.recipe.base import check_initializers, described
from lingraft.recipe.baselines import baseline
from lingraft.recipe.methods import hard_labels
from lingraft.recipe.run import KEEPING
from lingraft.recipe.streams import distilled
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.frame import code_for
from lingraft.tokenizer.state import holds_tokenizer
from lingraft.tokenizer.vocabulary import Vocabulary
from lingraft.training.problem import select_trained

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.recipe import Phase, Recipe, Source


@dataclass(frozen=True)
class Outline:
    """A target without values."""

    recipe: Recipe
    family: Family
    model: PreTrainedModel
    old_rows: int
    """Rows of the target that are kept from the source, from the first on."""

    @property
    def tied(self) -> bool:
        """Return whether the output projection is the word embeddings."""
        return is_tied(self.model)

    @cached_property
    def by_part(self) -> dict[str, int]:
        """Parameters of the target by part, as the graft stage counts them."""
        return dict(counts_of(self.model, self.family, self.recipe)["parameters"]["by_part"])

    @property
    def rows(self) -> int:
        """Rows of the embeddings."""
        return int(self.model.get_input_embeddings().get_parameter("weight").shape[0])

    def trainable(self, phase: Phase) -> int:
        """Count the parameters that a phase trains, selected as the run selects them.

        Raises:
            RecipeError: the phase names what the target has not, or nothing that it has.
        """
        model = self.model if phase.lora is None else copy.deepcopy(self.model)
        itl = translation_layers(model.config, self.family, self.recipe.graft.places)
        new_V = torch.arange(self.rows) >= self.old_rows
        with torch.device("meta"):
            return select_trained(model, self.family, phase, itl, lambda: new_V).count


def local_folder(section: Source) -> Path | None:
    """Find where a source lies, in the Hub's cache too; None where it is not on this machine.

    Of an adapter it is the place of its base.
    """
    if section.model is None:
        return None
    name, revision, _ = place_of(section.model, section.revision)
    folder = folder_of(name)
    if folder is None:
        from huggingface_hub import try_to_load_from_cache  # a second's import, only for Hub ids

        config = try_to_load_from_cache(name, "config.json", revision=revision)
        folder = Path(config).parent if isinstance(config, str) else None
    return folder


def shapes_of(section: Source, vocab_size: int) -> source.LoadedSource | None:
    """Build a source without values; None where it is not on this machine.

    Args:
        section: the model, or an architecture.
        vocab_size: of an architecture's model.

    Raises:
        LingraftError: it could not be loaded, or has modules that nothing can be grafted onto.
    """
    if section.architecture is None:
        folder = local_folder(section)
        for module in () if folder is None else in_folder(folder):
            raise UnsupportedModelError(
                f"source model '{folder}': has {module.part}, which cannot be grafted onto; "
                "choose the model without them"
            )
        return None if folder is None else source.load_shapes(folder, section.model)
    roles = set().union(*(kind.special_ids.values() for kind in KINDS.values()))
    model_type = str(section.architecture["model_type"])
    special = export.special_ids(model_type, dict.fromkeys(roles, 0))
    with torch.device("meta"):
        return source.from_architecture(section, vocab_size, special, seed=0)


def is_source_tied(section: Source) -> bool:
    """Return whether a source's output projection is its word embeddings, by its files.

    Of one that is not on this machine its configuration says so.
    """
    folder = local_folder(section)
    if folder is None:
        return bool(source.config_of(section).tie_word_embeddings)
    return is_tied(source.load_shapes(folder, section.model).model)


def outline(recipe: Recipe, loaded: source.LoadedSource) -> Outline:
    """Graft as the run does, onto a source without values.

    Args:
        recipe: of the run.
        loaded: its source, of `shapes_of`.

    Raises:
        LingraftError: the graft could not be made.
    """
    family, model = loaded.family, loaded.model
    rows, old = _rows(recipe, loaded)
    pad, vocabulary = model.config.pad_token_id, None
    changes: dict[str, Any] = {"vocab_size": rows} | (
        {} if pad is None else {"pad_token_id": min(pad, rows - 1)}
    )
    if rows != _matrix_rows(loaded):
        vocabulary = _resized(VocabularyTensors.of(model, family, ""), rows)
    with torch.device("meta"):
        target, _, _ = assemble(recipe, loaded, changes, vocabulary, lambda _: 0)
    return Outline(recipe, family, target, old)


def _resized(tensors: VocabularyTensors, rows: int) -> VocabularyTensors:
    """Return the tensors of a vocabulary with so many rows."""

    def like(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.new_empty(rows, *tensor.shape[1:])

    embeddings = like(tensors.embeddings_VD)
    assert embeddings is not None
    return VocabularyTensors(embeddings, like(tensors.bias_V), "", like(tensors.decoder_VD))


def _rows(recipe: Recipe, loaded: source.LoadedSource) -> tuple[int, int]:
    """Rows of the target's embeddings, at most; and how many of them are kept from the source."""
    section, matrix = recipe.tokenizer, _matrix_rows(loaded)
    folder = local_folder(recipe.source)
    if section.action not in KEEPING or folder is None or not holds_tokenizer(folder):
        return section.most_rows(matrix), matrix if recipe.keeps_rows else 0
    home = folder_of(place_of(str(recipe.source.model), own=SETTINGS).name) or folder
    theirs = tokenizer_files.load(str(home))
    size = Vocabulary.of(theirs).size
    code = code_for(theirs, section.language_code, recipe.languages[0])
    added = int(code is not None and code not in theirs.get_vocab())
    if recipe.keeps_rows and section.action == "keep" and not added:
        size = Vocabulary.of(theirs).within(matrix).size
    old = min(size, matrix) if recipe.keeps_rows else 0
    return section.most_rows(size) + added, old


def _matrix_rows(loaded: source.LoadedSource) -> int:
    return int(loaded.model.get_input_embeddings().get_parameter("weight").shape[0])


@dataclass(frozen=True)
class RunPlan:
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


def check(recipe: Recipe, *, download: bool = False) -> RunPlan:
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
    loaded = shapes_of(recipe.source, recipe.tokenizer.vocab_size)
    given = recipe.tokenizer.model
    if loaded is None:
        note = (
            f"source '{name}' is not on this machine{catalogue.hint(str(name))}; its size is known "
            "once it is downloaded (check downloads nothing)"
        )
        return RunPlan(for_model_kind(recipe, None), files, None, [note])
    if download or given is None or folder_of(given) is not None:
        stages.check_tokenizers(recipe)
    target, *_ = [_built(variant, loaded) for variant in variants]
    tied = target.tied and target.recipe.embeddings.output_init is not None
    note = "embeddings.output_init: without effect, the output projection is tied"
    return RunPlan(target.recipe, files, target, _damaged(recipe, loaded) + [note] * tied)


def _damaged(recipe: Recipe, loaded: source.LoadedSource) -> list[str]:
    """Name rows of the source's files that the graft will mend; of an adapter its base's.

    Raises:
        DataError: there are too many.
    """
    folder, theirs = local_folder(recipe.source), stages.source_tokenizer(recipe)
    if folder is None or theirs is None:
        return []
    names, damaged = {loaded.family.word_embeddings, loaded.family.decoder}, dict[int, str]()
    for rows_VD in source.stored(folder, loaded.family, names).values():
        damaged |= damage.find(rows_VD, Vocabulary.of(theirs), str(recipe.source.model))
    return damage.described(damaged, theirs)


def check_words(recipe: Recipe) -> None:
    """Refuse what contradicts itself, whatever source and text are."""
    phase_data.check_pairs(recipe)
    taught = any(phase.distil for phase in recipe.phases)
    if recipe.source.model is None and (recipe.graft.source_weights != "random" or taught):
        raise RecipeError(
            "source.architecture: there are no weights to start or to learn from; "
            'set training.method = "scratch", and no other method as a baseline'
        )
    for phase in recipe.phases:
        if phase.distil is not None:
            distilled(phase, recipe.texts)
        named = {name for entry, _ in recipe.read_in(phase) for name in phase.objectives_of(entry)}
        if phase.mean_teacher and (named != {"mlm"} or recipe.hardware.sharding != "none"):
            raise RecipeError(
                f"phase '{phase.name}': mean_teacher: is for masked words alone (mlm), and not "
                "with hardware.sharding; set training.mean_teacher = 0"
            )
        if (problem := hard_labels(recipe)) and any(entry.soft_labels for entry in phase.data):
            raise RecipeError(f"phase '{phase.name}': soft_labels: {problem}; leave it out")
    if recipe.tokenizer.action != "keep":
        check_initializers(recipe.embeddings)


def _check_text(recipe: Recipe) -> list[dict[str, Any]]:
    """Return the files of text; refuse what is not there, and kept text that is trained on.

    Raises:
        DataError: a file is missing.
        RecipeError: nothing is held out, or a kept text is among those read.
    """
    if not recipe.scored:
        raise RecipeError("streams: models write all of the text; give files of a language, too")
    files = [file for stream in recipe.texts for file in streams.inputs_of(stream)]
    for stream in recipe.texts:
        decontamination.files_of(stream.corpus.decontaminate)
        if not stream.corpus.test or (recipe.phases and not stream.corpus.valid):
            raise RecipeError(
                "corpus.valid and corpus.test: a run is watched and scored by text that is held "
                "out; hold out a share of the documents (corpus.test = 0.02)"
            )
    asked = [name for name in (recipe.evaluation.prompts,) if name]
    kept = [name for name in (*recipe.evaluation.kept, *asked) if not name.startswith("hub:")]
    for name in (*named_files(recipe.embeddings), *kept):
        if not path_of(name).exists():
            raise DataError(f"{name}: no such file; correct the path, or leave it out")
        if name in asked and not any(text_inputs.lines_of([name])):
            raise DataError(f"evaluation.prompts: {name}: holds no prompt; write a line each")
    named = [name for stream in recipe.texts for name in stream.corpus.text]
    read = {path_of(name).resolve() for name in (*named, *(file["name"] for file in files))}
    for name in recipe.evaluation.kept:
        inside = (path_of(file["name"]).resolve() for file in text_inputs.inputs([name]))
        if not read.isdisjoint((path_of(name).resolve(), *inside)):
            raise RecipeError(f"evaluation.kept: {name}: is text of the run, which trains on it")
    return files


def _built(recipe: Recipe, loaded: source.LoadedSource) -> Outline:
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
