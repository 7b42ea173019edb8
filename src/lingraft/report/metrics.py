"""Metrics as tables show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report import numbers

if TYPE_CHECKING:
    from lingraft.stats import Array


@dataclass(frozen=True)
class Metric:
    """A metric as it is shown, and made from the mean of its blocks."""

    title: str
    decimals: int | None = None
    """None shows three significant digits."""
    lower: bool = True
    """Lower is better."""
    scale: str = ""
    """Scale of the mean of the blocks: none, "percent" or "exp"."""

    def show(self, value: float | None) -> str:
        """Return a value as text."""
        if self.decimals is None:
            return numbers.significant(value)
        return numbers.fixed(value, self.decimals)

    def of(self, mean: Array) -> Array:
        """Return the metric of means of blocks."""
        if self.scale == "exp":
            return np.exp(np.minimum(mean, 700.0))
        return 100 * mean if self.scale == "percent" else mean


def hits(k: int, of: str = "") -> Metric:
    """Return the share of tokens among whose k likeliest guesses the right one is."""
    return Metric(f"hits@{k}{of}", 1, lower=False, scale="percent")
