"""The encoder's layers, found without knowing the family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers.modeling_layers import GradientCheckpointingLayer

if TYPE_CHECKING:
    from torch import nn


def encoder_layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a stock model, in order; transformers marks them for activation checkpoints."""
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
