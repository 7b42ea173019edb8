"""Head and cross-entropy of many predicted tokens, some at a time: never all logits at once.

Of a vocabulary of 150,000 pieces the logits of 4,096 tokens take 2.5 GB in fp32, and their gradient
as much. Here a chunk's logits are turned into its loss and the gradients of what the head reads and
of its own weights before the next chunk's are made. So nothing is computed twice, and the backward
pass only scales what is there; gradients are those of the plain loss up to rounding.

Shape letters: M predicted tokens, C tokens of a chunk, D width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lingraft.models.losses import IGNORED, summed_cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.models.packed import PackedModel

LOGITS_AT_ONCE = 1 << 25
"""Logits of a chunk at most: 128 MB in fp32, and about three times that while it is worked on."""
CHUNK_MULTIPLE = 64
"""Chunks are of few different sizes: a CPU keeps a kernel for each."""


def chunk_size(vocabulary: int) -> int:
    """Return the number of tokens that go through the head at once."""
    return max(1, LOGITS_AT_ONCE // vocabulary // CHUNK_MULTIPLE) * CHUNK_MULTIPLE


def chunked_cross_entropy(
    packed: PackedModel, x_MD: torch.Tensor, targets_M: torch.Tensor
) -> torch.Tensor:
    """Return Σ −log p over the targets that count, in nats; softmax in fp32.

    Args:
        packed: whose head it is.
        x_MD: last hidden states where something is predicted.
        targets_M: token ids; `IGNORED` where nothing is.
    """
    size = chunk_size(int(packed.model.config.vocab_size))
    weights = [
        parameter
        for path in packed.family.head
        for parameter in packed.model.get_submodule(path).parameters()
    ]
    trainable = [weight for weight in weights if weight.requires_grad]
    if torch.is_grad_enabled() and (trainable or x_MD.requires_grad):
        return _InChunks.apply(packed.head, x_MD, targets_M, size, *trainable)
    parts = zip(x_MD.split(size), targets_M.split(size), strict=True)
    return torch.stack([summed_cross_entropy(packed.head(x), gold) for x, gold in parts]).sum()


class _InChunks(torch.autograd.Function):
    """The loss with its gradients, which the backward pass scales."""

    @staticmethod
    def forward(
        ctx: Any,
        head: Callable[[torch.Tensor], torch.Tensor],
        x_MD: torch.Tensor,
        targets_M: torch.Tensor,
        size: int,
        *weights: torch.Tensor,
    ) -> torch.Tensor:
        reads = x_MD.requires_grad
        gradients = [torch.zeros_like(weight) for weight in weights]
        below = torch.empty_like(x_MD) if reads else None
        total = torch.zeros((), device=x_MD.device)
        for start in range(0, len(x_MD), size):
            part = slice(start, start + size)
            with torch.enable_grad():
                x_CD = x_MD[part].detach().requires_grad_(reads)
                logits_CV = head(x_CD)
            nats, slope_CV = loss_and_slope(logits_CV.detach(), targets_M[part])
            total += nats
            grads = torch.autograd.grad(logits_CV, [*weights, *([x_CD] if reads else [])], slope_CV)
            for gradient, grad in zip(gradients, grads, strict=False):
                gradient += grad
            if below is not None:
                below[part] = grads[-1]
        ctx.save_for_backward(*gradients, *([] if below is None else [below]))
        ctx.reads = reads
        return total

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *gradients, last = ctx.saved_tensors
        scaled = [gradient * outer[0] for gradient in (*gradients, last)]
        below = scaled.pop() if ctx.reads else None
        return None, below, None, None, *scaled


def loss_and_slope(
    logits_CV: torch.Tensor, targets_C: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a chunk's summed cross-entropy, and its gradient for the logits in their format."""
    counts_C1 = (targets_C != IGNORED)[:, None]
    gold_C1 = targets_C.clamp_min(0)[:, None]
    log_CV = torch.log_softmax(logits_CV, 1, dtype=torch.float32)
    nats = -(log_CV.gather(1, gold_C1) * counts_C1).sum()
    slope_CV = log_CV.exp_()
    slope_CV.scatter_add_(1, gold_C1, -torch.ones_like(gold_C1, dtype=torch.float32))
    if slope_CV.device.type != "cpu" or not bool(counts_C1.all()):  # to ask a GPU is to wait for it
        slope_CV *= counts_C1
    return nats, slope_CV.to(logits_CV.dtype)
