"""Numbers as people read them. Between a number and its unit stands a no-break space.

Metrics as tables show them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft import log

if TYPE_CHECKING:
    from lingraft.stats import Array


NO_BREAK = "\u00a0"
ABSENT = "–"


def significant(value: float | None, digits: int = 3) -> str:
    """Show a measured value with the decimals that matter: 5.07, 46.4, 164.6, 1,204."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.{max(digits - 1, 0)}f}"


def fixed(value: float | None, decimals: int) -> str:
    """Show a value with a fixed number of decimals, below nothing with the sign of a difference."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{value:z,.{decimals}f}".replace("-", "−")


def signed(value: float | None, decimals: int) -> str:
    """Show a difference: +1.2, −0.3, 0.0."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return with_sign(value, fixed(abs(value), decimals))


def with_sign(value: float, size: str) -> str:
    """Put a number's size as text behind its sign; what is shown as nothing has none."""
    shown_as_nothing = not any(digit in size for digit in "123456789")
    return size if shown_as_nothing else f"{'+' if value > 0 else '−'}{size}"


def between(low: float | None, high: float | None, decimals: int, *, sign: bool = False) -> str:
    """Show an interval: [1.2, 3.4], or of a difference [−0.1, +0.4]; empty without bounds."""
    if low is None or high is None:
        return ""
    show = signed if sign else fixed
    return f"[{show(low, decimals)}, {show(high, decimals)}]"


def probability(p: float) -> str:
    """Show a p to three decimals: p 0.023, p < 0.001."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def tested(p: float, p_seeds: float | None, trained: int) -> str:
    """Show the bootstrap's p, and that over the seeds of training where there is one."""
    if p_seeds is None:
        return probability(p)
    return f"{probability(p)}, over {trained} seeds {probability(p_seeds).removeprefix('p ')}"


def count(value: float | None) -> str:
    """Show an exact count: 138,669,392."""
    return ABSENT if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Show a count to three digits: 950, 88 k, 0.88 M, 1.2 B."""
    if value is None:
        return ABSENT
    for least, size, unit in ((1e9, 1e9, "B"), (1e5, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{_three_digits(value / size)}{NO_BREAK}{unit}"
    return f"{value:,.0f}"


def _three_digits(value: float) -> str:
    if value < 1:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float | None, decimals: int = 1) -> str:
    """Show a share between 0 and 1 as 46.4 %, or < 0.1 % where it would round to none."""
    if share is None:
        return ABSENT
    least = 10.0**-decimals
    if 0 < 100 * share < least / 2:
        return f"<{NO_BREAK}{least:g}{NO_BREAK}%"
    return f"{100 * share:.{decimals}f}{NO_BREAK}%"


def duration(seconds: float | None) -> str:
    """Show a time: 0.8 s, 45 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return ABSENT
    return re.sub(r" (?=s|min|h)", NO_BREAK, log.duration(seconds))


def size(n_bytes: float | None) -> str:
    """Show a file size in decimal units: 812 B, 5.2 MB."""
    if n_bytes is None:
        return ABSENT
    for power, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= power:
            return f"{_three_digits(n_bytes / power)}{NO_BREAK}{unit}"
    return f"{n_bytes:.0f}{NO_BREAK}B"


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
            return significant(value)
        return fixed(value, self.decimals)

    def of(self, mean: Array) -> Array:
        """Return the metric of means of blocks."""
        if self.scale == "exp":
            return np.exp(np.minimum(mean, 700.0))
        return 100 * mean if self.scale == "percent" else mean


def hits(k: int, of: str = "") -> Metric:
    """Return the share of tokens among whose k likeliest guesses the right one is."""
    return Metric(f"hits@{k}{of}", 1, lower=False, scale="percent")
