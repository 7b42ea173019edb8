"""Keys of scoring a model on any text; loads neither numpy nor torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lingraft.recipe.base import Keys


class Scoring(Keys):
    """Settings of scoring a model."""

    max_sentences: Annotated[int, Field(ge=1)] = 10_000
    """At most this many sentences; of a causal model documents of about as many."""
    masking_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that is hidden from a masked model."""
    seed: int = 0
    """Seed of the masks."""
    max_words: Annotated[int, Field(ge=0)] = 2_000
    """Words scored for a masked model's bits per character; 0: none."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """auto, bf16 or fp32."""
