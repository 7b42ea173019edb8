"""The table [embeddings.token_distillation]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from lingraft.recipe.base import Section

LAST = -1


class TokenDistillation(Section):
    """Learning of new rows by 'token-distillation' (Dobler et al. 2026, arXiv 2505.20133)."""

    layer: Annotated[int, Field(ge=LAST)] = LAST
    """Whose hidden states are compared: -1 the last, behind the final norm, or the output of the
    layer of this number, from 1: an early one is faster, for only the layers below are run."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    """Constant, of AdamW without weight decay."""
    snippets: Annotated[int, Field(ge=1)] = 100
    """Stretches of text for each new piece, at most."""
    snippet_tokens: Annotated[int, Field(ge=4, le=4_096)] = 50
    """Their length in the source's tokens, at most."""
    batch: Annotated[int, Field(ge=1)] = 16
    """Snippets that a step sees."""
    epochs: Annotated[int, Field(ge=1)] = 1
    """Passes over all snippets."""

    @field_validator("layer")
    @classmethod
    def _no_layer_zero(cls, value: int) -> int:
        if value == 0:
            raise ValueError("layers are counted from 1; -1 is the last hidden state")
        return value
