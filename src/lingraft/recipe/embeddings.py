"""The table that says how the embeddings of the target model start.

Needs of an initializer: what must be given for it.
"""

from __future__ import annotations

import importlib.util
from typing import Annotated

from pydantic import Field

from lingraft.recipe.base import Initializer, Names, Section

DRAWN = ("random", "random-statistics")
"""Initializers that take no row of the source."""
READ_LEXICONS = ("dictionary", "wechsel")
"""Initializers that cannot do without bilingual dictionaries."""
"""Initializers that run the source, which has to be a causal language model."""
FROM_OUTSIDE = (
    "lexicons", "source_first", "source_text", "source_vectors", "target_vectors", "max_sentences",
    "vector_width", "vector_units",
)  # fmt: skip
"""Keys of what some initializers learn from, beside the source model and the text."""


class Embeddings(Section):
    """Embedding rows to start with, and what their initializer learns from."""

    init: Initializer = "random"
    """Initializer of the new word embeddings: `lingraft show initializers`."""
    output_init: Initializer | None = None
    """Initializer of the new rows of the output projection, where it is not tied to the word
    embeddings; None makes them from the same rows as `init`."""
    copy_special_tokens: bool | None = None
    """Copy the rows of the special tokens (all but padding) from the source, by role. If left out,
    all initializers do this but 'random' and 'random-statistics', which draw every row (the
    paper)."""
    lexicons: Names = ()
    """Bilingual dictionaries, target-language word first: TSV, or two words a line as in MUSE."""
    source_first: bool = False
    """The source language stands in the first column of `lexicons`."""
    source_text: Names = ()
    """Text of the source language, to learn static vectors from (files as in corpus.text)."""
    source_vectors: str | None = None
    """Static word vectors of the source language (.vec: word2vec's text format); else learnt."""
    target_vectors: str | None = None
    """Static word vectors of the target language; learnt from the training text where absent."""
    max_sentences: Annotated[int, Field(ge=1)] = 1_000_000
    """Learn static vectors from at most this many sentences a language; of the target's, never from
    more than the phases train on."""
    vector_width: Annotated[int, Field(ge=1)] = 300
    """Numbers in a static vector of a piece, as in FOCUS."""
    vector_units: Annotated[int, Field(ge=1)] | None = None
    """Pieces read for static vectors; None: all text 3 times, up to 20 for five million."""

    @property
    def initializers(self) -> tuple[Initializer, ...]:
        """Return the initializers of the word embeddings and, where it has its own, the output."""
        output = self.output_init
        return (self.init,) if output is None else (self.init, output)

    @property
    def copies_special_tokens(self) -> bool:
        """Return whether the rows of the special tokens are copied, said or not."""
        if self.copy_special_tokens is None:
            return self.init not in DRAWN
        return self.copy_special_tokens

    @property
    def decisive(self) -> Embeddings:
        """Return the table for fingerprints: a default written out is the same as one left out."""
        return self.model_copy(update={"copy_special_tokens": self.copies_special_tokens or None})


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
