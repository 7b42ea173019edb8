"""Metrics of studies, differences between methods, and how much data a method is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.recipe.records import METHODS
from lingraft.report import numbers, scored
from lingraft.report.numbers import Metric, hits
from lingraft.report.variants import STREAM, TITLES
from lingraft.stats import interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.report.row import Score, Value
    from lingraft.stats import Array, Difference, Key, Resampling


@dataclass(frozen=True)
class Cell:
    """A finished run of the study; with axes of fine-tuning, at one of their points."""

    name: str
    seed: int
    axes: Mapping[str, Value]
    metrics: Mapping[str, Score]
    tasks: dict[str, dict[int, Score]] = field(default_factory=dict)
    """By metric `task/NAME/SCORE` and seed of fine-tuning; those that papers report."""

    @property
    def facts(self) -> Mapping[str, Value]:
        """Return what rows tell of training and machine."""
        return next((row.facts for row in self.metrics.values()), {})

    @property
    def valid_loss(self) -> float:
        """Return the lowest validation loss of the last phase, whose weights were evaluated."""
        loss = self.metrics[CURVE].value if CURVE in self.metrics else math.inf
        return loss if math.isfinite(loss) else math.inf


@dataclass(frozen=True)
class SeedGroup:
    """Cells that differ in nothing but the seed."""

    label: str
    method: str
    sentences: int | None
    """None where all are taken, or none."""
    cells: tuple[Cell, ...]
    """By seed."""
    trained: str = ""
    """Label of the models that were trained, whatever they were fine-tuned with."""
    chosen: str = ""
    """Values of the axes that were selected."""

    @property
    def point(self) -> str:
        """Return the values of the axes in the label."""
        return self.label.removeprefix(TITLES.get(self.method, self.method))

    @property
    def is_untrained(self) -> bool:
        """Return whether its method trains nothing, so that it stands at every size."""
        return self.method in METHODS and not METHODS[self.method].phases

    def rows(self, metric: str) -> dict[Key, Score]:
        """Return the metric's rows by seed; of a task, by seed and that of fine-tuning."""
        if metric.startswith(TASK):
            return {
                (cell.seed, seed): row
                for cell in self.cells
                for seed, row in cell.tasks.get(metric, {}).items()
            }
        return {(cell.seed,): cell.metrics[metric] for cell in self.cells if metric in cell.metrics}

    def values(self, metric: str) -> list[float]:
        """Return the metric of each model."""
        return [row.value for row in self.rows(metric).values()]

    def mean(self, metric: str) -> float | None:
        """Return the mean over the seeds; of a task, of their means over fine-tunings."""
        return scored.mean(self.rows(metric))

    def deviation(self, metric: str) -> float | None:
        """Return the sample standard deviation over all models; None for one."""
        return scored.deviation(self.rows(metric))


PERPLEXITY = "mask-only/perplexity"
LOSS = "mask-only/loss"
BITS = "bits_per_character"
BYTES = "likelihood/bits_per_byte"
UNIGRAMS = "unigram_perplexity"
CURVE = "curve/loss"
"""Validation loss over tokens."""
TASK, KEPT = "task/", "kept/"
"""Prefixes of the scores of fine-tuned models, and of those on texts of the source's language
that a causal model was scored on."""

METRICS = {
    PERPLEXITY: Metric("PPL", scale="exp"),
    BITS: Metric("bits/char", 3),
    BYTES: Metric("bits/byte", 3),
    "mask-only/hits@1": hits(1),
    "mask-only/mrr": Metric("MRR", 4, lower=False),
    "new/hits@1": hits(1, ", new"),
}
"""Columns of tables, in their order."""


def metric_named(name: str) -> Metric | None:
    """Return how a metric is shown; None of one that tables do not show.

    Args:
        name: of `METRICS`, of a stream (`stream/NAME/METRIC`), `kept/TEXT/bits_per_byte` or
            `task/NAME/SCORE`.
    """
    if name.startswith(STREAM):
        _, stream, of_text = name.split("/", 2)
        found = METRICS.get(of_text) if of_text in (PERPLEXITY, BITS, BYTES) else None
        return found and replace(found, title=f"{found.title}, {stream}")
    if name.startswith(KEPT) and name.endswith("/bits_per_byte"):
        return Metric(f"{name.split('/')[1]}, kept", 3)
    if name.startswith(TASK):
        title = name.removeprefix(TASK).replace("/", " ").replace("_", " ")
        return replace(hits(0), title=title)
    return Metric("loss", 3) if name == LOSS else METRICS.get(name)


def asked(group: SeedGroup, metric: str) -> frozenset[Any]:
    """Return what a metric was measured on: tokens, text or examples; of words which ones."""
    rows = group.rows(metric).values()
    if metric.rpartition("/")[2] == BITS and not metric.startswith("likelihood/"):
        finite = (row for row in rows if math.isfinite(row.value))
        return frozenset((row.n, tuple(n for _, n in row.blocks or ())) for row in finite)
    unknown = group.values(f"{metric.rpartition('/')[0] or 'likelihood'}/unknown")
    models = [row.masks for row in group.rows("next-token/perplexity").values()] * any(unknown)
    return frozenset([*(row.masks for row in rows), *models])


def difference(
    group: SeedGroup, base: SeedGroup, metric: str, resampling: Resampling
) -> Difference | None:
    """Return how much higher a metric is than the base's, over the seeds that both have.

    None where the two were measured on different things, or share no seed.
    """
    record = metric_named(metric)
    if record is None or asked(group, metric) != asked(base, metric):
        return None
    found = scored.gains(group.rows(metric), base.rows(metric), record.of, resampling)
    return found and resampling.difference(*found)


NOT_REACHED, BELOW = math.inf, 0.0
"""Stand for sizes above the largest and below the smallest of the baseline."""


@dataclass(frozen=True)
class Factor:
    """Factor by which a baseline needs more data to reach a method's quality.

    Lee et al. 2021, section 5: the baseline's means are joined by straight lines over log(size).
    Nothing is extrapolated. A bound that is infinite stands for more than `most`, 0 for less than
    `least`.
    """

    value: float
    """NaN where a mean is not finite."""
    bounds: tuple[float, float] | None
    """Bounds of the 95 % interval; None where a cell has no blocks, or few."""
    least: float
    most: float
    """Smallest and largest size of the baseline by that of the method."""

    def shown(self) -> tuple[str, str]:
        """Return the factor and its interval: `4.1`, `[3.2, 5.0]`; or `not reached (> 8)`."""
        text = self._text(self.value)
        value = f"not reached ({text})" if self.value == NOT_REACHED else text
        if self.bounds is None or self.bounds[0] == self.bounds[1]:
            return value, ""
        return value, f"[{', '.join(map(self._text, self.bounds))}]"

    def _text(self, value: float) -> str:
        bounds = {NOT_REACHED: ("> ", self.most), BELOW: ("< ", self.least)}
        sign, number = bounds.get(value, ("", value))
        return sign + numbers.fixed(number, 0 if number >= 10 else 1 if number >= 1 else 2)


def reached_at(sizes: Sequence[float], means_RK: Array, targets_R: Array, *, lower: bool) -> Array:
    """Return the smallest sizes [R] at which a curve is as good as the target.

    Args:
        sizes: K of them, ascending.
        means_RK: the curve's values there, once for each resample.
        targets_R: the quality to reach.
        lower: whether lower is better.
    """
    excess_RK = (means_RK - targets_R[:, None]) * (1.0 if lower else -1.0)
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


def factor(
    group: SeedGroup, baseline: Sequence[SeedGroup], metric: str, resampling: Resampling
) -> Factor | None:
    """Return how many times more data the baseline needs; None where they do not compare.

    Args:
        group: of the method, at one size.
        baseline: its groups from small to large.
        metric: its name.
        resampling: blocks are drawn for all cells together, seeds for each group by itself.
    """
    record, groups, size = metric_named(metric), (group, *baseline), group.sentences
    if record is None or not size or len({asked(one, metric) for one in groups}) > 1:
        return None
    sizes = [float(one.sentences or 0) for one in baseline]
    means = np.array([one.mean(metric) for one in groups], dtype=np.float64)
    ends = (sizes[0] / size, sizes[-1] / size)
    if not np.isfinite(means).all():
        return Factor(math.nan, None, *ends)
    value = float(reached_at(sizes, means[None, 1:], means[:1], lower=record.lower)[0]) / size
    rows = [one.rows(metric) for one in groups]
    used_B = scored.shared_blocks([row for of_group in rows for row in of_group.values()])
    if used_B is None:
        return Factor(value, None, *ends)
    means_GR = [
        resampling.mean(
            scored.replicates(list(of_group.values()), record.of, used_B, resampling),
            list(of_group),
            f"{one.label} {one.sentences}",
        )
        for one, of_group in zip(groups, rows, strict=True)
    ]
    means_RG = np.stack(means_GR, axis=1)
    factors_R = reached_at(sizes, means_RG[:, 1:], means_RG[:, 0], lower=record.lower) / size
    # bounds that some resample has, so that what is not reached is never averaged
    return Factor(value, interval(factors_R, "inverted_cdf"), *ends)
