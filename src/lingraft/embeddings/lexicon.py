"""Bilingual lexicons: which words of the source language a word of the target language means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.embeddings.material import files, read_pairs

if TYPE_CHECKING:
    from lingraft import recipe
    from lingraft.embeddings.material import Pair

KEY = "resources.lexicons"
ORDER = (
    "the target-language word must come first in each line; "
    "set resources.source_first = true if they are the other way round"
)


@dataclass(frozen=True)
class Lexicon:
    """Words with their translations."""

    pairs: list[Pair]
    """In the order of the files."""
    translations: dict[str, list[str]]
    """For a target word its translations, in the order of the files, each once."""

    @classmethod
    def of(cls, pairs: list[Pair]) -> Lexicon:
        found: dict[str, dict[str, None]] = {}
        for pair in pairs:
            found.setdefault(pair.target, {})[pair.source] = None
        return cls(pairs, {word: list(meanings) for word, meanings in found.items()})


def read_lexicons(resources: recipe.Resources, initialiser: str) -> Lexicon:
    """Read lexicon files: a pair a line, the target-language word first or `source_first`.

    The two are separated by a tab, or by space where each is one word (MUSE's format, Conneau et
    al. 2018). A word with several meanings has several lines. Lines without exactly two fields are
    left out and counted in the log.

    Args:
        resources: names the files, perhaps compressed (.gz .xz .zst).
        initialiser: who needs them, for messages.

    Raises:
        RecipeError: none is named.
        DataError: a file is not there, cannot be read or holds no pair.
    """
    paths = files(resources.lexicons, KEY, initialiser, "a bilingual lexicon")
    return Lexicon.of(read_pairs(paths, key=KEY, words=True, source_first=resources.source_first))
