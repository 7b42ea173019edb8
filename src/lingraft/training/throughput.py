"""Floating-point operations of training and evaluation, the machine's ceiling, and MFU.

This is the one place that counts operations. Useful operations are those that the sentences need:
none for padding, for attention between the sentences of a row, for logits of tokens that are not
predicted, for recomputed activations or for the optimizer. A matrix product of [n, a] and [a, b]
takes 2nab; its backward pass takes the same again for the gradient of its input, where something
trains below, and for that of its weights, where they train. Model FLOPs utilisation (MFU; Chowdhery
et al. 2022, appendix B) is useful operations a second over what the machine can do.

torch is imported by the functions that need it: studies estimate their cost without it.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lingraft.models.kinds import KINDS
from lingraft.models.modules import owner_of
from lingraft.models.parts import layer_index, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from transformers import PreTrainedModel

    from lingraft.models.families import Family

logger = logging.getLogger(__name__)

Array = np.ndarray[Any, Any]

READ_LAYER_INPUT = (".query", ".key", ".value", ".q_proj", ".k_proj", ".v_proj")
"""Maps of a layer that all read its input; a joint one needs no name, it is the layer's first."""
ROWS = 2_048
PRODUCTS = 12
CEILING_SECONDS = 1.0
RECENT = 10
"""Readings of the speed that the log shows the mean of."""
SETTLED_SECONDS = 30.0
"""A phase that is shorter than this has no MFU in its log: measuring the ceiling takes a second."""
TOO_LOW = "other work slowed the machine down while the fastest matrix product was measured"


def flops_per_token(multiplied: float, trained: float) -> float:
    """Return operations of training per token, from parameters alone (Kaplan et al. 2020, §2.1).

    Two a parameter in the forward pass, two for the gradient of its activations and two for that of
    the parameters that train; attention is left out. An estimate for a model that is not built yet.

    Args:
        multiplied: parameters that a token is multiplied with.
        trained: how many of them train.
    """
    return 4 * multiplied + 2 * trained


class Passes(NamedTuple):
    """Operations of the three products that a map is made of."""

    forward: float
    inputs: float
    """For gradients of activations."""
    weights: float
    """For gradients of weights."""

    def plus(self, other: Passes) -> Passes:
        """Add other passes."""
        return Passes(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, number: float) -> Passes:
        """Multiply the passes by a number."""
        return Passes(*(number * value for value in self))


NOTHING = Passes(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Operations:
    """Operations of a model with its present frozen parts, by part (`recipe.PARTS`)."""

    per_token: dict[str, Passes]
    per_target: dict[str, Passes]
    """For a predicted token: the head."""
    per_pair: dict[tuple[str, int | None], Passes]
    """For a pair of tokens that attend to each other, by part and window (None: no window)."""
    before_only: bool = False
    """Whether a token sees what stands before it alone."""

    def by_part(self, lengths: Array, targets: int) -> dict[str, Passes]:
        """Return the useful operations for sentences, by part.

        Args:
            lengths: [S] tokens in each.
            targets: predicted tokens of all.
        """
        totals: dict[str, Passes] = defaultdict(lambda: NOTHING)
        tokens = float(np.sum(lengths, dtype=np.int64))
        for counts, number in ((self.per_token, tokens), (self.per_target, float(targets))):
            for part, passes in counts.items():
                totals[part] = totals[part].plus(passes.times(number))
        for (part, window), passes in self.per_pair.items():
            totals[part] = totals[part].plus(
                passes.times(pairs(lengths, window, before_only=self.before_only))
            )
        return dict(totals)

    def training(self, lengths: Array, targets: int) -> float:
        """Return useful operations of a forward and a backward pass; arguments as in `by_part`."""
        return sum(sum(passes) for passes in self.by_part(lengths, targets).values())

    def forward(self, lengths: Array, targets: int) -> float:
        """Return useful operations of a forward pass; arguments as in `by_part`."""
        return sum(passes.forward for passes in self.by_part(lengths, targets).values())


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


def count(model: PreTrainedModel, family: Family, itl: frozenset[int]) -> Operations:
    """Count the operations of a model, from its linear maps and its `requires_grad`.

    Args:
        model: a stock masked language model; frozen as it will train.
        family: its record.
        itl: indices of the implicit translation layers.
    """
    per_token: dict[str, Passes] = defaultdict(lambda: NOTHING)
    per_target: dict[str, Passes] = defaultdict(lambda: NOTHING)
    per_pair: dict[tuple[str, int | None], Passes] = defaultdict(lambda: NOTHING)
    for name, weights, gradients in _maps(model, family):
        counts = per_target if _in_head(name, family) else per_token
        part = part_of(f"{name}.weight", family, itl)
        counts[part] = counts[part].plus(Passes(1, *gradients).times(2 * weights))
    for index, (has_gradient, window) in enumerate(_attentions(model, family)):
        part = "inserted" if index in itl else "body"
        once = 4.0 * _attention_width(model)  # two products of queries, keys and values
        backward = 2 * once if has_gradient else 0.0
        per_pair[part, window] = per_pair[part, window].plus(Passes(once, backward, 0.0))
    before_only = KINDS[family.kind].attention == "before"
    return Operations(dict(per_token), dict(per_target), dict(per_pair), before_only)


def _attention_width(model: PreTrainedModel) -> int:
    """Return the width of all heads' queries together; of most models the hidden one."""
    config = model.config
    of_head = getattr(config, "head_dim", None)
    return int(of_head * config.num_attention_heads if of_head else config.hidden_size)


def _maps(model: PreTrainedModel, family: Family) -> Iterator[tuple[str, int, tuple[float, float]]]:
    """Yield name, weights, and whether (0, 1) input and weights have gradients, of each linear map.

    Body and embeddings are registered in the order in which they run, in all families. The head's
    modules may stand before them, its norm before its map; it predicts from all of them.
    """
    from torch import nn
    from transformers.pytorch_utils import Conv1D  # GPT-2's linear map

    below = False
    layer_input: dict[int, bool] = {}
    modules = sorted(model.named_modules(), key=lambda item: _in_head(item[0], family))
    for name, module in modules:
        index = layer_index(name, family)
        first = layer_input.setdefault(index, below) if index is not None else below
        if isinstance(module, nn.Linear | Conv1D):
            has_input = first if name.endswith(READ_LAYER_INPUT) else below
            yield name, module.weight.numel(), (has_input, module.weight.requires_grad)
            below |= module.weight.requires_grad
        elif not _in_head(name, family):
            below |= any(p.requires_grad for p in module.parameters(recurse=False))


def _in_head(name: str, family: Family) -> bool:
    return f"{name}.".startswith(tuple(f"{path}." for path in family.head))


def _attentions(model: PreTrainedModel, family: Family) -> Iterator[tuple[bool, int | None]]:
    """Yield for each layer whether queries, keys and values have gradients, and its window."""
    depth = int(getattr(model.config, family.depth_key))
    trained: set[int] = set()
    below = False
    lowest = depth
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
    """Measure the best speed of two products: a layer's own, and a square one.

    Args:
        device: a CPU is used with the threads that torch has now.
        precision: bf16 or fp16, else fp32.
        width: hidden width D of the model; the product is [rows, D] by [D, 4 D].
        seconds: spent on each at most, two products at least.
        rows: tokens at once; sixteen times as many on a GPU.

    Returns:
        Operations a second.
    """
    import torch

    on_gpu = device.type == "cuda"
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(precision, torch.float32)
    many = rows * 16 if on_gpu else rows
    square = rows * 4 if on_gpu else rows
    best = 0.0
    for m, k, n in ((many, width, 4 * width), (square, square, square)):
        times = product_seconds((m, k, n), kind, device, seconds)
        best = max(best, 2.0 * m * k * n / min(times))
    return best


def product_seconds(
    sizes: tuple[int, int, int],
    kind: torch.dtype,
    device: torch.device,
    seconds: float,
    products: int | None = PRODUCTS,
) -> list[float]:
    """Time single matrix products; the first one, which prepares kernels, is left out.

    Args:
        sizes: of [m, k] by [k, n].
        kind: of the numbers.
        device: where.
        seconds: no product starts later than this, but for the second.
        products: at most so many; None has no limit.
    """
    import torch

    m, k, n = sizes
    a, b = (torch.rand(*size, device=device).to(kind) for size in ((m, k), (k, n)))
    out = torch.empty(m, n, dtype=kind, device=device)
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or (
        time.perf_counter() - begun < seconds and (products is None or len(times) <= products)
    ):
        started = time.perf_counter()
        torch.mm(a, b, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - started)
    return times[1:]


# -- a running phase


class Speedometer:
    """Real tokens a second and MFU of a running phase, since the last reading."""

    def __init__(self, ceiling: Callable[[], float]) -> None:
        """Start the clock.

        Args:
            ceiling: measures operations a second, of all processes together. Called when the phase
                has run for `SETTLED_SECONDS`, and once more where training turns out to be faster:
                then other work had slowed the measurement down. Its time counts as nobody's.
        """
        self.ceiling = ceiling
        self.measured_again = False
        self.limit: float | None = None
        self.ran = 0.0
        self.mfu: float | None = None
        self.tokens_per_second = 0.0
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        """Tokens and seconds of the last readings."""
        self.restart()

    def restart(self) -> None:
        """Forget what was not read: something else than training went on."""
        self.started = time.monotonic()
        self.tokens = 0
        self.flops: float | None = 0.0

    def add(self, tokens: int, flops: float | None) -> None:
        """Report a step: real tokens, and useful operations where they are known."""
        self.tokens += tokens
        self.flops = self.flops + flops if self.flops is not None and flops is not None else None

    def read(self) -> None:
        """Set `tokens_per_second` and `mfu` (None where not known), and start anew."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        self.ran += seconds
        if self.limit is None and self.flops is not None and self.ran >= SETTLED_SECONDS:
            self.limit = self.ceiling()
        self.tokens_per_second = self.tokens / seconds
        self.recent.append((self.tokens, seconds))
        self.mfu = None
        if self.limit is not None and self.flops is not None:
            self.mfu = self.share(self.flops / seconds, self.limit)
        self.restart()

    def share(self, speed: float, limit: float) -> float | None:
        """Return speed over the ceiling; None where it is above one that was measured twice."""
        if speed > limit and not self.measured_again:
            self.measured_again = True
            self.limit = limit = max(limit, self.ceiling())
            if speed > limit:
                logger.warning("MFU is left out where it is above 100 %%: %s", TOO_LOW)
        return speed / limit if speed <= limit else None

    @property
    def shown(self) -> str:
        """Write the mean over the last readings for a line of the log; empty before the first."""
        if not self.recent:
            return ""
        tokens, seconds = map(sum, zip(*self.recent, strict=True))
        return f", {tokens / seconds:,.0f} tokens/s{self.utilisation}"

    @property
    def utilisation(self) -> str:
        """Write the MFU for a line of the log that has the speed; empty where it is not known."""
        return f", MFU {self.mfu:.0%}" if self.mfu is not None else ""
