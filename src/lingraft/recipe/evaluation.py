"""The table of a recipe that says how a model is judged before anybody fine-tunes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from lingraft.recipe.base import Names, Section

CHARACTERS_OF_A_SENTENCE = 100
"""About as many as in English: of a causal model's documents so many count as a sentence."""

SAMPLE_TOKENS = 64
"""Tokens with which a causal model goes on with the beginning of a document, at most."""
SAMPLES_AT_ONCE = 8
"""Beginnings that it goes on with together: as slow as one alone, but for large models."""


class Evaluation(Section):
    """Intrinsic evaluation on the test text."""

    max_sentences: Annotated[int, Field(ge=1)] = 10_000
    """At most this many test sentences."""
    masking_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that is masked; from an encoder–decoder what the last phase hid is
    hidden."""
    max_words: Annotated[int, Field(ge=0)] = 2_000
    """Words that are scored for bits per character (the measure that compares vocabularies); 0
    leaves it out."""
    before: Names = ()
    """Streams on whose words the source itself is scored too, in its own vocabulary: the report
    then says whether its languages were kept or lost."""
    samples: Annotated[int, Field(ge=0)] = 8
    """Masked sentences with predictions for the report; of a causal model, beginnings of documents
    that it goes on with."""
    untouched: bool = True
    """For a causal model: score the source too, as it is and in its own vocabulary, on the same
    bytes. A model must beat it to have gained anything."""
    kept: Names = ()
    """For a causal model: texts of the source's language, files that took no part in training. The
    model and the source are scored on them: how much of the source's language is left."""
    seed: int = 0
    """Decides the masks and what samples of text draw; leave it when you change the run's seed, so
    that runs compare."""

    @model_validator(mode="after")
    def _distinct(self) -> Evaluation:
        stems = [Path(name).name for name in self.kept]
        for stem in stems:
            if stems.count(stem) > 1:
                raise ValueError(f"kept: two texts are called '{stem}'; rename one")
        return self
