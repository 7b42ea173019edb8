"""Material of initializers beside the two vocabularies: tokenizers, text, lexicons, vectors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus import lexicon
from lingraft.errors import DataError, RecipeError
from lingraft.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from lingraft import recipe
    from lingraft.corpus.lexicon import Lexicon
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
    settings: recipe.TokenDistillation
    embeddings_UD: torch.Tensor | None = None
    """The target's input rows, where rows of the output projection are wanted; None where input
    rows are."""
    folder: Path | None = None
    """Folder for half-done work; None keeps none."""
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


def _lexicon_files(names: Sequence[str], initializer: str) -> list[Path]:
    """Return the files of the lexicons, which must be given.

    Args:
        names: as the recipe gives them.
        initializer: who needs them.

    Raises:
        RecipeError: none is given.
        DataError: one is not there.
    """
    if not names:
        raise RecipeError(
            f"embeddings.lexicons: is empty, and embeddings.init = '{initializer}' needs a "
            "bilingual lexicon; set embeddings.lexicons, or use another initializer"
        )
    paths = [path_of(name) for name in names]
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{path}: no such file; embeddings.lexicons must name a bilingual lexicon"
            )
    return paths


def read_lexicons(resources: recipe.Embeddings, initializer: str) -> Lexicon:
    """Read the recipe's lexicons, the target-language word first or `source_first`.

    Args:
        resources: names the files: MUSE or TSV (perhaps .gz .xz .zst).
        initializer: who needs them, for messages.

    Raises:
        RecipeError: none is named.
        DataError: a file is not there, cannot be read or holds no pair.
    """
    paths = _lexicon_files(resources.lexicons, initializer)
    return lexicon.read(paths, swap=resources.source_first)


def read_each(resources: recipe.Embeddings, initializer: str) -> dict[str, Lexicon]:
    """Read each file of `read_lexicons` by itself, in order.

    Returns:
        By the file's name; by its whole path where two files have the same name.
    """
    paths = _lexicon_files(resources.lexicons, initializer)
    times = Counter(path.name for path in paths)
    return {
        path.name if times[path.name] == 1 else str(path): lexicon.read(
            [path], swap=resources.source_first
        )
        for path in paths
    }
