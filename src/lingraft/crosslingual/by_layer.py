"""Curves over a model's layers, as a table and as a figure. No torch here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from lingraft.report import figure, numbers
from lingraft.report.figure import Figure
from lingraft.report.panels import in_order
from lingraft.report.table import BEST, Cell, Column, row, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lingraft.report.table import Table

    Curve = Mapping[int, float]
    """Percent by layer."""
    Best = Callable[[Iterable[float]], float]


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
    name: str,
    curves: Mapping[str, Curve],
    axis: str,
    best: Best,
    captions: tuple[str, str],
    *,
    levels: Mapping[str, float] | None = None,
    bottom: float | None = None,
) -> Figure:
    """A line a curve.

    Args:
        name: of the file.
        curves: by the names of the legend.
        axis: what is on the y axis.
        best: max or min.
        captions: what the figure shows, and what the caption says more.
        levels: what has no layers, as flat lines.
        bottom: where the y axis begins; None leaves it to the values.
    """

    def draw(axes: Axes, form: str) -> None:
        for index, curve in enumerate(curves.values()):
            figure.line(axes, list(curve), list(curve.values()), index, marker="o", markersize=3)
        for label, value in (levels or {}).items():
            figure.level(axes, value, label)
        axes.set_xlabel("layer (0: embeddings)")
        axes.set_ylabel(axis)
        if bottom is not None:
            axes.set_ylim(bottom=bottom)
        axes.xaxis.set_major_locator(MaxNLocator(6 if form == "narrow" else 13, integer=True))

    peaks = "; ".join(_peak(label, curve, best) for label, curve in curves.items())
    names = tuple((label, index) for index, label in enumerate(curves))
    return Figure(
        name=name,
        draw=draw,
        names=names,
        panels=in_order(names),
        description=f"{captions[0]}. {peaks}",
        caption=f"{captions[0]}{captions[1]}",
    )


def _peak(label: str, curve: Curve, best: Best) -> str:
    value = best(curve.values())
    layer = next(layer for layer, own in curve.items() if own == value)
    return f"{label}: {value:.1f} % at layer {layer}"
