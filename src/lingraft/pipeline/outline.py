"""The target of a recipe on torch's meta device: built by the run's own code, counted, not filled.

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

from lingraft.errors import UnsupportedModelError
from lingraft.models import export, source
from lingraft.models.graft import VocabularyTensors, is_tied
from lingraft.models.kinds import KINDS
from lingraft.models.modules import in_folder
from lingraft.models.parts import translation_layers
from lingraft.models.shapes import load_shapes
from lingraft.pipeline.grafting import assemble, counts_of
from lingraft.pretrained.checkpoints import folder_of
from lingraft.recipe.run import KEEPING
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.frame import code_for
from lingraft.tokenizer.state import holds_tokenizer
from lingraft.tokenizer.vocabulary import Vocabulary
from lingraft.training.problem import select_trained

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lingraft.models.families import Family
    from lingraft.models.source import LoadedSource
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
        counts = counts_of(self.model, self.family, self.recipe)["parameters"]["by_part"]
        return dict(counts)

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
    """Find where a source lies, in the Hub's cache too; None where it is not on this machine."""
    if section.model is None:
        return None
    folder = folder_of(section.model)
    if folder is None:
        from huggingface_hub import try_to_load_from_cache  # a second's import, only for Hub ids

        config = try_to_load_from_cache(section.model, "config.json", revision=section.revision)
        folder = Path(config).parent if isinstance(config, str) else None
    return folder


def shapes_of(recipe: Recipe) -> LoadedSource | None:
    """Build a recipe's source without values; None where it is not on this machine.

    Raises:
        LingraftError: it could not be loaded, or has modules that nothing can be grafted onto.
    """
    if recipe.source.architecture is None:
        folder = local_folder(recipe.source)
        for module in () if folder is None else in_folder(folder):
            raise UnsupportedModelError(
                f"source model '{folder}': has {module.part}, which cannot be grafted onto; "
                "choose the model without them"
            )
        return None if folder is None else load_shapes(folder)
    roles = set().union(*(kind.special_ids.values() for kind in KINDS.values()))
    model_type = str(recipe.source.architecture["model_type"])
    special = export.special_ids(model_type, dict.fromkeys(roles, 0))
    with torch.device("meta"):
        return source.from_architecture(recipe.source, recipe.tokenizer.vocab_size, special, seed=0)


def is_source_tied(recipe: Recipe) -> bool:
    """Return whether the source's output projection is its word embeddings, by its files.

    Of one that is not on this machine its configuration says so.
    """
    folder = local_folder(recipe.source)
    if folder is None:
        return bool(source.config_of(recipe.source).tie_word_embeddings)
    return is_tied(load_shapes(folder).model)


def outline(recipe: Recipe, loaded: LoadedSource) -> Outline:
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


def _rows(recipe: Recipe, loaded: LoadedSource) -> tuple[int, int]:
    """Rows of the target's embeddings, at most; and how many of them are kept from the source."""
    section, matrix = recipe.tokenizer, _matrix_rows(loaded)
    folder = local_folder(recipe.source)
    if section.action not in KEEPING or folder is None or not holds_tokenizer(folder):
        return section.most_rows(matrix), matrix if recipe.keeps_rows else 0
    theirs = tokenizer_files.load(str(folder))
    size = Vocabulary.of(theirs).size
    code = code_for(theirs, section.language_code, recipe.languages[0])
    added = int(code is not None and code not in theirs.get_vocab())
    if recipe.keeps_rows and section.action == "keep" and not added:
        size = Vocabulary.of(theirs).within(matrix).size
    old = min(size, matrix) if recipe.keeps_rows else 0
    return section.most_rows(size) + added, old


def _matrix_rows(loaded: LoadedSource) -> int:
    return int(loaded.model.get_input_embeddings().get_parameter("weight").shape[0])
