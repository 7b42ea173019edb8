"""Figures as SVG that take their colours from the page: light, dark and print all read well.

A figure inside a page holds numbers and names of phases, never text of the target language: names
of models stand in the page's own legend, which uses the reader's fonts. A figure in a file of its
own carries its legend and its colours with it. Nothing random and no date goes in: equal data,
equal bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

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
"""Ink, --faint and --c0 … of style.css.j2, for figures in files of their own."""
SIZES = {"wide": (6.9, 3.7), "narrow": (3.4, 2.9)}
"""Inches: one for wide pages, one for phones; each is shown at its own size."""
MARGINS = (0.7, 0.2, 0.5, 0.25)
"""Inches left, right, below and above the axes, for their labels."""
LEGEND_ROW = 0.2
"""Inches that a row of the legend takes in a file of its own."""
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lingraft",
    "font.size": 9.0,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": FAINT,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
}


@dataclass(frozen=True)
class Plot:
    """One figure in the sizes of SIZES."""

    wide: str
    narrow: str
    description: str
    """For readers who do not see it."""


def legend_style(index: int) -> str:
    """CSS of the sample line in the legend of the model with this index."""
    drawn = ("solid", "dashed", "dotted", "dashed")[dash_of(index)]
    return f"--line:var(--c{index % N_COLOURS});--dash:{drawn}"


def dash_of(index: int) -> int:
    """Which of DASHES the model with this index has."""
    return (index // N_COLOURS + index) % len(DASHES)


def colour(index: int) -> str:
    """The stand-in for the colour of the model with this index."""
    return f"#0000f{index % N_COLOURS}"


def plot(draw: Callable[[Axes, str], None], description: str, name: str, height: float) -> Plot:
    """Draw a figure in both sizes.

    Args:
        draw: fills the axes; it is told the size, 'wide' or 'narrow'.
        description: for readers who do not see it.
        name: unique on the page.
        height: share of the size's full height.
    """
    drawn = {form: _inline(_svg(draw, form, height), f"{name}-{form}-") for form in SIZES}
    return Plot(drawn["wide"], drawn["narrow"], description)


def alone(
    draw: Callable[[Axes, str], None], names: Sequence[tuple[str, int]], height: float
) -> str:
    """A figure as a file of its own, wide, with the legend above the axes.

    Args:
        draw: fills the axes.
        names: of the models, and the index of each.
        height: share of the full height.
    """
    svg = _svg(draw, "wide", height, names)
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", _style(), svg, count=1, flags=re.DOTALL)
    return _finished(svg) + "\n"


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


def _svg(
    draw: Callable[[Axes, str], None],
    form: str,
    height: float,
    names: Sequence[tuple[str, int]] = (),
) -> str:
    width, full = SIZES[form]
    columns = min(3, len(names))
    above = LEGEND_ROW * -(-len(names) // columns) if columns else 0.0
    tall = full * height + above
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, tall))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        axes = figure.add_axes(_inside(width, tall, above))
        axes.patch.set_visible(False)
        draw(axes, form)
        if names:
            handles = [
                Line2D([], [], color=colour(i), linestyle=DASHES[dash_of(i)], linewidth=1.9)
                for _, i in names
            ]
            figure.legend(
                handles, [name for name, _ in names], loc="upper left", ncols=columns,
                bbox_to_anchor=(MARGINS[0] / width, 1), frameon=False, borderaxespad=0.2,
                borderpad=0, handlelength=2.4, columnspacing=1.6, labelspacing=0.3,
            )  # fmt: skip
        buffer = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata)
    return buffer.getvalue()


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


def _inline(svg: str, prefix: str) -> str:
    """Make matplotlib's file part of a page: no prologue, no style, no name used twice."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'\sid="[a-z]\w*_\d+"', "", svg)  # names of groups, which nothing refers to
    svg = re.sub(r'\sid="([^"]+)"', rf' id="{prefix}\1"', svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", svg)
    svg = re.sub(r'width="([\d.]+)pt" height="([\d.]+)pt"', "", svg, count=1)
    svg = re.sub(r' version="1.1"', ' aria-hidden="true" focusable="false"', svg, count=1)
    return _finished(svg)


def _finished(svg: str) -> str:
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for stand_in, colour_name in STAND_INS.items():
        svg = svg.replace(stand_in, colour_name)
    svg = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()
