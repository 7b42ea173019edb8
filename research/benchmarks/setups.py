"""How users make a model ready for another vocabulary when they train with the Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def resized(model: Any, size: int) -> None:
    """The new vocabulary's size, as users make it: rows stay, whatever piece they were of."""
    model.resize_token_embeddings(size)


def redrawn(model: Any, size: int) -> None:
    """A new vocabulary that claims to know nothing: all rows drawn anew, no bias."""
    model.resize_token_embeddings(size)
    std = getattr(model.config, "initializer_range", 0.02)
    torch.nn.init.normal_(model.get_input_embeddings().weight, std=std)
    output = model.get_output_embeddings()
    if output.weight is not model.get_input_embeddings().weight:
        torch.nn.init.normal_(output.weight, std=std)
    if output.bias is not None:
        torch.nn.init.zeros_(output.bias)


SETUPS: dict[str, Callable[[Any, int], None]] = {"resize": resized, "random": redrawn}
"""By name, what is done to a model; told the vocabulary's size."""


def set_up(model: Any, tokenizer: Any, name: str) -> None:
    """Give a model the vocabulary of a tokenizer, by a name of `SETUPS`."""
    SETUPS[name](model, len(tokenizer))
    for role in ("pad", "bos", "eos", "cls", "sep"):
        if hasattr(model.config, f"{role}_token_id"):
            setattr(model.config, f"{role}_token_id", getattr(tokenizer, f"{role}_token_id"))
