"""How many times more data a baseline needs to reach a method's quality (Lee et al. 2021, §5).

The baseline's mean metric is joined by straight lines over log(sentences). Its curve reaches a
quality at the smallest size where it is at least as good; that it goes on getting better is not
assumed. Nothing is extrapolated: a quality better than all of the baseline's is "not reached", one
that its smallest size beats is reached with less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report import numbers
from lingraft.stats import interval
from lingraft.study.analysis import checked, replicates, shared_blocks
from lingraft.study.metrics import metric_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.stats import Array, Resampling
    from lingraft.study.results import Group

NOT_REACHED = math.inf
BELOW = 0.0
"""Stand for sizes above the largest and below the smallest of the baseline."""


@dataclass(frozen=True)
class Factor:
    """Sizes are in sentences; `factor` and the bounds are n* / n.

    NOT_REACHED stands for more than `most`, BELOW for less than `least`.
    """

    size: int
    """n, of the method."""
    value: float
    """NaN where a mean is not finite: a model that broke reaches nothing, and is not reached."""
    low: float | None
    """Bounds of the 95 % interval; None where a cell has no blocks, or few."""
    high: float | None
    unreached: float | None
    """Share of the resamples in which the baseline does not reach the method's quality."""
    least: float
    """Smallest size of the baseline / n."""
    most: float
    """Largest size of the baseline / n."""

    def shown(self) -> tuple[str, str]:
        """The factor and its interval: `4.1`, `[3.2, 5.0]`; or `not reached (> 8)`, ``."""
        if math.isnan(self.value):
            return numbers.ABSENT, ""
        value = self._text(self.value)
        if self.value == NOT_REACHED:
            value = f"not reached ({value})"
        if self.low is None or self.high is None:
            return value, ""
        if self.low == self.high and self.value in (NOT_REACHED, BELOW):
            return value, ""
        share = f" {100 * self.unreached:.0f} % not reached" if self.unreached else ""
        return value, f"[{self._text(self.low)}, {self._text(self.high)}]{share}"

    def _text(self, value: float) -> str:
        if value == NOT_REACHED:
            return f"> {_short(self.most)}"
        return f"< {_short(self.least)}" if value == BELOW else _short(value)


def _short(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def reached_at(sizes: Sequence[float], means_RK: Array, targets_R: Array, *, lower: bool) -> Array:
    """[R] The smallest size at which a curve is as good as the target.

    Args:
        sizes: K of them, ascending.
        means_RK: the curve's values there, once for each resample.
        targets_R: the quality to reach.
        lower: whether lower is better.

    Returns:
        Sizes; BELOW where the smallest size is better, NOT_REACHED where no size is good enough.
    """
    sign = 1.0 if lower else -1.0
    excess_RK = sign * (means_RK - targets_R[:, None])
    sizes_R = np.full(len(targets_R), NOT_REACHED)
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    for k in range(len(sizes) - 1, 0, -1):
        before, after = excess_RK[:, k - 1], excess_RK[:, k]
        crosses = (before > 0) & (after <= 0)
        share = before[crosses] / (before[crosses] - after[crosses])
        sizes_R[crosses] = np.exp(logs[k - 1] + share * (logs[k] - logs[k - 1]))
    sizes_R[excess_RK[:, 0] == 0] = sizes[0]
    sizes_R[excess_RK[:, 0] < 0] = BELOW
    return sizes_R


def factor(method: Group, baseline: Sequence[Group], metric: str, resampling: Resampling) -> Factor:
    """How many times more data the baseline needs to be as good as the method.

    Blocks of the test text are drawn for all cells together; seeds for each size of each method by
    themselves, since their numbers may differ.

    Args:
        method: at one size.
        baseline: the baseline's groups from small to large, all with a size.
        metric: its name.
        resampling: of the interval.

    Raises:
        DataError: the groups do not compare.
    """
    groups = (method, *baseline)
    checked(groups, metric)
    size = method.sentences
    assert size is not None
    sizes = [float(group.sentences or 0) for group in baseline]
    assert sizes == sorted(sizes)
    lower = metric_named(metric).lower
    means = np.array([group.mean(metric) for group in groups], dtype=np.float64)
    least, most = sizes[0] / size, sizes[-1] / size
    if not np.isfinite(means).all():
        return Factor(size, math.nan, None, None, None, least, most)
    value = float(reached_at(sizes, means[None, 1:], means[:1], lower=lower)[0]) / size
    rows = [group.rows(metric) for group in groups]
    used_B = shared_blocks([row for of_group in rows for row in of_group.values()])
    if used_B is None:
        return Factor(size, value, None, None, None, least, most)
    means_RG = np.stack(
        [
            resampling.mean(
                replicates(list(group_rows.values()), metric, used_B, resampling),
                list(group_rows),
                f"{group.label} {group.sentences}",
            )
            for group, group_rows in zip(groups, rows, strict=True)
        ],
        axis=1,
    )
    factors_R = reached_at(sizes, means_RG[:, 1:], means_RG[:, 0], lower=lower) / size
    # bounds that some resample has, so that what is not reached is never averaged
    low, high = interval(factors_R, "inverted_cdf")
    return Factor(size, value, low, high, float(np.isinf(factors_R).mean()), least, most)
