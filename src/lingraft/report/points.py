"""The numbers of a figure: what the pointer is told, and its CSV.

Whatever draws into axes notes its numbers here, so no figure has to be told twice what it shows.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote
from weakref import WeakKeyDictionary

from lingraft.report import numbers
from lingraft.report.table import comma_separated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

X, Y = "x", "y"
"""Columns that are called as the axes are."""
MOST = 240
"""Places of a figure that answer the pointer; of more, every second (third, …) one does."""
RADIUS = 6
"""Of such a place, in points."""
LONG = 10_000
"""From here on a number is shortened where the pointer asks for it."""


@dataclass(frozen=True)
class Point:
    """A number that a figure shows."""

    at: tuple[float, float]
    """Where it stands, in the numbers of the axes."""
    index: int | None
    """Of the model in the legend; None where there is none."""
    what: str
    """Which of the model's lines, or what else it is of."""
    cells: Mapping[str, object]
    """By column."""


_noted: WeakKeyDictionary[Axes, list[Point]] = WeakKeyDictionary()


def note(
    axes: Axes, at: tuple[float, float], index: int | None, what: str = "", **cells: object
) -> None:
    """Say that a number stands somewhere in the axes; arguments as in `Point`."""
    if all(map(math.isfinite, at)):
        _noted.setdefault(axes, []).append(Point(at, index, what, cells))


def rows(axes: Axes, names: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    """All that was noted, in order: a row a number, its columns called as the axes are.

    Args:
        axes: drawn and labelled.
        names: of the legend, with their indices.
    """
    titles = {X: axes.get_xlabel() or X, Y: axes.get_ylabel() or Y}
    by_index = {index: name for name, index in names}
    records = []
    for point in _noted.get(axes, ()):
        name = by_index.get(point.index, "") if point.index is not None else ""
        line = ", ".join(filter(None, [name, point.what]))
        cells = {titles.get(key, key): value for key, value in point.cells.items()}
        records.append(({"line": line} if line else {}) | cells)
    return records


def as_link(records: Sequence[Mapping[str, object]]) -> str:
    """A CSV file of such rows as an address that holds the file itself."""
    head = list(dict.fromkeys(key for row in records for key in row))
    text = comma_separated(head, ([_exact(row.get(key)) for key in head] for row in records))
    return f"data:text/csv;charset=utf-8,{quote(text)}"


def hover(
    axes: Axes, records: Sequence[Mapping[str, object]], height: float, most: int = MOST
) -> str:
    """SVG that tells the numbers under the pointer, to stand last in the figure.

    Args:
        axes: whose limits do not change any more.
        records: their `rows`.
        height: of the figure, in points.
        most: places that answer.
    """
    noted = _noted.get(axes, ())
    step = max(1, -(-len(noted) // most))
    scale = 72 / axes.figure.dpi
    places = []
    low, top = axes.get_ylim()
    for point, row in list(zip(noted, records, strict=True))[::step]:
        if not low <= point.at[1] <= top:
            continue
        x, y = axes.transData.transform(point.at) * scale
        text = "\n".join(f"{key}: {_short(value)}" for key, value in row.items() if value != "")
        title = f"<title>{html.escape(text)}</title>"
        places.append(f'<circle cx="{x:.1f}" cy="{height - y:.1f}" r="{RADIUS}">{title}</circle>')
    return f'<g class="hover">{"".join(places)}</g>' if places else ""


def _exact(value: object) -> object:
    return f"{value:.8g}" if isinstance(value, float) else value


def _short(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return numbers.short(value) if abs(value) >= LONG else f"{value:.4g}"
