"""Small multiples: a figure of many lines in panels side by side.

In each panel its own lines are drawn in colour, and all others thin and grey behind them, so that
every panel shows the whole at one scale (Tufte, Envisioning Information, 1990, chapter 4). A panel
has its own legend.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from matplotlib.figure import Figure as MatplotlibFigure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    Names = Sequence[tuple[str, int]]

MOST = 6
"""Lines of a figure; one of more is drawn in panels."""
PANEL = {"wide": (2, 2.0), "narrow": (1, 1.6)}
"""Panels side by side, and inches that the axes of each are high."""
LEFT, RIGHT, ABOVE, BELOW, BETWEEN, FOOT = 0.7, 0.15, 0.04, 0.18, 0.3, 0.3
"""Inches left, right and above all panels, below each, between two, and for labels at the foot."""
ROW = 0.15
"""Inches that a line of a panel's legend takes."""
SAMPLE, LETTER = 0.45, 0.055
"""Inches that a line's sample takes with the room about it, and a letter at most on average."""


@dataclass(frozen=True)
class Panel:
    """The lines that one panel shows in colour."""

    title: str
    names: tuple[tuple[str, int], ...]
    """Models as the panel's legend calls them, and the index of each in the figure."""


_coloured: WeakKeyDictionary[Axes, dict[int, int]] = WeakKeyDictionary()


def look(axes: Axes, index: int) -> int | None:
    """The index whose colour and dash a model has in these axes; None where it stands behind."""
    return _coloured[axes].get(index) if axes in _coloured else index


def in_order(names: Names, always: str | None = None) -> tuple[Panel, ...]:
    """Panels of models one after another; none where one figure holds them all.

    Args:
        names: models and their indices.
        always: a model that stands in every panel, for comparison.
    """
    if len(names) <= MOST:
        return ()
    again = [pair for pair in names if pair[0] == always]
    rest = [pair for pair in names if pair[0] != always]
    count = -(-len(rest) // (MOST - len(again)))
    size = -(-len(rest) // count)
    parts = (rest[start : start + size] for start in range(0, len(rest), size))
    return tuple(Panel("", (*again, *part)) for part in parts)


def drawing(
    panels: Sequence[Panel],
    form: str,
    width: float,
    draw: Callable[[Axes, str], None],
    legend: Callable[..., None],
) -> MatplotlibFigure:
    """All panels in one figure, at the same scale.

    Args:
        panels: in the order of reading.
        form: 'wide' or 'narrow'.
        width: of the figure in inches.
        draw: fills the axes of one panel with all lines; a panel is 'narrow' in both forms.
        legend: puts a panel's names into the figure: told the figure, the names, and options of
            matplotlib's legend.
    """
    columns, high = PANEL[form]
    wide = (width - LEFT - RIGHT - BETWEEN * (columns - 1)) / columns
    wrapped = [_wrapped(panel, int((wide - SAMPLE) / LETTER)) for panel in panels]
    rows = [wrapped[at : at + columns] for at in range(0, len(panels), columns)]
    heads = [ROW * max(map(_lines, row)) + 0.08 for row in rows]
    tall = ABOVE + sum(heads) + len(rows) * (high + BELOW) + FOOT
    figure = MatplotlibFigure(figsize=(width, tall))
    figure.patch.set_visible(False)
    top = tall - ABOVE
    for row, head in zip(rows, heads, strict=True):
        for column, panel in enumerate(row):
            left = LEFT + column * (wide + BETWEEN)
            box = (left / width, (top - head - high) / tall, wide / width, high / tall)
            axes = figure.add_axes(box)
            axes.patch.set_visible(False)
            _coloured[axes] = {index: place for place, (_, index) in enumerate(panel.names)}
            draw(axes, "narrow")
            local = [(name, place) for place, (name, _) in enumerate(panel.names)]
            anchor = (left / width, top / tall)
            legend(figure, local, title=panel.title, bbox_to_anchor=anchor,
                   fontsize=8, title_fontsize=8.5)  # fmt: skip
        top -= head + high + BELOW
    _one_scale(figure.axes, columns)
    return figure


def _wrapped(panel: Panel, letters: int) -> Panel:
    names = ((textwrap.fill(name, letters), index) for name, index in panel.names)
    return Panel(textwrap.fill(panel.title, letters + 4), tuple(names))


def _lines(panel: Panel) -> int:
    """Of a panel's head."""
    texts = [panel.title, *(name for name, _ in panel.names)]
    return sum(text.count("\n") + 1 for text in texts if text)


def _one_scale(panels: Sequence[Axes], columns: int) -> None:
    """The same limits everywhere; labels on the left and at the foot alone."""
    for limits in ("xlim", "ylim"):
        ends = [getattr(axes, f"get_{limits}")() for axes in panels]
        for axes in panels:
            getattr(axes, f"set_{limits}")(min(low for low, _ in ends), max(top for _, top in ends))
    for place, axes in enumerate(panels):
        if place % columns:
            axes.yaxis.label.set_visible(False)
            axes.tick_params(axis="y", labelleft=False)
        if place + columns < len(panels):
            axes.xaxis.label.set_visible(False)
            axes.tick_params(axis="x", labelbottom=False)
