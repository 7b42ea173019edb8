"""The rows of a study in order: cells of equal method and size side by side, seeds together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.methods import METHODS
from lingraft.report import numbers
from lingraft.report.rows import TITLES
from lingraft.study.rows import CurveRow, EndRow, MetricRow, latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.study.rows import Value

Array = np.ndarray[Any, Any]

PERPLEXITY = "mask-only/perplexity"
LOSS = "mask-only/loss"
BITS = "bits_per_character"
UNIGRAMS = "unigram_perplexity"
INITIALISER = "graft.embeddings"
PLACES = ("method", "sentences", "seed")
"""Axes that every table knows; any other becomes part of the row's label."""


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


@dataclass(frozen=True)
class Cell:
    """One finished run of the study."""

    name: str
    seed: int
    metrics: dict[str, MetricRow]
    curves: tuple[CurveRow, ...]
    end: EndRow


@dataclass(frozen=True)
class Group:
    """Cells that differ in nothing but the seed."""

    label: str
    method: str
    further: dict[str, Value]
    """Axes beside method, sentences and seed."""
    sentences: int | None
    """None where the study does not vary it, or takes all."""
    cells: tuple[Cell, ...]
    """By seed."""

    def rows(self, metric: str) -> dict[int, MetricRow]:
        """The metric's rows by seed."""
        return {cell.seed: cell.metrics[metric] for cell in self.cells if metric in cell.metrics}

    def values(self, metric: str) -> list[float]:
        """The metric of each seed that has it."""
        return [row.value for row in self.rows(metric).values()]

    def sound(self, metric: str) -> float | None:
        """The mean where it is a number: not of a training that diverged."""
        mean = self.mean(metric)
        return mean if mean is not None and math.isfinite(mean) else None

    def mean(self, metric: str) -> float | None:
        """Mean over the seeds."""
        values = self.values(metric)
        return math.fsum(values) / len(values) if values else None

    def deviation(self, metric: str) -> float | None:
        """Sample standard deviation over the seeds; None for a single one."""
        values = self.values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def masks(self) -> frozenset[str]:
        """The masks that the seeds were scored on, usually one set."""
        return frozenset(row.masks for cell in self.cells for row in cell.metrics.values())


@dataclass(frozen=True)
class Failure:
    """A cell whose last attempt failed."""

    cell: str
    message: str


@dataclass(frozen=True)
class Results:
    """All that is known of a study."""

    groups: tuple[Group, ...]
    """By size, and within a size in the order of the labels."""
    labels: tuple[str, ...]
    """Methods in the order of `methods.METHODS`; those with further axes last."""
    failures: tuple[Failure, ...]

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """From small to large; None, which is everything, last."""
        return tuple(dict.fromkeys(group.sentences for group in self.groups))

    @property
    def plain(self) -> tuple[str, ...]:
        """The labels that name a method alone; all labels if there is none of that kind."""
        further = {group.label for group in self.groups if group.further}
        return tuple(label for label in self.labels if label not in further) or self.labels

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for group in self.groups for cell in group.cells)

    def at(self, sentences: int | None) -> tuple[Group, ...]:
        """The groups of one size."""
        return tuple(group for group in self.groups if group.sentences == sentences)

    def of(self, label: str) -> tuple[Group, ...]:
        """The groups of one label, from small to large."""
        return tuple(group for group in self.groups if group.label == label)

    def reference(self, wanted: str = "scratch") -> str | None:
        """The label that the others are measured against; None if the method has no cell."""
        found = [g.label for g in self.groups if g.method == wanted and g.label in self.plain]
        return found[0] if found else None


def collect(rows: Iterable[MetricRow | CurveRow | EndRow]) -> Results:
    """Put the rows of a results file in order.

    Rows of attempts that failed or were killed count for nothing. Of a cell that was run again with
    another fingerprint, the last one that was done counts.
    """
    done: dict[str, tuple[dict[str, Value], Cell]] = {}
    failed: dict[str, str] = {}
    for outcome in latest(rows).values():
        end = outcome.end
        if end.status == "failed":
            failed[end.cell] = end.message
            continue
        failed.pop(end.cell, None)
        done[repr(sorted(end.axes.items()))] = (end.axes, _cell(end, outcome.rows))
    return _ordered(list(done.values()), tuple(Failure(*item) for item in failed.items()))


def _cell(end: EndRow, rows: Sequence[MetricRow | CurveRow]) -> Cell:
    metrics = {row.metric: row for row in rows if isinstance(row, MetricRow)}
    perplexity = metrics.get(PERPLEXITY)
    if perplexity is not None:
        loss = {"metric": LOSS, "value": math.log(perplexity.value)}
        metrics[LOSS] = perplexity.model_copy(update=loss)
    seed = end.axes.get("seed")
    seeds = {row.seed for row in metrics.values()}
    return Cell(
        name=end.cell,
        seed=seed if isinstance(seed, int) else min(seeds, default=0),
        metrics=metrics,
        curves=tuple(row for row in rows if isinstance(row, CurveRow)),
        end=end,
    )


def _ordered(
    cells: Sequence[tuple[dict[str, Value], Cell]], failed: tuple[Failure, ...]
) -> Results:
    shown = _varied([axes for axes, _ in cells])
    ranks = {name: rank for rank, name in enumerate(METHODS)}
    labels: dict[str, int] = {}
    further: set[str] = set()
    together: dict[tuple[str, int | None], list[tuple[dict[str, Value], Cell]]] = {}
    for axes, cell in cells:
        label = _label(axes, shown)
        labels.setdefault(label, ranks.get(str(axes.get("method")), len(ranks)))
        further |= {label} if any(name in axes for name in shown) else set()
        together.setdefault((label, _size(axes)), []).append((axes, cell))
    order = sorted(labels, key=lambda label: (label in further, labels[label], label))
    groups = [
        Group(
            label=label,
            method=str(members[0][0].get("method", "")),
            further={key: value for key, value in members[0][0].items() if key in shown},
            sentences=size,
            cells=tuple(sorted((cell for _, cell in members), key=lambda cell: cell.seed)),
        )
        for (label, size), members in together.items()
    ]
    groups.sort(key=lambda group: (_rank(group.sentences), order.index(group.label)))
    return Results(tuple(groups), tuple(order), failed)


def _rank(size: int | None) -> float:
    return math.inf if size is None else size


def _size(axes: dict[str, Value]) -> int | None:
    value = axes.get("sentences")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _varied(axes: Sequence[dict[str, Value]]) -> dict[str, str]:
    """Further axes that are not the same everywhere, and how a label calls them."""
    names = dict.fromkeys(name for one in axes for name in one if name not in PLACES)
    varied = [name for name in names if len({repr(one.get(name, ...)) for one in axes}) > 1]
    ends = [name.rpartition(".")[2] for name in varied]
    return {
        name: end if ends.count(end) == 1 else name for name, end in zip(varied, ends, strict=True)
    }


def _label(axes: dict[str, Value], shown: dict[str, str]) -> str:
    method = str(axes.get("method", "model"))
    parts = [f"{end} {axes[name]}" for name, end in shown.items() if name in axes]
    return ", ".join([TITLES.get(method, method), *parts])


def size_text(sentences: int | None) -> str:
    """A size as a heading says it."""
    return "all sentences" if sentences is None else f"{sentences:,} sentences"
