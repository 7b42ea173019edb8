"""Kinds of language model: what a family's record leaves to its kind. No torch here.

Who loads, masks attention, or sets special tokens asks the kind, so that a family of another kind
is a record in `families/` and no edit anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

KindName = Literal["masked", "causal", "seq2seq"]

BOTH_ENDS = {"pad_token_id": "pad", "bos_token_id": "bos", "eos_token_id": "eos"}


@dataclass(frozen=True)
class Kind:
    """Kind of language model: what all its families have in common."""

    title: str
    """For messages."""
    auto_class: str
    """The class of transformers that loads it with its head."""
    attention: Literal["both sides", "before"]
    """Part of a sentence that a position sees, in the stack that predicts."""
    special_ids: Mapping[str, str] = field(default_factory=lambda: BOTH_ENDS)
    """Configuration key of a special token -> its role in a vocabulary."""
    objective: str | None = None
    """The only objective that trains it, whatever the method's phases say; None leaves it to them.
    """
    kept_ids: tuple[str, ...] = ()
    """More configuration keys of special tokens, whose role depends on the model: what the source
    has there, the target has too."""


KINDS: dict[KindName, Kind] = {
    "masked": Kind(
        "masked language model",
        "AutoModelForMaskedLM",
        "both sides",
        BOTH_ENDS | {"cls_token_id": "cls", "sep_token_id": "sep", "mask_token_id": "mask"},
    ),
    "causal": Kind("causal language model", "AutoModelForCausalLM", "before", objective="clm"),
    "seq2seq": Kind(
        "encoder–decoder",
        "AutoModelForSeq2SeqLM",
        "before",
        objective="denoise",
        kept_ids=("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"),
    ),
}
