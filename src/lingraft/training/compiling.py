"""The encoder's layers, and `training.compile`: torch.compile of each for itself.

Layer by layer, not the whole model: one compilation serves all layers of a kind, and what stands
around them (masks, packed rows, the head on masked tokens) stays plain Python.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from torch import nn

    from lingraft.recipe import Training


def encoder_layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a stock model, in order; transformers marks them for activation checkpoints."""
    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def check(training: Training) -> None:
    """Refuse early what would fail at the first step.

    Raises:
        RecipeError: the recipe wants compiled layers, and this machine cannot make any.
    """
    if not training.compile:
        return
    if torch.cuda.is_available():
        if importlib.util.find_spec("triton") is None:
            raise RecipeError(
                "training.compile: needs the package triton on a GPU; install it, or set "
                "training.compile=false"
            )
        return
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        raise RecipeError(
            f"training.compile: needs a C++ compiler, and {compiler} is not there; install it "
            "(or name one in CXX), or set training.compile=false"
        )


def compile_layers(module: nn.Module, training: Training) -> None:
    """Let the encoder's layers run compiled, in place, where the recipe asks for it.

    Names of parameters stay as they are.
    """
    if training.compile:
        for layer in encoder_layers(module):
            layer.compile()
