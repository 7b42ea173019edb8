"""The loss of masked words and of tasks: a sum, so that batches add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig

    from lingraft.models.families import Family

IGNORED = -100
"""A target that does not count. Padding must have it: no loss of transformers 5 looks at the
attention mask."""


def scaled(x: Tensor, config: PreTrainedConfig, family: Family) -> Tensor:
    """Scale logits, or the input of a head without bias, as the model's family does."""
    if family.logits_divided_by is not None:
        x = x / getattr(config, family.logits_divided_by)
    if family.logits_multiplied_by is not None:
        x = x * getattr(config, family.logits_multiplied_by)
    return x


def summed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return Σ −log p over the targets that count, in nats; softmax in fp32.

    With label smoothing ε, Σ of (1−ε)·(−log p) + ε/C·Σ_c −log p_c (Szegedy et al. 2016; fairseq).

    Args:
        logits: [..., C].
        targets: [...], `IGNORED` where nothing is to be predicted.
        smoothing: ε.
    """
    from torch.nn import functional  # so that a table of objectives can be read without torch

    return functional.cross_entropy(
        logits.float().flatten(0, -2),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=smoothing,
    )


def cross_entropies(logits_MV: Tensor, targets_M: Tensor) -> Tensor:
    """Return −log p [M] of each target in nats, 0 for those that do not count; softmax in fp32."""
    from torch.nn import functional

    return functional.cross_entropy(
        logits_MV.float(), targets_M, ignore_index=IGNORED, reduction="none"
    )
