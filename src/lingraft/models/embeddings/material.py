"""Material of initializers beside the two vocabularies: tokenizers, text, lexicons, vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft import recipe
    from lingraft.models.families import Family
    from lingraft.tokenizer.vocabulary import Vocabulary

ORDER = (
    "the target language must come first in each line; "
    "set embeddings.source_first = true if they are the other way round"
)


@dataclass(frozen=True)
class Pretrained:
    """The source model itself; who runs it leaves it as it was."""

    model: PreTrainedModel
    family: Family
    embeddings_UD: torch.Tensor | None = None
    """The target's input rows, where rows of the output projection are wanted; None where input
    rows are."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts of the work for the report; filled in."""


@dataclass(frozen=True)
class Material:
    """Material that an initializer may learn from; each call of `sentences` reads the text anew."""

    source_tokenizer: PreTrainedTokenizerFast
    target_tokenizer: PreTrainedTokenizerFast
    sentences: Callable[[], Iterable[str]]
    """Training text, a sentence a string; at most `embeddings.max_sentences` of each language."""
    resources: recipe.Embeddings
    seed: int
    """Seed of everything that is trained here, whatever the generator of the fresh rows."""
    pretrained: Pretrained | None = None
    """The source model, for what runs it; None where nobody may."""


@dataclass(frozen=True)
class Inputs:
    """Inputs of every initializer."""

    source_VD: torch.Tensor
    """[V, D] the source's word embeddings, of any floating type."""
    source: Vocabulary
    target: Vocabulary
    material: Material | None
    """Material to learn from; most initializers need it."""

    def needed(self, initializer: str) -> Material:
        """Return the material, which an initializer cannot do without.

        Raises:
            RecipeError: there is none.
        """
        if self.material is None:
            raise RecipeError(
                f"embeddings.init: '{initializer}' needs the tokenizers of a source model and of "
                "the target, and there is no source; set source.model, or use 'random'"
            )
        return self.material
