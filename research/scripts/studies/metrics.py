"""How a study's metrics are called, shown, and made from what their blocks add up to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report import numbers
from lingraft.report.variants import STREAM

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

PERPLEXITY = "mask-only/perplexity"
LOSS = "mask-only/loss"
BITS = "bits_per_character"
BYTES = "likelihood/bits_per_byte"
"""Of causal models, on every byte of whole documents."""
UNIGRAMS = "unigram_perplexity"
TASK = "task/"
"""What the names of metrics of fine-tuned models begin with."""
KEPT = "kept/"
"""Those of causal models on texts of the source's language."""
UNKNOWN = "unknown"
"""What the name of a causal model's count ends with: tokens of a text that stand for what its
vocabulary lacks."""


@dataclass(frozen=True)
class Metric:
    """How a metric is called, shown, and made from the mean that its blocks give."""

    title: str
    lower: bool
    """Lower is better."""
    show: Callable[[float | None], str]
    scale: Callable[[Array], Array]
    by_tokens: bool = True
    """Depends on the masks, so it does not compare across vocabularies."""
    by_own: bool = False
    """Compares where the `masks` of its own rows are equal: the text."""


def _same(mean: Array) -> Array:
    return mean


def _percent(mean: Array) -> Array:
    return 100 * mean


def _exp(mean: Array) -> Array:
    return np.exp(np.minimum(mean, 700.0))


def _decimals(number: int) -> Callable[[float | None], str]:
    return lambda value: numbers.fixed(value, number)


def _of_text(title: str, show: Callable[[float | None], str]) -> Metric:
    return Metric(title, lower=True, show=show, scale=_same, by_tokens=False, by_own=True)


METRICS = {
    PERPLEXITY: Metric("PPL", lower=True, show=numbers.significant, scale=_exp),
    LOSS: Metric("nats", lower=True, show=_decimals(3), scale=_same),
    **{
        f"mask-only/hits@{k}": Metric(f"hits@{k}", lower=False, show=_decimals(1), scale=_percent)
        for k in (1, 3, 5, 10)
    },
    "mask-only/mrr": Metric("MRR", lower=False, show=_decimals(4), scale=_same),
    "mask-only/mr": Metric("MR", lower=True, show=numbers.significant, scale=_same),
    BITS: Metric("bits/char", lower=True, show=_decimals(3), scale=_same, by_tokens=False),
}
CAUSAL_METRICS = {
    BYTES: _of_text("bits/byte", _decimals(3)),
    "likelihood/bits_per_character": _of_text("bits/char", _decimals(3)),
    "tokens_per_character": _of_text("tokens/char", _decimals(3)),
    "next-token/perplexity": Metric("PPL", lower=True, show=numbers.significant, scale=_exp),
    **{
        f"{group}/{name}": Metric(f"{title}{of}", lower=lower, show=show, scale=_percent)
        for group, of in {"all": "", "new": ", new", "old": ", old"}.items()
        for name, title, lower, show in (
            *((f"hits@{k}", f"hits@{k}", False, _decimals(1)) for k in (1, 5, 10)),
            ("mean_rank", "mean rank", True, numbers.significant),
            ("median_rank", "median rank", True, numbers.significant),
        )
    },
}


def metric_named(name: str) -> Metric:
    """How a metric is called and shown.

    Args:
        name: a key of METRICS or CAUSAL_METRICS, that of a stream (`stream/NAME/KEY`),
            `task/NAME/SCORE` in per cent, or `kept/TEXT/bits_per_byte`.
    """
    if name.startswith(STREAM):
        _, stream, of_text = name.split("/", 2)
        return replace(metric_named(of_text), title=stream)
    if name.startswith(KEPT):
        return _of_text(f"{name.split('/')[1]}, kept", _decimals(3))
    if not name.startswith(TASK):
        return METRICS[name] if name in METRICS else CAUSAL_METRICS[name]
    title = name.removeprefix(TASK).replace("/", " ").replace("_", " ")
    return Metric(title, lower=False, show=_decimals(1), scale=_percent, by_tokens=False)
