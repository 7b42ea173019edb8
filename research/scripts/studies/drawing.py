"""Figures of studies as SVG files, with panels where lines are many; light and dark read well.

Nothing random and no date goes in: equal data, equal bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lingraft.report import figure as figure_style, numbers
from studies import small_multiples as panels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from matplotlib.axes import Axes

    from studies.small_multiples import Panel

    Points = Sequence[float] | np.ndarray[Any, Any]

N_COLOURS = 6
"""The style sheet defines --c0 … --c5; further models reuse them with another dash."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
STAND_INS = {f"#0000f{index}": f"var(--c{index})" for index in range(N_COLOURS)} | {
    "#0000e0": "currentColor",
    "#0000e1": "var(--faint)",
}
"""Colours that matplotlib is given, and what they become in the page."""
INK, FAINT = "#0000e0", "#0000e1"
PALETTE = {
    "light": "#1b1f24 #818b98 #0b5cad #b5451b #1a7f4e #8250a8 #8a6100 #0f7b8a",
    "dark": "#e6e8ea #7d8590 #6cb0f5 #f0936a #5fc98f #c39be6 #dcb255 #5cc6d4",
}
"""Ink, --faint and --c0 … of style.css, for figures in files of their own."""
SIZES = {"wide": (6.9, 3.7), "narrow": (3.4, 2.9)}
"""Inches: one for wide pages, one for phones; each is shown at its own size."""
MARGINS = (0.7, 0.2, 0.5, 0.25)
"""Inches left, right, below and above the axes, for their labels."""
BAND = 0.16
"""Opacity of the spread over the seeds."""
BEHIND = 0.6
"""Opacity of the lines that belong to other panels."""
LEGEND_ROW = 0.2
"""Inches that a row of the legend takes in a file of its own."""
LEGEND_SAMPLE, LEGEND_LETTER = 0.55, 0.06
"""Inches that a line's sample takes with the room about it, and a letter at most on average."""
LEGEND_WIDE_LETTER = 0.07
"""Inches for a letter that is safe for every name; names that do not fit are written smaller."""
OWN_COLOURS = {figure_style.INK: INK, figure_style.FAINT: FAINT}
RC: dict[Any, Any] = {
    key: OWN_COLOURS.get(value, value) for key, value in figure_style.RC.items()
} | {"svg.hashsalt": "lingraft", "font.size": 9.0, "grid.linewidth": 0.6}


@dataclass(frozen=True)
class Figure:
    """A figure before it is drawn, for a page or for a file of its own."""

    name: str
    """Of the file, and unique on the page."""
    draw: Callable[[Axes, str], None]
    """Fills the axes; it is told the size, 'wide' or 'narrow'."""
    names: tuple[tuple[str, int], ...]
    """Models and the index of each, which decides colour and dash; those of the legend."""
    description: str
    """For readers who do not see it."""
    caption: str
    height: float = 1.0
    """Share of the size's full height."""
    panels: tuple[Panel, ...] = ()
    """Where they are too many to be told apart in one."""

    def alone(self) -> str:
        """A file of its own, wide, with the legend above the axes."""
        return _finished(_svg(self)) + "\n"


def _dash(index: int) -> int:
    """Which of DASHES the model with this index has."""
    return (index // N_COLOURS + index) % len(DASHES)


def colour(index: int) -> str:
    """The stand-in for the colour of the model with this index."""
    return f"#0000f{index % N_COLOURS}"


def line(
    axes: Axes,
    x: Points,
    y: Points,
    index: int,
    *,
    spread: tuple[Points, Points] | None = None,
    **style: Any,
) -> None:
    """A line in the colour and the dash of the model with this index; grey in others' panels.

    Args:
        axes: to draw into.
        x: of its points.
        y: of its points.
        index: of the model.
        spread: the lowest and the highest seed at every point, as a band.
        style: of the line.
    """
    own = panels.look(axes, index)
    if len(x) == 1:  # a line of one point is none
        style = {"marker": "o", "markersize": 3} | style
    if own is None:
        marks = {"marker": style["marker"], "markersize": 2} if "marker" in style else {}
        axes.plot(x, y, color=FAINT, linewidth=0.6, alpha=BEHIND, zorder=1, **marks)
        return
    look: dict[str, Any] = {"linestyle": DASHES[_dash(own)], "linewidth": 1.7} | style
    if spread is not None:
        axes.fill_between(x, *spread, color=colour(own), alpha=BAND, linewidth=0)
    axes.plot(x, y, color=colour(own), **look)


def upright(axes: Axes, x: float, index: int) -> None:
    """Where a phase of a model begins."""
    own = panels.look(axes, index)
    if own is not None:
        axes.axvline(x, color=colour(own), linewidth=0.9, linestyle=(0, (2, 2)))


def tokens_axis(axes: Axes, form: str) -> None:
    """Tokens along the foot, from 0."""
    axes.set_xlabel("tokens")
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.xaxis.set_major_locator(MaxNLocator(5 if form == "narrow" else 8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(value)))


def level(axes: Axes, value: float, text: str = "unigram entropy") -> None:
    """What needs no training, such as a model that knows nothing but token frequencies."""
    axes.axhline(value, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
    axes.annotate(
        text, (1, value), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", fontsize=8,
    )  # fmt: skip


def _style() -> str:
    rules = []
    for palette in PALETTE.values():
        ink, faint, *colours = palette.split()
        names = "".join(f"--c{index}:{value};" for index, value in enumerate(colours))
        rules.append(f"svg{{color:{ink};--faint:{faint};{names}}}")
    light, dark = rules
    return (
        "<style>text{font-family:system-ui,sans-serif}*{stroke-linejoin:round;stroke-linecap:butt}"
        f"{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"
    )


def _svg(plot: Figure) -> str:
    """A file without prologue, with a style of its own."""
    with mpl.rc_context(RC):
        figure = _drawing(plot, "wide")
        FigureCanvasSVG(figure)
        buffer = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata)
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"<style type=\"text/css\">.*?</style>", _style(), svg, count=1, flags=re.DOTALL)


def _drawing(plot: Figure, form: str) -> MatplotlibFigure:
    """The figure in the colours of STAND_INS, its legend above the axes; panels have theirs."""
    width, full = SIZES[form]
    if plot.panels:
        return panels.drawing(plot.panels, form, width, plot.draw, _legend)
    names = plot.names
    columns = _columns(width, [name for name, _ in names])
    above = LEGEND_ROW * -(-len(names) // columns) if columns else 0.0
    tall = full * plot.height + above
    figure = MatplotlibFigure(figsize=(width, tall))
    figure.patch.set_visible(False)
    axes = figure.add_axes(_inside(width, tall, above))
    axes.patch.set_visible(False)
    plot.draw(axes, form)
    if names:
        anchor = (MARGINS[0] / width, 1)
        letters = _letters(width, [name for name, _ in names])
        _legend(figure, names, ncols=columns, bbox_to_anchor=anchor, columnspacing=1.6,
                fontsize=letters)  # fmt: skip
    return figure


def _legend(figure: MatplotlibFigure, names: Sequence[tuple[str, int]], **options: Any) -> None:
    handles = [
        Line2D([], [], color=colour(i), linestyle=DASHES[_dash(i)], linewidth=1.9) for _, i in names
    ]
    figure.legend(
        handles, [name for name, _ in names], loc="upper left", frameon=False, borderaxespad=0.2,
        borderpad=0, handlelength=2.4, labelspacing=0.3, alignment="left", **options,
    )  # fmt: skip


def _letters(width: float, names: Sequence[str]) -> float | None:
    """Points of a legend's letters where a name does not fit in one column; None where all do."""
    room = width - MARGINS[0] - LEGEND_SAMPLE
    share = room / (LEGEND_WIDE_LETTER * max(map(len, names)))
    return float(RC["font.size"]) * share if share < 1 else None


def _columns(width: float, names: Sequence[str]) -> int:
    """Columns of a legend, so that a figure of this width in inches cuts no name; at most 3."""
    if not names:
        return 0
    room = (width - MARGINS[0]) / (LEGEND_SAMPLE + LEGEND_LETTER * max(map(len, names)))
    return max(1, min(3, len(names), int(room)))


def _inside(width: float, height: float, above: float) -> tuple[float, float, float, float]:
    """Left, bottom, width, height of the axes as shares of a figure in inches."""
    left, right, bottom, top = MARGINS
    top += above
    return (
        left / width,
        bottom / height,
        (width - left - right) / width,
        (height - bottom - top) / height,
    )


def _finished(svg: str) -> str:
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for stand_in, colour_name in STAND_INS.items():
        svg = svg.replace(stand_in, colour_name)
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"\d+\.\d{3,}", _rounded, tag.group()), svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number.group()):.2f}"
