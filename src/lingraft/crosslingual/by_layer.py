"""Tables and the figure of models that are scored at every layer, made of their rows. No torch."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report import numbers
from lingraft.report.figure import Figure, Line
from lingraft.report.scored import percent, replicates, shared_blocks
from lingraft.report.table import BEST, Cell, Column, row, table
from lingraft.stats import FEWEST_BLOCKS, interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.report.row import Score
    from lingraft.report.table import Table
    from lingraft.stats import Array, Difference, Resampling

    Curve = Mapping[int, float]
    "Percent by layer."
    Place = tuple[str, int | None]
    "A model and its layer; None for what has none."

WHOLE = "mean"
"""What the mean over the sets is called."""


class Reading:
    """How rows of one metric are read.

    Args:
        rows: every layer of every model on every set; those of the layer that is shown are
            reported. Several of one layer and set (directions) count by their mean.
        resampling: of the blocks of a set, the same for all models.
        lower: whether lower is better.
    """

    def __init__(self, rows: Iterable[Score], resampling: Resampling, *, lower: bool) -> None:
        self.resampling, self.lower = resampling, lower
        self.rows: dict[tuple[Place, str], list[Score]] = {}
        self.chosen: dict[str, Place] = {}
        for one in rows:
            layer = one.axes.get("layer")
            place = (one.model, layer if isinstance(layer, int) else None)
            name = str(one.axes.get("language") or one.data)
            self.rows.setdefault((place, name), []).append(one)
            if one.reported:
                self.chosen[one.model] = place
        self.names = list(dict.fromkeys(name for _, name in self.rows))
        self.columns = [*self.names, *([WHOLE] if len(self.names) > 1 else [])]
        self.layers = sorted({p[1] for p, _ in self.rows if p[1] is not None})
        self._drawn: dict[tuple[Place, str], Array | None] = {}

    def value(self, place: Place, name: str) -> float:
        """Return the score on a set, or the mean over the sets."""
        if name == WHOLE:
            return fmean(self.value(place, one) for one in self.names)
        return fmean(one.value for one in self.rows[place, name])

    def drawn(self, place: Place, name: str) -> Array | None:
        """[R] Return the same on every draw; None where a set has few blocks."""
        if (place, name) not in self._drawn:
            parts: list[Array | None] = []
            if name == WHOLE:
                parts = [self.drawn(place, one) for one in self.names]
            elif (used_B := shared_blocks(self.rows[place, name])) is not None:
                drawn_RS = replicates(self.rows[place, name], percent, used_B, self.resampling)
                parts = [drawn_RS.mean(1)]
            known = [part for part in parts if part is not None]
            whole = len(known) == len(parts) > 0
            self._drawn[place, name] = np.mean(known, axis=0) if whole else None
        return self._drawn[place, name]

    def difference(self, first: Place, other: Place, name: str) -> Difference:
        """Return how much higher `other` scores; of few sentences without interval and p."""
        gain = self.value(other, name) - self.value(first, name)
        ours, theirs = self.drawn(other, name), self.drawn(first, name)
        gains_R = None if ours is None or theirs is None else (ours - theirs)[:, None]
        return self.resampling.difference({(0,): gain}, gains_R)

    # -- tables

    def main(self, title: str, notes: Sequence[str]) -> Table:
        """Return sets × models at their layers, with intervals; the best of a set is marked."""
        best = min if self.lower else max
        rows = []
        for name in self.columns:
            values = {place: self.value(place, name) for place in self.chosen.values()}
            cells = []
            for place, value in values.items():
                drawn_R = self.drawn(place, name)
                low, high = (None, None) if drawn_R is None else interval(drawn_R)
                rank = BEST if len(values) > 1 and value == best(values.values()) else 0
                cells.append(Cell(numbers.fixed(value, 1), numbers.between(low, high, 1), rank))
            of_set = self.rows.get((next(iter(values)), name), [])
            count = numbers.count(of_set[0].n if of_set else None)
            role = "total" if name == WHOLE else ""
            rows.append(row(name, count, *cells, role=role))  # type: ignore[arg-type]
        heads: list[str | Column] = [
            Column(label, under="" if layer is None else f"layer {layer}")
            for label, layer in self.chosen.values()
        ]
        return table(title, [Column("set", "text"), "n", *heads], rows, notes)

    def differences(self, title: str, reference: str | None = None) -> Table | None:
        """Return each model less the reference, or the first one; None for a single model."""
        first = self.chosen.get(reference or "") or next(iter(self.chosen.values()))
        rows, notes = [], list[str]()
        for name in self.columns:
            for other in (place for place in self.chosen.values() if place != first):
                gain = self.difference(first, other, name)
                bounds = numbers.between(gain.low, gain.high, 1, sign=True) or numbers.ABSENT
                if gain.p is None:
                    notes = [f"Fewer than {FEWEST_BLOCKS} sentences give neither interval nor p."]
                p = numbers.ABSENT if gain.p is None else numbers.probability(gain.p)
                rows.append(row(name, other[0], numbers.signed(gain.value, 1), bounds, p))
        heads = (Column("set", "text"), Column("model", "text"), "difference", "95 % interval", "p")
        return table(f"Less {first[0]}: {title}", heads, rows, notes) if rows else None

    def by_layer(self, title: str) -> Table | None:
        """Return every model and set by layer, the best of a row marked; None for one layer."""
        rows = []
        for label in self.chosen if len(self.layers) > 1 else ():
            for name in self.columns:
                if curve := self.curve(label, name):
                    best = (min if self.lower else max)(curve.values())
                    cells = [
                        Cell(numbers.fixed(curve.get(at), 1), rank=BEST * (curve.get(at) == best))
                        for at in self.layers
                    ]
                    rows.append(row(label, name, *cells))
        heads = [
            *(Column(of, "text") for of in ("model", "set")),
            *map(Column, map(str, self.layers)),
        ]
        note = "The best layer of each row is marked; it is the best on these very sentences."
        return table(title, heads, rows, [note]) if rows else None

    def curve(self, label: str, name: str) -> dict[int, float]:
        """Return a model's scores by layer."""
        return {
            layer: self.value((label, layer), name)
            for layer in self.layers
            if ((label, layer), self.names[0]) in self.rows
        }

    def figure(self, name: str, axis: str, caption: str) -> Figure | None:
        """Draw the mean over the sets, a line a model; None where no model has several layers."""
        whole = self.columns[-1]
        curves = {label: of for label in self.chosen if (of := self.curve(label, whole))}
        levels = {
            label: self.value(place, whole)
            for label, place in self.chosen.items()
            if place[1] is None
        }
        several = any(len(of) > 1 for of in curves.values())
        return as_figure(name, curves, axis, caption, levels) if several else None


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
