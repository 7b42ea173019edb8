"""The mean of the weights at the last looks of a phase (SPEC A.8, fairseq's average_checkpoints).

The weights of each look lie in a file of their own until there are enough later ones. A phase that
goes on from a checkpoint writes those again that came after it, bit for bit.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file

from lingraft.rundir import writing
from lingraft.training import checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

FOLDER = "looks"
NAME = re.compile(r"step-(\d+)\.safetensors")


def keep(folder: Path, model: nn.Module, step: int, looks: int, *, main: bool = True) -> None:
    """Write the weights of a look, and delete those that will not count; called by all processes.

    Args:
        folder: the phase's.
        model: the unwrapped model.
        step: optimiser steps taken.
        looks: how many count.
        main: whether this process writes; another one only gives its shards.

    Raises:
        DataError: they cannot be written.
    """
    tensors = checkpoint.weights(model, keep=main)
    if not main:
        return
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    with writing(place):
        partial = place / "partial"
        save_file(tensors, partial)
        partial.replace(place / f"step-{step:08d}.safetensors")
    before = [path for number, path in kept(folder).items() if number <= step]
    later = [path for number, path in kept(folder).items() if number > step]  # of a killed run
    for path in (*before[:-looks], *later):
        path.unlink()


def kept(folder: Path) -> dict[int, Path]:
    """Step → file of the looks that are there, the earliest first."""
    paths = {
        int(match[1]): path
        for path in sorted((folder / FOLDER).glob("*"))
        if (match := NAME.fullmatch(path.name))
    }
    return paths


@torch.no_grad()
def put_mean(folder: Path, model: nn.Module) -> list[int]:
    """Give a model the arithmetic mean of the looks' weights, summed in fp32 in their order.

    Returns:
        Their steps.
    """
    looks = kept(folder)
    sums: dict[str, torch.Tensor] = {}
    for path in looks.values():
        for name, tensor in load_file(path).items():
            sums[name] = sums[name] + tensor.float() if name in sums else tensor.float()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.copy_(sums[name] / len(looks))
    return list(looks)


def clear(folder: Path) -> None:
    """Delete the weights of the looks."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
