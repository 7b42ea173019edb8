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
UNIGRAMS = "unigram_perplexity"
TASK = "task/"
"""What the names of metrics of fine-tuned models begin with."""


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


def _same(mean: Array) -> Array:
    return mean


def _percent(mean: Array) -> Array:
    return 100 * mean


def _exp(mean: Array) -> Array:
    return np.exp(np.minimum(mean, 700.0))


def _decimals(number: int) -> Callable[[float | None], str]:
    return lambda value: numbers.fixed(value, number)


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


def metric_named(name: str) -> Metric:
    """A key of METRICS, that of a stream (`stream/NAME/KEY`) or `task/NAME/SCORE` in per cent."""
    if name.startswith(STREAM):
        _, stream, of_text = name.split("/", 2)
        return replace(METRICS[of_text], title=stream)
    if not name.startswith(TASK):
        return METRICS[name]
    title = name.removeprefix(TASK).replace("/", " ").replace("_", " ")
    return Metric(title, lower=False, show=_decimals(1), scale=_percent, by_tokens=False)
