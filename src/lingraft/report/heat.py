"""A heat map with its values in it, and bars with their spread, as figures of the house."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib import colormaps
from matplotlib.colors import Normalize, to_hex
from matplotlib.patches import Rectangle

from lingraft.report import figure, numbers, points
from lingraft.report.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

ROW = 0.38
"""Inches of a row of a heat map."""
AROUND = 1.2
"""Inches above and below its rows, for labels."""
LIGHT, DARK = "#ffffff", "#1b1f24"
"""Ink on dark and on light fields, whatever the page's colours are."""
RANGE = (0.08, 0.85)
"""Of the colour map, so that the ink can be read on both ends."""
COLOURS = "Blues"
ROOM = 0.8
"""Share of a group's place that its bars take."""


def heat_map(
    name: str,
    values: Mapping[tuple[str, str], float],
    rows: Sequence[str],
    columns: Sequence[str],
    scale: tuple[float, float],
    *,
    axes_of: tuple[str, str],
    description: str,
    caption: str,
) -> Figure:
    """A figure with a field a value; fields of equal row and column have a frame.

    Args:
        name: of the figure, unique on its page.
        values: by row and column; a field without one stays empty.
        rows: from the top.
        columns: from the left.
        scale: lowest and highest value of the colours, the same for figures that compare.
        axes_of: what rows and columns are.
        description: for readers who do not see it.
        caption: beneath.
    """
    norm, colours = Normalize(*scale), colormaps[COLOURS]

    def draw(axes: Axes, form: str) -> None:
        size = 9.0 if max(len(columns), 1) <= (8 if form == "narrow" else 16) else 5.5
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                value = values.get((row, column))
                if value is None:
                    continue
                share = float(norm(value)) if scale[1] > scale[0] else 0.5
                field = to_hex(colours(RANGE[0] + share * (RANGE[1] - RANGE[0])))
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=field, linewidth=0))
                points.note(axes, (x, y), None, x=column, y=row, value=value)
                axes.text(
                    x, y, numbers.fixed(value, 1), ha="center", va="center", fontsize=size,
                    color=LIGHT if share > 0.55 else DARK,
                )  # fmt: skip
        for x, y in [(columns.index(row), y) for y, row in enumerate(rows) if row in columns]:
            frame: dict[str, Any] = {"facecolor": "none", "edgecolor": figure.INK, "linewidth": 1.8}
            axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, **frame))
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_ylabel(axes_of[0])
        axes.set_xlabel(axes_of[1])
        axes.grid(visible=False)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)

    height = (AROUND + ROW * len(rows)) / figure.SIZES["wide"][1]
    return Figure(name, draw, (), description, caption, height)


def bars(
    name: str,
    values: Mapping[tuple[str, str], tuple[float, float | None]],
    groups: Sequence[str],
    models: Sequence[str],
    *,
    axis: str,
    description: str,
    caption: str,
) -> Figure:
    """Bars side by side, one a model, in groups.

    Args:
        name: of the figure, unique on its page.
        values: (group, model) → value and its deviation.
        groups: from the left.
        models: in the order of their colours.
        axis: what the values are.
        description: for readers who do not see it.
        caption: beneath.
    """
    width = ROOM / max(1, len(models))

    def draw(axes: Axes, form: str) -> None:
        for index, model in enumerate(models):
            for at, group in enumerate(groups):
                if (bar := values.get((group, model))) is None:
                    continue
                value, deviation = bar
                x = at + (index - (len(models) - 1) / 2) * width
                colour = figure.colour(index)
                axes.bar(x, value, width * 0.92, color=colour, linewidth=0)
                spread = {} if deviation is None else {"±": deviation}
                points.note(axes, (x, value), index, group, y=value, **spread)
                if deviation:
                    axes.errorbar(x, value, deviation, ecolor=figure.INK, elinewidth=1, capsize=2)
        axes.axhline(0, color=figure.FAINT, linewidth=0.8)
        axes.set_xticks(range(len(groups)), groups, rotation=0 if len(groups) < 5 else 30)
        axes.set_xlim(-0.5, len(groups) - 0.5)
        axes.set_ylabel(axis)

    names = tuple((model, index) for index, model in enumerate(models))
    return Figure(name, draw, names, description, caption, 0.8)
