"""Low-rank adaptation (Hu et al. 2022) through peft: put on layers, and added to their weights.

The stock tensors keep their values while a phase trains; what is written of the phase is the stock
model, its matrices W + (alpha / rank)·B·A.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lingraft.models.selection import chosen_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transformers import PreTrainedModel

    from lingraft.recipe import Lora

BASE, LOW_RANK, ADAPTER = "base_layer", ".lora_", "default"
"""Names that peft gives: a stock map within its wrapper, what is beside it, and the one adapter."""


def is_low_rank(name: str) -> bool:
    """Return whether a parameter is one of LoRA's own."""
    return LOW_RANK in name


def stock_name(name: str) -> str:
    """Return the name that a parameter has in the stock model."""
    return name.replace(f".{BASE}.", ".")


def insert(
    model: PreTrainedModel, section: Lora, adapts: Callable[[str], bool], where: str, seed: int
) -> None:
    """Put LoRA on linear maps, in place: A as a linear map begins, B zero, so nothing changes yet.

    Args:
        model: a stock model, on the device where it trains.
        section: rank, scale, dropout, and the maps by the end of their names.
        adapts: whether a weight is of the layers that it is put on.
        where: for messages.
        seed: fixes A.

    Raises:
        RecipeError: no map of these layers has such a name.
    """
    from peft import LoraConfig, inject_adapter_in_model

    maps = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and adapts(f"{name}.weight")
    }
    targets = chosen_maps(section, list(maps), where)
    config = LoraConfig(
        r=section.rank,
        lora_alpha=section.alpha,
        lora_dropout=section.dropout,
        target_modules=targets,
        fan_in_fan_out=isinstance(maps[targets[0]], Conv1D),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model, ADAPTER)


@contextlib.contextmanager
def merged(model: PreTrainedModel) -> Iterator[None]:
    """Merge LoRA into the stock model's weights, for a while; bit-identical behind it."""
    from peft.tuners.lora import LoraLayer

    lora_layers: list[tuple[str, Any, nn.Parameter]] = [
        (name, module, cast("Any", module).get_base_layer().weight)
        for name, module in model.named_modules()
        if isinstance(module, LoraLayer)
    ]
    try:
        for name, module, weight in lora_layers:
            base = module.get_base_layer()
            base.weight = nn.Parameter(
                weight.detach() + module.get_delta_weight(ADAPTER).detach(), weight.requires_grad
            )
            model.set_submodule(name, base)
        yield
    finally:
        for name, module, weight in lora_layers:
            module.get_base_layer().weight = weight
            model.set_submodule(name, module)
