"""Floating-point operations of training and evaluation, the machine's ceiling, and MFU.

This is the one place that counts operations. Useful operations are those that the sentences need:
none for padding, for attention between the sentences of a row, for logits of tokens that are not
predicted, for recomputed activations or for the optimizer. A matrix product of [n, a] and [a, b]
takes 2nab; its backward pass takes the same again for the gradient of its input, where something
trains below, and for that of its weights, where they train. Model FLOPs utilisation (MFU; Chowdhery
et al. 2022, appendix B) is useful operations a second over what the machine can do.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lingraft.models.families.record import KINDS
from lingraft.models.modules import owner_of
from lingraft.models.parts import layer_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from transformers import PreTrainedModel

    from lingraft.models.families import Family

Array = np.ndarray[Any, Any]

READ_LAYER_INPUT = (".query", ".key", ".value", ".q_proj", ".k_proj", ".v_proj")
"""Maps of a layer that all read its input; a joint one needs no name, it is the layer's first."""
ROWS = 2_048
PRODUCTS = 12
CEILING_SECONDS = 1.0
SETTLED_SECONDS = 30.0
"""A phase that is shorter than this has no MFU in its log: measuring the ceiling takes a second."""


@dataclass(frozen=True)
class Operations:
    """Operations of a model with its present frozen parts: [2], forward and backward pass."""

    per_token: Array
    per_target: Array
    """For a predicted token: the head."""
    per_pair: dict[int | None, Array]
    """For a pair of tokens that attend to each other, by window (None: no window)."""
    before_only: bool = False
    """Whether a token sees what stands before it alone."""

    def passes(self, lengths: Array, targets: int) -> Array:
        """Return the useful operations [2] of a forward and of its backward pass.

        Args:
            lengths: [S] tokens in each sentence.
            targets: predicted tokens of all.
        """
        total: Array = self.per_token * float(np.sum(lengths, dtype=np.int64))
        total = total + self.per_target * targets
        for window, once in self.per_pair.items():
            total = total + once * pairs(lengths, window, before_only=self.before_only)
        return total

    def training(self, lengths: Array, targets: int) -> float:
        """Return useful operations of a forward and a backward pass; arguments as in `passes`."""
        return float(self.passes(lengths, targets).sum())


def pairs(lengths: Array, window: int | None, *, before_only: bool = False) -> float:
    """Count pairs of tokens of one sentence that see each other: both orders, each with itself.

    Args:
        lengths: [S] tokens in each sentence.
        window: the largest distance between them; None has no limit. Of causal models how many
            tokens one sees, itself included.
        before_only: one order, of causal models.
    """
    long = np.asarray(lengths).astype(np.float64)
    if before_only:
        span = long if window is None else np.minimum(long, window)
        return float((span * (span + 1) / 2 + (long - span) * span).sum())
    if window is None:
        return float((long**2).sum())
    reach = np.minimum(long - 1, window)
    return float((long + 2 * reach * long - reach * (reach + 1)).sum())


def count(model: PreTrainedModel, family: Family) -> Operations:
    """Count the operations of a model, from its linear maps and its `requires_grad`.

    Args:
        model: a stock masked or causal language model; frozen as it will train.
        family: its record.
    """
    per_token, per_target = np.zeros(2), np.zeros(2)
    per_pair: dict[int | None, Array] = defaultdict(lambda: np.zeros(2))
    for name, weights, gradients in _maps(model, family):
        counts = per_target if _in_head(name, family) else per_token
        counts += 2.0 * weights * np.array([1, gradients])
    config = model.config
    width = getattr(config, "head_dim", None)
    width = width * config.num_attention_heads if width else config.hidden_size
    for has_gradient, window in _attentions(model, family):
        # two products of queries, keys and values
        per_pair[window] += 4.0 * width * np.array([1, 2 * has_gradient])
    before_only = KINDS[family.kind].attention == "before"
    return Operations(per_token, per_target, dict(per_pair), before_only)


def _maps(model: PreTrainedModel, family: Family) -> Iterator[tuple[str, int, int]]:
    """Yield name, weights, and how many of input and weights have gradients, of each linear map.

    Body and embeddings are registered in the order in which they run, in all families. The head's
    modules may stand before them, its norm before its map; it predicts from all of them.
    """
    below, layer_input = False, dict[int, bool]()
    modules = sorted(model.named_modules(), key=lambda item: _in_head(item[0], family))
    for name, module in modules:
        index = layer_index(name, family)
        first = layer_input.setdefault(index, below) if index is not None else below
        if isinstance(module, nn.Linear | Conv1D):
            has_input = first if name.endswith(READ_LAYER_INPUT) else below
            yield name, module.weight.numel(), has_input + module.weight.requires_grad
            below |= module.weight.requires_grad
        elif not _in_head(name, family):
            below |= any(p.requires_grad for p in module.parameters(recurse=False))


def _in_head(name: str, family: Family) -> bool:
    return f"{name}.".startswith(tuple(f"{path}." for path in family.head))


def _attentions(model: PreTrainedModel, family: Family) -> Iterator[tuple[bool, int | None]]:
    """Yield for each layer whether queries, keys and values have gradients, and its window."""
    depth = int(getattr(model.config, family.depth_key))
    trained, below, lowest = set[int](), False, depth
    for name, parameter in model.named_parameters():
        index = layer_index(name, family)
        if index is not None and parameter.requires_grad:
            lowest = min(lowest, index)
            if owner_of(name) is None:
                trained.add(index)
        elif name.startswith((family.word_embeddings, *family.positions, *family.embedding_norm)):
            below |= parameter.requires_grad
    kinds: Sequence[str] = model.config.layer_types if family.types_of_layers else [""] * depth
    width = getattr(model.config, "sliding_window", None)
    for index in range(depth):
        slides = family.window_everywhere or kinds[index] == "sliding_attention"
        window = int(width) if slides and width is not None else None
        yield below or lowest < index or index in trained, window


# -- what the machine can do


def matrix_product_ceiling(
    device: torch.device,
    precision: str,
    width: int = 768,
    seconds: float = CEILING_SECONDS,
    rows: int = ROWS,
) -> float:
    """Return operations a second of the faster of two products: a layer's own, and a square one.

    Args:
        device: a CPU is used with the threads that torch has now.
        precision: bf16 or fp16, else fp32.
        width: hidden width D of the model; the product is [rows, D] by [D, 4 D].
        seconds: spent on each at most, two products at least.
        rows: tokens at once; sixteen times as many on a GPU.
    """
    on_gpu = device.type == "cuda"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    many, square = (rows * 16, rows * 4) if on_gpu else (rows, rows)
    best = 0.0
    for m, k, n in ((many, width, 4 * width), (square, square, square)):
        a, b = (torch.rand(*size, device=device).to(dtype) for size in ((m, k), (k, n)))
        times: list[float] = []
        begun = time.perf_counter()
        while len(times) < 3 or (time.perf_counter() - begun < seconds and len(times) <= PRODUCTS):
            started = time.perf_counter()
            torch.mm(a, b)
            if on_gpu:
                torch.cuda.synchronize(device)
            times.append(time.perf_counter() - started)
        best = max(best, 2.0 * m * k * n / min(times[1:]))  # the first one prepares kernels
    return best


# -- a running phase


class Speedometer:
    """Meter of real tokens a second and MFU of a running phase, since the last reading."""

    def __init__(self, ceiling: Callable[[], float]) -> None:
        """Start the clock.

        Args:
            ceiling: measures operations a second, of all processes together. Called once, when the
                phase has run for `SETTLED_SECONDS`. Its time counts as nobody's.
        """
        self.ceiling = ceiling
        self.limit: float | None = None
        self.ran = self.tokens_per_second = 0.0
        self.mfu: float | None = None
        self.restart()

    def restart(self) -> None:
        """Forget what was not read: something else than training went on."""
        self.started = time.monotonic()
        self.tokens, self.flops = 0, 0.0

    def add(self, tokens: int, flops: float | None) -> None:
        """Report a step: real tokens, and useful operations where they are known."""
        self.tokens += tokens
        self.flops += math.nan if flops is None else flops

    def read(self) -> None:
        """Set `tokens_per_second` and `mfu` (None where not known), and start anew."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        self.ran += seconds
        known = not math.isnan(self.flops)
        if self.limit is None and known and self.ran >= SETTLED_SECONDS:
            self.limit = self.ceiling()
        self.tokens_per_second = self.tokens / seconds
        self.mfu = self.flops / seconds / self.limit if self.limit and known else None
        if self.mfu is not None and self.mfu > 1:  # other work slowed the measurement down
            self.mfu = None
        self.restart()

    @property
    def shown(self) -> str:
        """Return the last reading for a line of the log; empty before the first."""
        if not self.tokens_per_second:
            return ""
        share = f", MFU {self.mfu:.0%}" if self.mfu is not None else ""
        return f", {self.tokens_per_second:,.0f} tokens/s{share}"
