"""Write README.md's table and its picture, docs/assets/loss.svg, from measured runs.

    python scripts/readme_demo.py runs/study-demo/results.jsonl

Both show what `make demo-seeds` measures: an English encoder learns Korean.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report import table as tables
from lingraft.report.figure import Figure, line, tokens_axis
from lingraft.study.results import collect
from lingraft.study.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from lingraft.study.results import Group
    from lingraft.study.rows import AnyRow

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/assets/loss.svg"
README = ROOT / "README.md"
START, END = "<!-- demo table: scripts/readme_demo.py -->", "<!-- end of demo table -->"
NAMES = {
    "scratch": "from scratch",
    "xpt": "with lingraft, two phases",
    "auto": "with lingraft, automatic settings",
}
"""Methods in the order of the legend, and what a reader calls them who knows none."""
COLUMNS = (
    ("mask-only/perplexity", "perplexity ↓", "{:.1f}"),
    ("mask-only/hits@1", "right at the first guess ↑", "{:.1f} %"),
    ("mask-only/hits@10", "right within ten guesses ↑", "{:.1f} %"),
)
TIES, UNIGRAMS = "mask-only/ties", "unigram_perplexity"
Curve = list[tuple[float, float]]


def by_method(rows: Iterable[AnyRow]) -> dict[str, Group]:
    """The cells of each method, by seed."""
    found = {group.method: group for group in collect(rows).groups}
    return {method: found[method] for method in NAMES}


def curves(rows: Iterable[AnyRow]) -> dict[str, dict[int, Curve]]:
    """Tokens since the first phase began and validation loss in nats, by method and seed."""
    return {
        method: {
            cell.seed: [
                point for one in cell.curves if one.split == "valid" for point in one.points
            ]
            for cell in group.cells
        }
        for method, group in by_method(rows).items()
    }


def picture(found: dict[str, dict[int, Curve]]) -> Figure:
    """A line a method: the mean over the seeds; bands from the lowest to the highest seed."""

    def draw(axes: Axes, form: str) -> None:
        for place, seeds in enumerate(found.values()):
            points = [np.array(sorted(curve)) for curve in seeds.values()]
            first, last = max(one[0, 0] for one in points), min(one[-1, 0] for one in points)
            tokens = np.linspace(first, last, 100)
            losses = np.stack([np.interp(tokens, one[:, 0], one[:, 1]) for one in points])
            spread = losses.min(axis=0), losses.max(axis=0)
            line(axes, tokens, losses.mean(axis=0), place, spread=spread)
        tokens_axis(axes, form)
        axes.set_xlabel("tokens of training")
        axes.set_ylabel("loss on unseen text")

    last = {method: [max(curve)[1] for curve in seeds.values()] for method, seeds in found.items()}
    told = "; ".join(
        f"{NAMES[training]}: {min(values):.2f} to {max(values):.2f}"
        for method, values in last.items()
    )
    return Figure(
        "loss",
        draw,
        tuple((title, place) for place, title in enumerate(NAMES.values())),
        f"Loss on held-out Korean text against tokens of training. Last values: {told}.",
        "",
    )


def table(rows: Iterable[AnyRow]) -> str:
    """The Markdown table, the best method first: mean and sample deviation over the seeds."""
    groups = by_method(rows)
    lines = []
    for method in sorted(NAMES, key=lambda one: groups[one].mean(COLUMNS[0][0]) or math.inf):
        cells: list[str] = []
        for metric, _, form in COLUMNS:
            mean, deviation = groups[method].mean(metric), groups[method].deviation(metric)
            spread = "" if deviation is None else f" ± {form.format(deviation).removesuffix(' %')}"
            cells.append(form.format(mean) + spread)
        lines.append(tables.row(NAMES[method], *cells))
    made = tables.table("", ["", *(title for _, title, _ in COLUMNS)], lines)
    return f"{tables.markdown(made)}\n\n{about(groups)}"


def about(groups: Mapping[str, Group]) -> str:
    """How many runs there were, and of what."""
    counts = sorted({len(group.rows(COLUMNS[0][0])) for group in groups.values()})
    number = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    several = "run each" if counts[-1] == 1 else "runs each, mean ± standard deviation"
    runs = list(groups["scratch"].rows(COLUMNS[0][0]).values())
    ties = [value for group in groups.values() for value in group.values(TIES)]
    asked, tied = runs[0].n, round(sum(ties))
    return (
        f"{number} {several}, {runs[0].tokens / 1e6:.1f} M tokens of training a run. "
        f"Asked were {asked:,} hidden tokens of pages that no model has seen. "
        "Guessing by frequency alone has a perplexity of "
        f"{groups['scratch'].values(UNIGRAMS)[0]:.0f}."
        + (f" Ties: {tied:,} of {asked * len(ties):,}." if tied else "")
        + " `make demo-seeds` measures it again."
    )


def rewritten(readme: str, rows: Sequence[AnyRow]) -> str:
    """The README with the table put in its place."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table(rows)}\n{END}{after}"


def main() -> None:
    rows = read(Path(sys.argv[1]))
    README.write_text(rewritten(README.read_text(encoding="utf-8"), rows), encoding="utf-8")
    drawn = picture(curves(rows))
    PICTURE.write_text(drawn.alone(), encoding="utf-8")
    print(f"{table(rows)}\n\n{drawn.description}")


if __name__ == "__main__":
    main()
