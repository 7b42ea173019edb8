"""Figures: lines over tokens, data or layers, as plain data that matplotlib draws once.

An SVG carries its colours as CSS, light and dark, and is as good in a page as in a file of its own.
Nothing random and no date goes in: equal data, equal bytes.

Curves of one run's training, or of several runs side by side.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure as MatplotlibFigure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from lingraft.report import numbers
from lingraft.report.variants import evaluated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from lingraft.report.variants import PhaseRecord, TrainedModel


INK, FAINT = "#1b1f24", "#818b98"
COLOURS = ("#0b5cad", "#b5451b", "#1a7f4e", "#8250a8", "#8a6100", "#0f7b8a")
"""Colours of a light page; further lines have them again with another dash."""
DARK = ("#e6e8ea", "#7d8590", "#6cb0f5", "#f0936a", "#5fc98f", "#c39be6", "#dcb255", "#5cc6d4")
"""Ink, faint and the colours of a dark page."""
NAMES = ("currentColor", "var(--faint)", *(f"var(--c{index})" for index in range(len(COLOURS))))
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
WIDTH, HEIGHT = 5.0, 2.9
"""Inches: as wide as a page shows it, and still readable on a phone."""
LEGEND_ROW = 0.19
"""Inches that a row of the legend takes."""
MANY = 30
"""A line of fewer points has a mark at each."""
RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 9.5,
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
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Series:
    """Points of one model."""

    name: str
    """In the legend; lines of one name have one entry."""
    x: Sequence[float]
    y: Sequence[float]
    index: int
    """Index of the model: decides colour and dash."""
    faint: bool = False
    """Thin and pale, and not in the legend."""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    """The lowest and the highest seed at every point."""


@dataclass(frozen=True)
class Figure:
    """Content of a figure."""

    name: str
    """Name of the file, unique on the page."""
    axes: tuple[str, str]
    """Labels along the foot and up the side."""
    lines: Sequence[Series]
    caption: str
    levels: Sequence[tuple[str, float]] = ()
    """Flat dotted lines: what needs no training."""
    spans: Sequence[tuple[float, float, str]] = ()
    """Phases, from where to where, whose names stand above."""
    end: float | None = None
    """End of the foot, where lines may end before it."""
    over_sizes: bool = False
    """Whether the foot is logarithmic, with the points' own places as its ticks."""
    from_nothing: bool = False
    """Whether the side begins at 0."""

    def drawn(self) -> MatplotlibFigure:
        """Draw it with matplotlib, in the colours of a light page."""
        names = {line.name for line in self.lines if not line.faint}
        columns = 1 if max(map(len, names), default=0) > 24 else 2
        height = HEIGHT + LEGEND_ROW * -(-len(names) // columns)
        with mpl.rc_context(RC):
            figure = MatplotlibFigure((WIDTH, height), layout="constrained", facecolor="none")
            axes = figure.add_subplot(facecolor="none")
            for line in self.lines:
                _draw_line(axes, line)
            self._mark(axes)
            self._label(axes)
            handles, labels = axes.get_legend_handles_labels()
            by_name = dict(zip(labels, handles, strict=True))
            if len(by_name) > 1:
                figure.legend(by_name.values(), by_name, loc="outside upper left", ncols=columns)
        return figure

    def _mark(self, axes: Axes) -> None:
        """Draw levels, and where phases begin."""
        for text, value in self.levels:
            axes.axhline(value, color=INK, linestyle=(0, (1, 2)), linewidth=1.2)
            axes.annotate(
                text, (1, value), (0, 3), xycoords=("axes fraction", "data"),
                textcoords="offset points", ha="right", fontsize=8.5,
            )  # fmt: skip
        for start, end, name in self.spans:
            if start:
                axes.axvline(start, color=FAINT, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.annotate(
                name, ((start + end) / 2, 1), (0, 2), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", fontsize=8.5,
            )  # fmt: skip

    def _label(self, axes: Axes) -> None:
        """Name the axes, and place their ticks."""
        axes.set_xlabel(self.axes[0])
        axes.set_ylabel(self.axes[1])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if self.from_nothing:
            axes.set_ylim(bottom=0)
        if self.over_sizes:
            sizes = sorted({float(x) for line in self.lines for x in line.x})
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(sizes[:: -(-len(sizes) // 7)]))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            axes.set_xlim(0, self.end)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(round(value))))

    @cached_property
    def svg(self) -> Markup:
        """Write it as SVG, which is as good in a page as in a file."""
        with warnings.catch_warnings(), mpl.rc_context({**RC, "svg.hashsalt": self.name}):
            # the browser has the letters that matplotlib's font lacks
            warnings.filterwarnings("ignore", "Glyph", UserWarning)
            buffer = io.StringIO()
            metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self.drawn().savefig(buffer, format="svg", metadata=metadata)
        text = buffer.getvalue()
        text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = re.sub(r'\sid="[A-Za-z][\w.]*_\d+"', "", text)  # of groups, which nothing refers to
        text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
        for colour, name in zip((INK, FAINT, *COLOURS), NAMES, strict=True):
            text = text.replace(colour, name)
        text = re.sub(r"<style.*?</style>", _style(), text, count=1, flags=re.DOTALL)
        text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag[0]), text)
        return Markup(re.sub(r"\n\s*", "\n", text))


def _draw_line(axes: Axes, line: Series) -> None:
    colour = COLOURS[line.index % len(COLOURS)]
    if line.faint:
        axes.plot(line.x, line.y, color=colour, alpha=0.4, linewidth=0.9)
        return
    if line.band:
        axes.fill_between(line.x, *line.band, color=colour, alpha=0.16, linewidth=0)
    dash = DASHES[(line.index // len(COLOURS) + line.index) % len(DASHES)]
    mark = "o" if len(line.x) < MANY else ""
    axes.plot(
        line.x, line.y, color=colour, linestyle=dash, linewidth=1.8, marker=mark, markersize=3,
        label=line.name,
    )  # fmt: skip


def _style() -> str:
    def rule(ink: str, faint: str, *colours: str) -> str:
        names = "".join(f"--c{index}:{value};" for index, value in enumerate(colours))
        return f"svg{{color:{ink};--faint:{faint};{names}}}"

    return (
        "<style>svg text{font-family:system-ui,sans-serif}svg *{stroke-linejoin:round}"
        f"{rule(INK, FAINT, *COLOURS)}"
        f"@media screen and (prefers-color-scheme:dark){{{rule(*DARK)}}}</style>"
    )


MAX_POINTS = 300
Curve = tuple[list[float], list[float]]
"""Tokens since the model's start, and values."""


def curve(phases: Sequence[PhaseRecord], kind: str, field: str) -> Curve:
    """Join the rows of all phases; of very many points each is the mean of neighbours.

    Args:
        phases: in order; a phase's tokens are added to those before it.
        kind: 'train' or 'valid'.
        field: which number of the row.
    """
    points: list[tuple[float, float]] = []
    before = 0
    for phase in phases:
        rows = phase.train if kind == "train" else phase.valid
        points += [(before + row["tokens"], row[field]) for row in rows]
        before += phase.tokens or 0
    return thinned(points)


def thinned(points: Sequence[tuple[float, float]]) -> Curve:
    """Return places and values of points; of very many each is the mean of neighbours."""
    step = max(1, -(-len(points) // MAX_POINTS))
    groups = (points[at : at + step] for at in range(0, len(points), step))
    means = [[sum(values) / len(values) for values in zip(*g, strict=True)] for g in groups]
    return [x for x, _ in means], [y for _, y in means]


def losses(models: Sequence[TrainedModel]) -> Figure | None:
    """Draw loss against tokens: training faint, validation strong; None where none is logged.

    The foot reaches to the end of all training, which the last logged step need not reach.
    """
    lines: list[Series] = []
    for index, model in enumerate(models):
        for kind in ("train", "valid"):
            x, y = curve(model.phases, kind, "loss")
            if x:
                lines.append(Series(model.label, x, y, index, faint=kind == "train"))
    unigrams = sorted({float(of["unigram_entropy"]) for _, of in evaluated(models)})
    caption = (
        "Loss against tokens seen. Faint: training; strong: validation. Uprights: a new phase of "
        f"{models[0].label}. Dotted: the loss of knowing only how often each token occurs."
    )
    levels = [("" if at else "unigram entropy", entropy) for at, entropy in enumerate(unigrams)]
    if not lines:
        return None
    phases = [phase for phase in models[0].phases if phase.tokens is not None]
    starts = accumulate((phase.tokens or 0 for phase in phases), initial=0)
    spans = [(*span, phase.name) for span, phase in zip(pairwise(starts), phases, strict=True)]
    end = max((model.tokens or 0 for model in models), default=0) * 1.01 or None
    return Figure(
        "loss", ("tokens", "loss (nats per predicted token)"), lines, caption, levels=levels,
        spans=spans if len(models[0].phases) > 1 else (), end=end,
    )  # fmt: skip
