"""Ground of every table of a recipe: names, ranges, the strict base class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Iterable

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    Field(strict=False),
]
"""Several names; one may stand by itself."""
Decay = Annotated[float, Field(ge=0.0, lt=1.0)]

STAGE_NAMES = ("corpus", "tokenizer", "graft", "evaluation", "model", "report", "baselines")
"""Folders of a run; no phase can have one of these names."""

PARTS = (
    "embeddings",
    "output_bias",
    "positions",
    "embedding_norm",
    "inserted",
    "adapters",
    "cross_attention",
    "body",
    "head",
)
# Keys of embeddings.INITIALIZERS and objectives.OBJECTIVES, spelt out for the type checker; a test
# holds them equal.
Initializer = Literal[
    "random",
    "random-statistics",
    "match",
    "dictionary",
    "mean",
    "first-piece",
    "focus",
    "wechsel",
    "omp",
    "token-distillation",
]
Objective = Literal["mlm", "ca_mlm", "tlm", "denoise", "clm"]
READ_PAIRS = ("ca_mlm", "tlm")
"""Objectives that read pairs, not sentences."""


class Section(BaseModel):
    """A table of a recipe: frozen, strict, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def stage_order(phases: Iterable[str]) -> list[str]:
    """Return the stages of a run with these phases, in order; the report is written after them."""
    return ["corpus", "tokenizer", "graft", *phases, "evaluation", "model"]
