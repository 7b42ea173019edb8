"""Ground of every table of a recipe: names, ranges, the strict base class.

Places of layers inserted into a list of layers: arithmetic alone, asked by recipe and models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

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


class Places(NamedTuple):
    """Places of inserted layers, as [graft] says them.

    Source: before and after all layers, Lee et al. 2021, §3.3; after every k-th, LLaMA Pro (Wu et
    al. 2024).
    """

    before: int = 0
    """Layers before the first source layer."""
    after: int = 0
    """Layers after the last, behind what `every` puts there."""
    every: int = 0
    """Insert a layer after every k-th source layer; 0 puts none between them."""

    def number(self, num_layers: int) -> int:
        """Return how many layers are inserted into a source list of so many."""
        between = num_layers // self.every if self.every else 0
        return self.before + self.after + between

    def source_layers(self, depth: int) -> int:
        """Return how many layers of a target list of `depth` were the source's."""
        inner = depth - self.before - self.after
        return inner - inner // (self.every + 1) if self.every else inner

    def neighbours(self, num_layers: int) -> list[tuple[int, bool]]:
        """Return a source layer for each layer of the target, and whether that one is inserted.

        An inserted layer has the source layer next to it: the first one behind those before all,
        the one before it elsewhere.
        """
        layers = [(0, True)] * self.before
        for index in range(num_layers):
            layers.append((index, False))
            if self.every and (index + 1) % self.every == 0:
                layers.append((index, True))
        return layers + [(num_layers - 1, True)] * self.after

    def inserted(self, depth: int) -> frozenset[int]:
        """Return the indices of the inserted layers in a target list of `depth`."""
        layers = self.neighbours(self.source_layers(depth))
        return frozenset(index for index, (_, is_new) in enumerate(layers) if is_new)
