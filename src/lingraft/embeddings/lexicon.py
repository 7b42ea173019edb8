"""The bilingual lexicons that a recipe names; `lingraft.corpus.lexicon` reads them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lingraft.corpus import lexicon
from lingraft.embeddings.material import files

if TYPE_CHECKING:
    from lingraft import recipe
    from lingraft.corpus.lexicon import Lexicon

KEY = "resources.lexicons"
ORDER = (
    "the target-language word must come first in each line; "
    "set resources.source_first = true if they are the other way round"
)


def read_lexicons(resources: recipe.Resources, initialiser: str) -> Lexicon:
    """Read the recipe's lexicons, the target-language word first or `source_first`.

    Args:
        resources: names the files: MUSE or TSV (perhaps .gz .xz .zst).
        initialiser: who needs them, for messages.

    Raises:
        RecipeError: none is named.
        DataError: a file is not there, cannot be read or holds no pair.
    """
    paths = files(resources.lexicons, KEY, initialiser, "a bilingual lexicon")
    return lexicon.read(paths, swap=resources.source_first)


def read_each(resources: recipe.Resources, initialiser: str) -> dict[str, Lexicon]:
    """As `read_lexicons`, each file by itself, in their order.

    Returns:
        By the file's name; by its whole path where two files have the same name.
    """
    paths = files(resources.lexicons, KEY, initialiser, "a bilingual lexicon")
    times = Counter(path.name for path in paths)
    return {
        path.name if times[path.name] == 1 else str(path): lexicon.read(
            [path], swap=resources.source_first
        )
        for path in paths
    }
