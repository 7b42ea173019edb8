"""Curves as inline SVG that takes its colours from the page: light, dark and print all read well.

The figures hold numbers and names of phases, never text of the target language: names of models
stand in the page's own legend, which uses the reader's fonts. Nothing random and no date goes in:
equal data, equal bytes.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lingraft.report import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from lingraft.report.rows import PhaseRecord, Variant

N_COLOURS = 6
"""The style sheet defines --c0 … --c5; further models reuse them with another dash."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
MAX_POINTS = 300
STAND_INS = {f"#0000f{index}": f"var(--c{index})" for index in range(N_COLOURS)} | {
    "#0000e0": "currentColor",
    "#0000e1": "var(--faint)",
}
"""Colours that matplotlib is given, and what they become in the page."""
INK, FAINT = "#0000e0", "#0000e1"
SIZES = {"wide": (6.9, 3.7), "narrow": (3.4, 2.9)}
MARGINS = (0.7, 0.2, 0.5, 0.25)
"""Inches left, right, below and above the axes, for their labels."""
FLAT = 0.6
"""Height of the learning-rate figure, as a share."""
"""Inches: one for wide pages, one for phones; each is shown at its own size."""
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


@dataclass(frozen=True)
class Curve:
    """Points of one model over all its phases; x in tokens since its start."""

    x: tuple[float, ...]
    y: tuple[float, ...]


def legend_style(index: int) -> str:
    """CSS of the sample line in the legend of the model with this index."""
    dash = ("solid", "dashed", "dotted", "dashed")[_dash(index)]
    return f"--line:var(--c{index % N_COLOURS});--dash:{dash}"


def _dash(index: int) -> int:
    return (index // N_COLOURS + index) % len(DASHES)


def curve(phases: Sequence[PhaseRecord], kind: str, field: str, most: int = MAX_POINTS) -> Curve:
    """Join the rows of all phases; more than `most` points are averaged in runs of equal length.

    Args:
        phases: in order; a phase's tokens are added to those before it.
        kind: 'train' or 'valid'.
        field: which number of the row.
        most: points at most.
    """
    x: list[float] = []
    y: list[float] = []
    before = 0
    for phase in phases:
        for row in phase.train if kind == "train" else phase.valid:
            x.append(before + row["tokens"])
            y.append(row[field])
        before += phase.tokens or 0
    run = -(-len(x) // most) if x else 1
    starts = range(0, len(x), run)
    return Curve(
        tuple(_mean(x[at : at + run]) for at in starts),
        tuple(_mean(y[at : at + run]) for at in starts),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def boundaries(phases: Sequence[PhaseRecord]) -> list[tuple[float, float, str]]:
    """Where each phase that has begun starts and ends, in tokens, and its name."""
    spans = []
    before = 0.0
    for phase in phases:
        if phase.tokens is not None:
            spans.append((before, before + phase.tokens, phase.name))
            before += phase.tokens
    return spans


def losses(found: Sequence[Variant]) -> Plot | None:
    """Loss against tokens: training faint, validation strong; None where nothing is logged yet."""
    curves = [(curve(v.phases, "train", "loss"), curve(v.phases, "valid", "loss")) for v in found]
    if not any(train.x or valid.x for train, valid in curves):
        return None
    evaluations = [evaluation for v in found if (evaluation := v.result("evaluation")) is not None]
    unigrams = sorted({float(evaluation["unigram_entropy"]) for evaluation in evaluations})

    def draw(axes: Axes) -> None:
        for index, (train, valid) in enumerate(curves):
            colour, dash = _colour(index), DASHES[_dash(index)]
            axes.plot(train.x, train.y, color=colour, alpha=0.4, linewidth=0.8)
            marker = "o" if len(valid.x) < 30 else ""
            axes.plot(
                valid.x,
                valid.y,
                color=colour,
                linewidth=1.9,
                linestyle=dash,
                marker=marker,
                markersize=3,
            )
        for entropy in unigrams:
            axes.axhline(entropy, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
            axes.annotate(
                "unigram entropy", (1, entropy), (0, 3), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right", fontsize=8,
            )  # fmt: skip
        axes.set_ylabel("loss (nats per masked token)")

    ends = [
        f"{variant.label}: validation loss {numbers.fixed(valid.y[-1], 2)}"
        f" after {numbers.short(valid.x[-1])} tokens"
        for variant, (_, valid) in zip(found, curves, strict=True)
        if valid.x
    ]
    return _plot(found, draw, "Loss against tokens. " + "; ".join(ends), "loss", 1.0)


def learning_rates(found: Sequence[Variant]) -> Plot | None:
    """Learning rate against tokens; None where nothing is logged yet."""
    curves = [curve(variant.phases, "train", "learning_rate") for variant in found]
    if not any(points.x for points in curves):
        return None

    def draw(axes: Axes) -> None:
        for index, points in enumerate(curves):
            axes.plot(
                points.x,
                points.y,
                color=_colour(index),
                linewidth=1.6,
                linestyle=DASHES[_dash(index)],
            )
        axes.set_ylim(bottom=0)
        axes.set_ylabel("learning rate")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))

    peaks = [
        f"{variant.label}: peak {max(points.y):.2g}"
        for variant, points in zip(found, curves, strict=True)
        if points.x
    ]
    return _plot(found, draw, "Learning rate against tokens. " + "; ".join(peaks), "rate", FLAT)


def _colour(index: int) -> str:
    return f"#0000f{index % N_COLOURS}"


def _plot(
    found: Sequence[Variant],
    draw: Callable[[Axes], None],
    description: str,
    name: str,
    height: float,
) -> Plot:
    drawn = {form: _render(found, draw, f"{name}-{form}", height) for form in SIZES}
    return Plot(drawn["wide"], drawn["narrow"], description)


def _render(
    found: Sequence[Variant], draw: Callable[[Axes], None], name: str, height: float
) -> str:
    form = name.partition("-")[2]
    width, full = SIZES[form]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(width, full * height))
        FigureCanvasSVG(figure)
        figure.patch.set_visible(False)
        axes = figure.add_axes(_inside(width, full * height))
        axes.patch.set_visible(False)
        draw(axes)
        axes.set_xlabel("tokens")
        axes.set_xlim(left=0)
        axes.margins(x=0.01)
        axes.xaxis.set_major_locator(MaxNLocator(5 if form == "narrow" else 8))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(value)))
        _mark_phases(axes, found)
        buffer = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata)
    return _inline(buffer.getvalue(), f"{name}-")


def _inside(width: float, height: float) -> tuple[float, float, float, float]:
    """Left, bottom, width, height of the axes as shares of a figure in inches."""
    left, right, bottom, top = MARGINS
    return (
        left / width,
        bottom / height,
        (width - left - right) / width,
        (height - bottom - top) / height,
    )


def _mark_phases(axes: Axes, found: Sequence[Variant]) -> None:
    """A line where a phase ends and the next begins; the first model's phases are named."""
    for index, variant in enumerate(found):
        for start, end, name in boundaries(variant.phases):
            if start:
                axes.axvline(start, color=_colour(index), linewidth=0.9, linestyle=(0, (2, 2)))
            if index == 0 and len(variant.phases) > 1:
                axes.annotate(
                    name, ((start + end) / 2, 1), (0, 2), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", fontsize=8,
                )  # fmt: skip


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
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    for stand_in, colour in STAND_INS.items():
        svg = svg.replace(stand_in, colour)
    svg = re.sub(r'width="([\d.]+)pt" height="([\d.]+)pt"', "", svg, count=1)
    svg = re.sub(r' version="1.1"', ' aria-hidden="true" focusable="false"', svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()
