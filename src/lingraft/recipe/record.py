"""Records of methods and presets: the schema of `records.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lingraft.recipe.phase import Batch, Budget, Lora, Optimizer, Schedule, Validation

KindName = Literal["masked", "causal", "seq2seq"]
"""A key of `models.kinds.KINDS`."""
AUTO = "auto"
"""The preset that decides by source, text and budget (`recipe.defaults`)."""
ALL = ("all",)
NO_ITL = {"inserted_before": 0, "inserted_after": 0}


@dataclass(frozen=True)
class Stretch:
    """A phase of a method."""

    name: str
    train: tuple[str, ...] | None
    """Parts that train; None takes what the preset says of a first phase."""
    distil: bool = False
    """Whether it also learns from the source's sentence states (`phases.distil`)."""
    objectives: tuple[str, ...] = ()
    """Objectives of every stream, as pairs; from the second on of streams of translations alone.
    Empty: masked sentences."""
    share: float | None = None
    """Share of the budget; all phases have one, or none. None: [training] divides two."""
    rate: float = 1.0
    """Its peak learning rate as a share of the method's."""
    lora: Lora | None = None
    """Parts that train by LoRA beside `train`."""


@dataclass(frozen=True)
class MethodRecord:
    """A named way to get from a source model to a target model."""

    summary: str
    graft: dict[str, Any]
    stretches: tuple[Stretch, ...]
    """Phases; none where the method does not train."""
    tokenizer: dict[str, Any] = field(default_factory=dict)
    preset: str = AUTO
    """Whose hyper-parameters it takes where the recipe names no preset."""
    tied: tuple[Stretch, ...] = ()
    """Stretches that are left, by their names, where the source's output projection is its word
    embeddings; empty: the same ones."""
    embeddings: dict[str, Any] = field(default_factory=dict)
    kind: KindName | None = None
    """The only kind of model that it is for; None is for all."""

    @property
    def has_shares(self) -> bool:
        """Return whether the record says itself what each phase gets of the budget."""
        return any(stretch.share is not None for stretch in self.stretches)


@dataclass(frozen=True)
class Preset:
    """Hyper-parameters of a paper."""

    summary: str
    first_phase: tuple[str, ...]
    """Parts that train while the rest is frozen."""
    budget: Budget
    batch: Batch
    optimizer: Optimizer
    schedule: Schedule
    validation: Validation
    dropout: float | None = None
    """None keeps the source's own."""
    packing: bool = False
    """Whether a sample is a block of sentences; of methods that read no pairs."""
    bilingual_batch: int | None = None
    """Batch of translations, of methods that read pairs; None: as much as the others."""
