"""Rows, tables and the figure of models that are scored at every layer. No torch."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lingraft.files import write_text
from lingraft.report import numbers
from lingraft.report.figure import Figure, Series
from lingraft.report.row import RESULTS, write
from lingraft.report.scored import percent, replicates, shared_blocks
from lingraft.report.table import BEST, Column, TableCell, markdown, row, table
from lingraft.stats import FEWEST_BLOCKS, Resampling, interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.report.row import Score
    from lingraft.report.table import Table
    from lingraft.stats import Array, Difference

    Curve = Mapping[int, float]
    "Percent by layer."
    Place = tuple[str, int | None]
    "A model and its layer; None for what has none."

WHOLE = "mean"
"""Name of the mean over the sets."""


class LayerScores:
    """Scores of one metric by model, layer and set.

    Args:
        rows: every layer of every model on every set; those of the layer that is shown are
            reported. Several of one layer and set (directions) count by their mean.
        lower: whether lower is better.
    """

    def __init__(self, rows: Iterable[Score], *, lower: bool) -> None:
        self.resampling, self.best = Resampling(), min if lower else max
        self.rows: dict[tuple[Place, str], list[Score]] = {}
        self.chosen: dict[str, Place] = {}
        for score in rows:
            layer = score.axes.get("layer")
            place = (score.model, layer if isinstance(layer, int) else None)
            name = str(score.axes.get("language") or score.data)
            self.rows.setdefault((place, name), []).append(score)
            if score.reported:
                self.chosen[score.model] = place
        self.names = list(dict.fromkeys(name for _, name in self.rows))
        self.columns = [*self.names, *([WHOLE] if len(self.names) > 1 else [])]
        self.layers = sorted({p[1] for p, _ in self.rows if p[1] is not None})

    def value(self, place: Place, name: str) -> float:
        """Return the score on a set, or the mean over the sets."""
        if name == WHOLE:
            return fmean(self.value(place, of_set) for of_set in self.names)
        return fmean(score.value for score in self.rows[place, name])

    def drawn(self, place: Place, name: str) -> Array | None:
        """[R] Return the same on every draw of the blocks; None where a set has few."""
        if name == WHOLE:
            parts = [self.drawn(place, of_set) for of_set in self.names]
            known = [part for part in parts if part is not None]
            return np.mean(known, axis=0) if len(known) == len(parts) else None
        used_B = shared_blocks(self.rows[place, name])
        if used_B is None:
            return None
        return replicates(self.rows[place, name], percent, used_B, self.resampling).mean(1)

    def difference(self, first: Place, other: Place, name: str) -> Difference:
        """Return how much higher `other` scores; of few sentences without interval and p."""
        gain = self.value(other, name) - self.value(first, name)
        ours, theirs = self.drawn(other, name), self.drawn(first, name)
        gains_R = None if ours is None or theirs is None else (ours - theirs)[:, None]
        return self.resampling.difference({(0,): gain}, gains_R)

    def curve(self, label: str, name: str) -> dict[int, float]:
        """Return a model's scores by layer."""
        return {
            layer: self.value((label, layer), name)
            for layer in self.layers
            if ((label, layer), self.names[0]) in self.rows
        }

    # -- tables

    def main(self, title: str, notes: Sequence[str]) -> Table:
        """Return sets × models at their layers, with intervals; the best of a set is marked."""
        rows = []
        for name in self.columns:
            values = {place: self.value(place, name) for place in self.chosen.values()}
            cells = []
            for place, value in values.items():
                drawn_R = self.drawn(place, name)
                low, high = (None, None) if drawn_R is None else interval(drawn_R)
                rank = BEST * (len(values) > 1 and value == self.best(values.values()))
                cells.append(
                    TableCell(numbers.fixed(value, 1), numbers.between(low, high, 1), rank)
                )
            of_set = self.rows.get((next(iter(values)), name), [])
            count = numbers.count(of_set[0].n if of_set else None)
            rows.append(row(name, count, *cells, role="total" if name == WHOLE else ""))
        heads = [
            Column(label, under="" if layer is None else f"layer {layer}")
            for label, layer in self.chosen.values()
        ]
        return table(title, [Column("set", "text"), "n", *heads], rows, notes)

    def differences(self, title: str) -> Table | None:
        """Return each model less the first one; None for a single model."""
        first, *others = self.chosen.values()
        rows = []
        for name in self.columns:
            for other in others:
                gain = self.difference(first, other, name)
                bounds = numbers.between(gain.low, gain.high, 1, sign=True) or numbers.ABSENT
                p = numbers.ABSENT if gain.p is None else numbers.probability(gain.p)
                rows.append(row(name, other[0], numbers.signed(gain.value, 1), bounds, p))
        heads = (Column("set", "text"), Column("model", "text"), "difference", "95 % interval", "p")
        note = f"Paired bootstrap; fewer than {FEWEST_BLOCKS} sentences give neither interval nor p"
        return table(f"{title}, less {first[0]}", heads, rows, [f"{note}."]) if rows else None

    def by_layer(self, title: str) -> Table | None:
        """Return every model and set by layer, the best of a row marked; None for one layer."""
        rows = []
        for label in self.chosen if len(self.layers) > 1 else ():
            for name in self.columns:
                if curve := self.curve(label, name):
                    best = self.best(curve.values())
                    cells = [
                        TableCell(
                            numbers.fixed(curve.get(at), 1), rank=BEST * (curve.get(at) == best)
                        )
                        for at in self.layers
                    ]
                    rows.append(row(label, name, *cells))
        text = [Column(name, "text") for name in ("model", "set")]
        heads = [*text, *(Column(str(layer)) for layer in self.layers)]
        note = "The best layer of each row is marked; it is the best on these very sentences."
        return table(f"{title}, by layer (0: embeddings)", heads, rows, [note]) if rows else None


def write_report(
    out: Path,
    scores: Sequence[Score],
    metric: str,
    title: str,
    notes: Sequence[str],
    *,
    lower: bool = False,
) -> list[Table]:
    """Write results.jsonl, table.md and curve.svg, and return the tables.

    Args:
        out: the folder.
        scores: rows of `Reading`, also of further metrics.
        metric: which of them is shown.
        title: of the metric.
        notes: under the first table.
        lower: whether lower is better.
    """
    reading = LayerScores((score for score in scores if score.metric == metric), lower=lower)
    made = (reading.main(title, notes), reading.differences(title), reading.by_layer(title))
    tables = [shown for shown in made if shown is not None]
    texts = (f"## {shown.title}\n\n{markdown(shown)}\n" for shown in tables)
    write_text(out / "table.md", "\n".join(texts))
    if len(reading.layers) > 1:
        whole = reading.columns[-1]
        curves = {label: of for label in reading.chosen if (of := reading.curve(label, whole))}
        flat = {p[0]: reading.value(p, whole) for p in reading.chosen.values() if p[1] is None}
        caption = f"{title} by layer, mean over {', '.join(reading.names)}."
        write_text(out / "curve.svg", as_figure("curve", curves, title, caption, flat).svg)
    write(out / RESULTS, scores)
    return tables


def as_figure(
    name: str,
    curves: Mapping[str, Mapping[int, float]],
    axis: str,
    caption: str,
    levels: Mapping[str, float],
) -> Figure:
    """Draw a line a model over its layers.

    Args:
        name: of the file.
        curves: values by layer, by the names of the legend.
        axis: what is on the y axis.
        caption: what the figure shows.
        levels: what has no layers, as flat lines.
    """
    drawn = [
        Series(label, list(curve), list(curve.values()), index)
        for index, (label, curve) in enumerate(curves.items())
    ]
    axes = ("layer (0: embeddings)", axis)
    return Figure(name, axes, drawn, caption, tuple(levels.items()), from_nothing=True)
