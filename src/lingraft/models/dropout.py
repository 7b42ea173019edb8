"""Dropout (Srivastava et al. 2014) whose random bits cost little on a CPU.

torch draws one float a number there, in one thread, which was a fifth of a training step.
Here a 64-bit generator gives four numbers 15 bits each, and a dropped number
is zeroed by a bitwise and. The share dropped is right to 2^-16; what is kept is scaled by the share
that is really kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

BITS = 15
PATTERNS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


def keep_mask(shape: torch.Size, dropped: int) -> torch.Tensor:
    """Draw an int16 mask: -1 (all bits) where a number is kept and 0 where it is dropped.

    The bits follow torch's generator: the same `torch.manual_seed` gives the same mask.

    Args:
        shape: of the mask.
        dropped: of 2^15 numbers, how many are dropped.
    """
    count = shape.numel()
    seed = int(torch.randint(2**63 - 1, ()))
    bits = np.random.SFC64(seed).random_raw(-(-count // 4))
    mask = torch.from_numpy(bits.view(np.int16))[:count].bitwise_and_(2**BITS - 1)
    return mask.neg_().add_(dropped - 1).bitwise_right_shift_(BITS).view(shape)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dropped: int) -> torch.Tensor:
        mask = keep_mask(x.shape, dropped)
        ctx.save_for_backward(mask)
        ctx.scale = 2**BITS / (2**BITS - dropped)
        return _apply(x, mask, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _apply(gradients[0], mask, ctx.scale), None


def _apply(x: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    pattern = PATTERNS[x.dtype]
    return (x.view(pattern) & mask.to(pattern)).view(x.dtype).mul_(scale)


def dropout(x: torch.Tensor, p: float) -> torch.Tensor:
    """Zero a share `p` of the numbers and scale the others by 1 / (1 - p).

    Args:
        x: any shape.
        p: in [0, 1].
    """
    dropped = round(p * 2**BITS)
    by_bits = x.device.type == "cpu" and x.dtype in PATTERNS and 0 < dropped < 2**BITS
    if not by_bits or torch.compiler.is_compiling():
        return nn.functional.dropout(x, p, training=True)
    return _Dropout.apply(x, dropped)


class Dropout(nn.Dropout):
    """Dropout as torch's, by `dropout`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name
        return dropout(input, self.p) if self.training and self.p else input


def keep_layers(model: nn.Module) -> None:
    """Let a model skip no layer in training (fairseq's LayerDrop), in place.

    A layer that is skipped has no gradients: where few layers train there would be none at all, and
    several processes would wait for each other's.
    """
    for module in model.modules():
        if hasattr(module, "layerdrop"):
            vars(module)["layerdrop"] = 0.0


def use_bits(model: nn.Module) -> None:
    """Let every plain dropout of a model draw by bits; neither weights nor configuration change."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = Dropout
