"""What initialisers learn from beside the two vocabularies: tokenizers, text, lexicons, vectors."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus import lexicon
from lingraft.corpus.pairs import Pair
from lingraft.corpus.readers.lines import Reading, text_lines
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

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 1 << 20
ORDER = (
    "the target language must come first in each line; "
    "set resources.source_first = true if they are the other way round"
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
    """Where half-done work may lie; None keeps none."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What is said of the work in the report; filled in."""


@dataclass(frozen=True)
class Material:
    """What an initialiser may learn from; each call of `sentences` reads the text anew."""

    source_tokenizer: PreTrainedTokenizerFast
    target_tokenizer: PreTrainedTokenizerFast
    sentences: Callable[[], Iterable[str]]
    """Training text, a sentence a string; at most `resources.sentences` of each language."""
    resources: recipe.Resources
    seed: int
    """Of everything that is trained here, whatever the generator of the fresh rows."""
    pretrained: Pretrained | None = None
    """The source model, for what runs it; None where nobody may."""


@dataclass(frozen=True)
class Inputs:
    """What every initialiser is given."""

    source_VD: torch.Tensor
    """[V, D] the source's word embeddings, of any floating type."""
    source: Vocabulary
    target: Vocabulary
    material: Material | None
    """What there is to learn from; most initialisers need it."""

    def needed(self, initialiser: str) -> Material:
        """The material, where an initialiser cannot do without.

        Raises:
            RecipeError: there is none.
        """
        if self.material is None:
            raise RecipeError(
                f"graft.embeddings: '{initialiser}' needs the tokenizers of a source model and of "
                "the target, and there is no source; set source.model, or use 'random'"
            )
        return self.material


def files(names: Sequence[str], key: str, initialiser: str, content: str) -> list[Path]:
    """The files of a resource, which must be given.

    Args:
        names: as the recipe gives them.
        key: the recipe's key, say resources.lexicons.
        initialiser: who needs them.
        content: what they hold, for the message.

    Raises:
        RecipeError: none is given.
        DataError: one is not there.
    """
    if not names:
        raise RecipeError(
            f"{key}: is empty, and graft.embeddings = '{initialiser}' needs {content}; "
            f"set {key}, or use another initialiser"
        )
    paths = [path_of(name) for name in names]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path}: no such file; {key} must name {content}")
    return paths


def read_pairs(paths: Iterable[Path], *, key: str, source_first: bool = False) -> list[Pair]:
    """The pairs of text files, in their order; lines without exactly two columns are left out.

    Args:
        paths: text files, perhaps compressed; the target language comes first in each line.
        key: the recipe's key, for messages.
        source_first: the source language comes first instead.

    Raises:
        DataError: a file cannot be read, or no line of it is a pair.
    """
    pairs: list[Pair] = []
    for path in paths:
        before, skipped = len(pairs), 0
        for line in text_lines(path, MAX_LINE_BYTES, Reading()):
            fields = [field.strip() for field in line.split("\t")]
            if len(fields) == 2 and all(fields):
                pairs.append(Pair(*reversed(fields)) if source_first else Pair(*fields))
            else:
                skipped += bool(line.strip())
        if len(pairs) == before:
            raise DataError(
                f"{path}: no line of it has two columns; {key} must name files with a "
                "target-language and a source-language column, separated by a tab"
            )
        logger.info(
            "%s: %s pairs, %s lines that are none left out",
            path.name,
            f"{len(pairs) - before:,}",
            f"{skipped:,}",
        )
    return pairs


def read_lexicons(resources: recipe.Resources, initialiser: str) -> Lexicon:
    """Read the recipe's lexicons, the target-language word first or `source_first`.

    Args:
        resources: names the files: MUSE or TSV (perhaps .gz .xz .zst).
        initialiser: who needs them, for messages.

    Raises:
        RecipeError: none is named.
        DataError: a file is not there, cannot be read or holds no pair.
    """
    paths = files(resources.lexicons, "resources.lexicons", initialiser, "a bilingual lexicon")
    return lexicon.read(paths, swap=resources.source_first)


def read_each(resources: recipe.Resources, initialiser: str) -> dict[str, Lexicon]:
    """As `read_lexicons`, each file by itself, in their order.

    Returns:
        By the file's name; by its whole path where two files have the same name.
    """
    paths = files(resources.lexicons, "resources.lexicons", initialiser, "a bilingual lexicon")
    times = Counter(path.name for path in paths)
    return {
        path.name if times[path.name] == 1 else str(path): lexicon.read(
            [path], swap=resources.source_first
        )
        for path in paths
    }
