"""Needs of an initializer: what must be given for it."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from lingraft.recipe.embeddings import READ_LEXICONS

if TYPE_CHECKING:
    from lingraft.recipe import Embeddings


def lacking(section: Embeddings, initializer: str) -> str | None:
    """Return what an initializer needs that is not there, and what to do; None where all is."""
    if initializer in READ_LEXICONS and not section.lexicons:
        return "needs a bilingual lexicon; set embeddings.lexicons"
    if initializer == "wechsel" and not (section.source_vectors or section.source_text):
        return "needs embeddings.source_vectors, or embeddings.source_text to learn them from"
    if learns_vectors(section, initializer) and importlib.util.find_spec("gensim") is None:
        return 'learns static vectors by gensim; pip install "lingraft[vectors]", or set .vec files'
    return None


def learns_vectors(section: Embeddings, initializer: str) -> bool:
    """Return whether an initializer learns static vectors, since none are given."""
    if initializer not in ("focus", "omp", "wechsel"):
        return False
    given = section.target_vectors and (initializer != "wechsel" or section.source_vectors)
    return not given
