"""Kinds of language model: what a family's record leaves to its kind. No torch here.

Who loads, masks attention, or sets special tokens asks the kind, so that a family of another kind
is a record in `families.py` and no edit anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

KindName = Literal["masked", "causal"]

BOTH_ENDS = {"pad_token_id": "pad", "bos_token_id": "bos", "eos_token_id": "eos"}


@dataclass(frozen=True)
class Kind:
    """What all families of a kind have in common."""

    title: str
    """For messages."""
    auto_class: str
    """The class of transformers that loads it with its head."""
    attention: Literal["both sides", "before"]
    """What a position sees of its sentence."""
    special_ids: Mapping[str, str] = field(default_factory=lambda: BOTH_ENDS)
    """Configuration key of a special token -> its role in a vocabulary."""


KINDS: dict[KindName, Kind] = {
    "masked": Kind(
        "masked language model",
        "AutoModelForMaskedLM",
        "both sides",
        BOTH_ENDS | {"cls_token_id": "bos", "sep_token_id": "eos"},
    ),
    "causal": Kind("causal language model", "AutoModelForCausalLM", "before"),
}
