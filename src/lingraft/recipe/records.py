"""Methods and presets as records: how to get from a source to a target, and a paper's settings.

No method is a class. To add one, add a table to methods.toml.
"""

import difflib
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter

from lingraft.errors import RecipeError
from lingraft.recipe.phase import Batch, Budget, Lora, Optimizer, Schedule, Validation

AUTO = "auto"
"""The preset that decides by source, text and budget (`recipe.defaults`)."""


@dataclass(frozen=True)
class PhaseTemplate:
    """A phase of a method."""

    name: str
    train: tuple[str, ...] | None = None
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
    phases: tuple[PhaseTemplate, ...] = ()
    """None where the method does not train."""
    graft: dict[str, Any] = field(default_factory=dict)
    tokenizer: dict[str, Any] = field(default_factory=dict)
    embeddings: dict[str, Any] = field(default_factory=dict)
    preset: str = AUTO
    """Whose hyper-parameters it takes where the recipe names no preset."""
    tied: tuple[PhaseTemplate, ...] = ()
    """Phases that are left, by their names, where the source's output projection is its word
    embeddings; empty: the same ones."""
    kind: Literal["masked", "causal", "seq2seq"] | None = None
    """The only kind of model (a key of `models.kinds.KINDS`) that it is for; None is for all."""

    @property
    def has_shares(self) -> bool:
        """Return whether the record says itself what each phase gets of the budget."""
        return any(template.share is not None for template in self.phases)


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


def _tables(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("lingraft.recipe").joinpath(name).read_text("utf-8"))


STRICT = ConfigDict(extra="forbid")
METHODS = TypeAdapter(dict[str, MethodRecord], config=STRICT).validate_python(
    _tables("methods.toml")
)
for _record in METHODS.values():  # draws every row, whatever a run that it is a baseline of does
    if _record.graft.get("source_weights") == _record.embeddings.get("init") == "random":
        _record.embeddings["copy_special_tokens"] = None
PRESETS = TypeAdapter(dict[str, Preset], config=STRICT).validate_python(_tables("presets.toml"))


def method_named(name: str) -> MethodRecord:
    """Return the record of a method.

    Raises:
        RecipeError: there is none of that name.
    """
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise RecipeError(f"method '{name}' is not known; {hint}methods: {', '.join(METHODS)}")
    return METHODS[name]
