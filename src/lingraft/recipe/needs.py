"""What an initialiser cannot do without."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from lingraft.recipe.run import READ_LEXICONS

if TYPE_CHECKING:
    from lingraft.recipe import Resources


def lacking(resources: Resources, initialiser: str) -> str | None:
    """Return what an initialiser needs that is not there, and what to do; None where all is."""
    if initialiser in READ_LEXICONS and not resources.lexicons:
        return "needs a bilingual lexicon; set resources.lexicons (--lexicons)"
    if initialiser == "wechsel" and not (resources.source_vectors or resources.source_text):
        return (
            "needs word vectors of the source language; set resources.source_vectors, or "
            "resources.source_text to learn them from"
        )
    if learns_vectors(resources, initialiser) and importlib.util.find_spec("gensim") is None:
        return (
            'learns static vectors, which needs gensim; pip install "lingraft[vectors]", or set '
            "resources.target_vectors (and resources.source_vectors) to .vec files"
        )
    return None


def learns_vectors(resources: Resources, initialiser: str) -> bool:
    """Return whether an initialiser learns static vectors, since none are given."""
    if initialiser not in ("focus", "omp", "wechsel"):
        return False
    given = resources.target_vectors and (initialiser != "wechsel" or resources.source_vectors)
    return not given
