"""Scores of models on several sets, how sure they are, and curves over the layers. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report import numbers
from lingraft.report.figure import Figure, Line
from lingraft.report.table import BEST, Cell, Column, row, table
from lingraft.stats import FEWEST_BLOCKS, interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lingraft.report.table import Table
    from lingraft.stats import Array, Difference, Resampling

    Curve = Mapping[int, float]
    "Percent by layer."
    Best = Callable[[Iterable[float]], float]


class Scores(ABC):
    """Of models that have a `label` and a `layer`, in percent; all are drawn the same sentences.

    Args:
        names: of the sets.
        whole: what the mean over them is called.
        resampling: of the sentences.
    """

    def __init__(self, names: Sequence[str], whole: str, resampling: Resampling) -> None:
        self.names, self.whole, self.resampling = list(names), whole, resampling
        self.columns = [*self.names, *([whole] if len(self.names) > 1 else [])]
        self._drawn: dict[tuple[str, int | None, str], Array] = {}

    @abstractmethod
    def on_set(self, result: Any, name: str) -> float:
        """A model's score on a set."""

    @abstractmethod
    def on_draws(self, result: Any, name: str) -> Array:
        """[R] The same on every draw of the set's sentences."""

    @abstractmethod
    def number(self, result: Any, name: str) -> int:
        """How many sentences of the set are scored."""

    def value(self, result: Any, name: str) -> float:
        """The score on a set, or the mean over the sets."""
        names = self.names if name == self.whole else [name]
        return float(np.mean([self.on_set(result, set_name) for set_name in names]))

    def drawn(self, result: Any, name: str) -> Array:
        """[R] As `value`, on every draw."""
        key = (result.label, result.layer, name)
        if key not in self._drawn:
            whole = name == self.whole
            draws = [self.drawn(result, set_name) for set_name in self.names] if whole else []
            self._drawn[key] = np.mean(draws, axis=0) if whole else self.on_draws(result, name)
        return self._drawn[key]

    def interval(self, result: Any, name: str) -> tuple[float, float] | tuple[None, None]:
        """Return the bounds of the 95 % interval; of very few sentences None."""
        if self._are_few(result, name):
            return None, None
        return interval(self.drawn(result, name))

    def bounds(self, result: Any, name: str) -> str:
        """Show the 95 % interval."""
        low, high = self.interval(result, name)
        return numbers.between(low, high, 1) or numbers.ABSENT

    def _are_few(self, result: Any, name: str) -> bool:
        names = self.names if name == self.whole else [name]
        return min(self.number(result, set_name) for set_name in names) < FEWEST_BLOCKS

    def difference(self, first: Any, other: Any, name: str) -> Difference:
        """How much higher `other` scores; of very few sentences without interval and p."""
        gain = self.value(other, name) - self.value(first, name)
        few = self._are_few(first, name)
        gains_R = self.drawn(other, name) - self.drawn(first, name)
        return self.resampling.difference({(0,): gain}, None if few else gains_R[:, None])

    def differences(self, first: Any, others: Sequence[Any], kind: str, title: str) -> Table:
        """Each other one less the first, on every set (which is a `kind`) and their mean."""
        rows, notes = [], list[str]()
        for name in self.columns:
            for other in others:
                gain = self.difference(first, other, name)
                bounds = numbers.between(gain.low, gain.high, 1, sign=True) or numbers.ABSENT
                if gain.p is None:
                    notes = [f"Fewer than {FEWEST_BLOCKS} sentences give neither interval nor p."]
                p = numbers.ABSENT if gain.p is None else f"{gain.p:.4f}"
                rows.append((name, other.label, numbers.signed(gain.value, 1), bounds, p))
        head = (Column(kind, "text"), Column("model", "text"), "points", "95 % interval", "p")
        return table(f"Less {first.label} ({title})", head, rows, notes)


def as_table(
    title: str,
    heads: Sequence[str],
    curves: Sequence[tuple[Sequence[str], Curve]],
    best: Best,
    notes: Sequence[str] = (),
) -> Table:
    """A row a curve, its best layer marked.

    Args:
        title: of the table.
        heads: over the names.
        curves: each with its names, one for each head.
        best: max or min.
        notes: beneath it.
    """
    layers = sorted({layer for _, curve in curves for layer in curve})
    rows = []
    for names, curve in curves:
        first = best(curve.values())
        cells = [
            Cell(numbers.fixed(curve[layer], 1), rank=BEST if curve[layer] == first else 0)
            if layer in curve
            else Cell(numbers.ABSENT)
            for layer in layers
        ]
        rows.append(row(*names, *cells))
    columns: list[str | Column] = [Column(head, "text") for head in heads]
    columns += map(str, layers)
    return table(title, columns, rows, notes)


def as_figure(
    name: str, curves: Mapping[str, Curve], axis: str, caption: str, levels: Mapping[str, float]
) -> Figure:
    """Draw a line a curve.

    Args:
        name: of the file.
        curves: by the names of the legend.
        axis: what is on the y axis.
        caption: what the figure shows.
        levels: what has no layers, as flat lines.
    """
    drawn = [
        Line(label, list(curve), list(curve.values()), index)
        for index, (label, curve) in enumerate(curves.items())
    ]
    axes, flat = ("layer (0: embeddings)", axis), tuple(levels.items())
    return Figure(name, axes, drawn, caption, caption, flat, from_nothing=True)
