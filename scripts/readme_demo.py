"""Write README.md's first table and its picture, docs/assets/text.svg, from measured runs.

    python scripts/readme_demo.py runs/study-demo/results.jsonl

The table shows what `make demo-seeds` measures: an English encoder learns Korean; README.md holds
the two marks that it stands between. The picture is of the rows of `SIZES` in research/rows.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report import table as tables
from lingraft.report.figure import Figure, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from studies.results import Group
    from studies.rows import AnyRow

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "research/scripts"))

from archive import read  # noqa: E402 - beside the rows of the studies
from studies.results import collect  # noqa: E402
from studies.rows import of_lines  # noqa: E402

PICTURE = ROOT / "docs/assets/text.svg"
SIZES = ("weight-decay/ko-sizes", "weight-decay/ko-mean")
"""Studies that the picture is of."""
LINES: dict[str, dict[str, Any]] = {
    "automatic settings": {"method": "xpt-sp", "training.mean_teacher": 0.5},
    "weight decay 0.01, no mean teacher": {"method": "xpt-sp", "training.weight_decay": 0.01},
    "from scratch": {"method": "scratch"},
}
"""Lines of the picture, and what tells their rows."""
README = ROOT / "README.md"
START, END = "<!-- demo table: scripts/readme_demo.py -->", "<!-- end of demo table -->"
NAMES = {"scratch": "from scratch", "xpt": "XPT, two phases", "auto": "automatic settings"}
"""Methods in the order of the legend."""
COMMAND = {"auto": " (`make demo`)"}
COLUMNS = (
    ("mask-only/perplexity", "perplexity ↓", "{:.1f}"),
    ("mask-only/hits@1", "top 1 ↑", "{:.1f} %"),
    ("mask-only/hits@10", "top 10 ↑", "{:.1f} %"),
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


def picture() -> Figure:
    """A line a model: the mean over the seeds; bands from the lowest to the highest seed."""
    rows = (row for study in SIZES for row in read(study))
    scores = [row for row in rows if getattr(row, "metric", "") == "bits_per_character"]
    lines = []
    for place, (name, axes) in enumerate(LINES.items()):
        found = defaultdict(list)
        for row in scores:
            if axes.items() <= row.axes.items():
                found[row.axes["sentences"]].append(row.value)
        sizes = sorted(found)
        low, mean, high = ([of(found[size]) for size in sizes] for of in (min, np.mean, max))
        lines.append(Series(name, sizes, [float(one) for one in mean], place, band=(low, high)))
    about = "Bits per character of held-out Korean words against sentences of training text."
    axes_of = ("sentences of Korean text", "bits per character")
    return Figure("text", axes_of, lines, about, over_sizes=True)


def table(rows: Sequence[AnyRow]) -> str:
    """The sentence, the Markdown table with the best method first, and the notes below it."""
    groups = by_method(rows)
    lines = []
    for method in sorted(NAMES, key=lambda one: groups[one].mean(COLUMNS[0][0]) or math.inf):
        cells: list[str] = []
        for metric, _, form in COLUMNS:
            mean, deviation = groups[method].mean(metric), groups[method].deviation(metric)
            spread = "" if deviation is None else f" ± {form.format(deviation).removesuffix(' %')}"
            cells.append(form.format(mean) + spread)
        lines.append(tables.row(NAMES[method] + COMMAND.get(method, ""), *cells))
    made = tables.table("", ["", *(title for _, title, _ in COLUMNS)], lines)
    return f"{lead(groups, curves(rows))}\n\n{tables.markdown(made)}\n\n{about(groups)}"


def lead(groups: Mapping[str, Group], found: Mapping[str, Mapping[int, Curve]]) -> str:
    """What was trained, and after how many tokens the rules' model is as good as scratch."""
    row = next(iter(groups["auto"].rows(COLUMNS[0][0]).values()))
    last = np.mean([max(curve)[1] for curve in found["scratch"].values()])
    reached = [
        min((tokens for tokens, loss in curve if loss <= last), default=math.inf)
        for curve in found["auto"].values()
    ]
    told = f"A small English encoder learns **Korean** from {row.tokens / 1e6:.1f} M tokens."
    if math.isfinite(most := max(reached)):
        told += (
            f" With automatic settings it reaches the final validation loss of training\n"
            f"from scratch after {math.ceil(most / 1e5) / 10:.1f} M tokens, with every seed."
        )
    return told


def about(groups: Mapping[str, Group]) -> str:
    """How many runs there were, and of what."""
    counts = sorted({len(group.rows(COLUMNS[0][0])) for group in groups.values()})
    number = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    several = "seed" if counts[-1] == 1 else "seeds, mean ± standard deviation"
    asked = next(iter(groups["scratch"].rows(COLUMNS[0][0]).values())).n
    ties = [value for group in groups.values() for value in group.values(TIES)]
    unigrams = groups["scratch"].values(UNIGRAMS)[0]
    return (
        f"{number} {several}; {asked:,} masked held-out tokens; perplexity of token frequencies "
        f"alone: {unigrams:.0f}."
        + (f" Ties: {round(sum(ties)):,} of {asked * len(ties):,}." if sum(ties) else "")
        + " `make demo-seeds` repeats it.\nScratch has the batch, masks, schedule and rate of the "
        "automatic settings; XPT has those of `recipes/demo-xpt.toml`. The source has read "
        "the English side of the training pages, not of the test pages."
    )


def rewritten(readme: str, rows: Sequence[AnyRow]) -> str:
    """The README with the table put in its place."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table(rows)}\n{END}{after}"


def main() -> None:
    rows = of_lines(Path(sys.argv[1]).read_bytes().splitlines())
    README.write_text(rewritten(README.read_text(encoding="utf-8"), rows), encoding="utf-8")
    drawn = picture()
    PICTURE.write_text(drawn.svg, encoding="utf-8")
    print(f"{table(rows)}\n\n{drawn.caption}")


if __name__ == "__main__":
    main()
