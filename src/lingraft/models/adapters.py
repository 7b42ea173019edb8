"""Bottleneck adapters (Houlsby et al. 2019) in a stock model.

An adapter computes x + W_up·gelu(W_down·x). Two stand in every layer: behind the attention's output
projection and its dropout, and behind the feed-forward network's, each before the residual is
added. They hang on stock modules as children with a forward hook, so that every stock tensor keeps
its name.

Differs from the reference code of the paper: gelu is exact, not its approximation by tanh.

Shape letters: D width of the hidden states, W width of the bottleneck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lingraft.models.modules import MODULES, owners_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedModel

    from lingraft.models.families import Family

CHILD = MODULES["adapters"].child
STANDARD_DEVIATION = 1e-3
CUT = 2.0
"""Draws beyond so many standard deviations are drawn again."""


class Bottleneck(nn.Module):
    """Bottleneck adapter of one site."""

    def __init__(self, layer_width: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.down = nn.Linear(layer_width, width)
        self.up = nn.Linear(width, layer_width)
        limit = CUT * STANDARD_DEVIATION
        for linear in (self.down, self.up):
            nn.init.zeros_(linear.bias)
            nn.init.trunc_normal_(
                linear.weight, 0.0, STANDARD_DEVIATION, -limit, limit, generator=generator
            )

    def forward(self, x_D: torch.Tensor) -> torch.Tensor:
        """Add the bottleneck's output to the states [..., D]."""
        return x_D + self.up(nn.functional.gelu(self.down(x_D)))


def _apply(module: nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor:
    return module.get_submodule(CHILD)(output)


def insert(model: PreTrainedModel, family: Family, width: int, seed: int = 0) -> None:
    """Put fresh adapters into every layer, in place: weights N(0, 1e-3) cut at 2 sd, biases 0.

    Args:
        model: a stock model without adapters, on the CPU.
        family: its record.
        width: of the bottleneck.
        seed: fixes the weights.
    """
    assert not owners_of(model.state_dict()), "the model has adapters already"
    generator = torch.Generator().manual_seed(seed)
    for layer in model.get_submodule(family.layers).children():
        for site in family.residual_sites:
            module = layer.get_submodule(site)
            module.add_module(CHILD, Bottleneck(model.config.hidden_size, width, generator))
            module.register_forward_hook(_apply)


def settings(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return the contents of adapters.json for adapters with these tensors."""
    down = [tensor for name, tensor in tensors.items() if name.endswith(".down.weight")]
    return {
        "width": int(down[0].shape[0]),
        "nonlinearity": "gelu",
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        "adapters": len(down),
    }
