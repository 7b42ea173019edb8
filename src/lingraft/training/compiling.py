"""The encoder's layers, and `hardware.compile`: torch.compile of each for itself.

Layer by layer, not the whole model: one compilation serves all layers of a kind, and what stands
around them (masks, packed rows, the head on masked tokens) stays plain Python.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
from typing import TYPE_CHECKING

from transformers.modeling_layers import GradientCheckpointingLayer

from lingraft.devices import device_for
from lingraft.errors import RecipeError
from lingraft.models.segments import MOST_GRAPHS

logger = logging.getLogger(__name__)
LONG_ENOUGH = 50_000_000
"""Tokens of a phase from which compiling should pay; a guess on the safe side, not measured."""

if TYPE_CHECKING:
    from torch import nn

    from lingraft.recipe import Hardware


def encoder_layers(module: nn.Module) -> list[nn.Module]:
    """Return a stock model's layers in order, as transformers marks them for checkpointing."""
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def check(hardware: Hardware) -> None:
    """Refuse early what would fail at the first step.

    Raises:
        RecipeError: the recipe wants compiled layers, and this machine cannot make any.
    """
    if hardware.compile is not True:
        return
    if device_for(hardware.device).type == "cuda":
        if not has_triton():
            raise RecipeError(
                "hardware.compile: needs the package triton on a GPU; install it, or set "
                "hardware.compile=false"
            )
        return
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        raise RecipeError(
            f"hardware.compile: needs a C++ compiler, and {compiler} is not there; install it "
            "(or name one in CXX), or set hardware.compile=false"
        )


def has_triton() -> bool:
    """Return whether kernels can be made for a GPU."""
    return importlib.util.find_spec("triton") is not None


def compile_layers(module: nn.Module, hardware: Hardware, even_tokens: float = 0.0) -> bool:
    """Let the encoder's layers run compiled, in place, where the recipe asks for it.

    Names of parameters stay as they are.

    Args:
        module: what trains.
        hardware: whether the recipe asks.
        even_tokens: of all passes that have the same shape, so that nothing is compiled again.

    Returns:
        Whether they do.
    """
    wanted = hardware.compile
    if wanted == "auto":
        wanted = even_tokens >= LONG_ENOUGH and has_triton()
        if wanted:
            logger.info("layers are compiled; the first steps take longer (hardware.compile)")
    if wanted:
        for layer in encoder_layers(module):
            layer.compile(recompile_limit=MOST_GRAPHS)
    return bool(wanted)
