"""The encoder's layers, and `hardware.compile`: torch.compile of each for itself.

Layer by layer, not the whole model: one compilation serves all layers of a kind, and what stands
around them (masks, packed rows, the head on masked tokens) stays plain Python.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING

from transformers.modeling_layers import GradientCheckpointingLayer

from lingraft.models.segments import MOST_GRAPHS

if TYPE_CHECKING:
    from torch import nn

    from lingraft.recipe import Hardware

logger = logging.getLogger(__name__)
LONG_ENOUGH = 50_000_000
"""Tokens of a phase from which compiling should pay; a guess on the safe side, not measured."""


def encoder_layers(module: nn.Module) -> list[nn.Module]:
    """Return a stock model's layers in order, as transformers marks them for checkpointing."""
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def compile_layers(module: nn.Module, hardware: Hardware, even_tokens: float = 0.0) -> bool:
    """Let the encoder's layers run compiled, in place; names of parameters stay as they are.

    Args:
        module: what trains.
        hardware: whether the recipe asks.
        even_tokens: tokens of all passes that have one shape, so that nothing is compiled again.

    Returns:
        Whether they do.
    """
    wanted = hardware.compile
    if wanted == "auto":
        wanted = even_tokens >= LONG_ENOUGH and importlib.util.find_spec("triton") is not None
        if wanted:
            logger.info("layers are compiled; the first steps take longer (hardware.compile)")
    if wanted:
        for layer in encoder_layers(module):
            layer.compile(recompile_limit=MOST_GRAPHS)
    return bool(wanted)
