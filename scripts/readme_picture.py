"""Draw docs/assets/loss.svg, the picture of README.md: loss against tokens of training.

    python scripts/readme_picture.py

The curves are rows of recipes/study-ko.toml in docs/results/study-ko.jsonl: an English encoder
learns Korean from 25,000 sentences. Only cells with nothing else changed are drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report.figure import Figure, line, tokens_axis
from lingraft.study.rows import CurveRow, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

    from lingraft.study.rows import AnyRow

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs/results/study-ko.jsonl"
PICTURE = ROOT / "docs/assets/loss.svg"
SENTENCES = 25_000
NAMES = {
    "scratch": "from scratch",
    "xpt": "with lingraft, two phases",
    "xpt-sp": "with lingraft, one phase",
}
"""Methods in the order of the legend, and what a reader calls them who knows none."""
Curve = list[tuple[float, float]]


def curves(rows: Iterable[AnyRow]) -> dict[str, dict[int, Curve]]:
    """Tokens since the first phase began and validation loss in nats, by method and seed."""
    found: dict[str, dict[int, Curve]] = {method: {} for method in NAMES}
    for row in rows:
        method, seed = row.axes["method"], row.axes["seed"]
        plain = {"method": method, "sentences": SENTENCES, "seed": seed}
        if isinstance(row, CurveRow) and row.split == "valid" and row.axes == plain:
            known = found.get(str(method))
            if known is not None:
                known.setdefault(int(str(seed)), []).extend(row.points)
    return {method: dict(sorted(seeds.items())) for method, seeds in found.items()}


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
        f"{NAMES[method]}: {min(values):.2f} to {max(values):.2f}"
        for method, values in last.items()
    )
    return Figure(
        "loss",
        draw,
        tuple((title, place) for place, title in enumerate(NAMES.values())),
        f"Loss on held-out Korean text against tokens of training. Last values: {told}.",
        "",
    )


def main() -> None:
    drawn = picture(curves(read(ROWS)))
    PICTURE.write_text(drawn.alone(), encoding="utf-8")
    print(drawn.description)


if __name__ == "__main__":
    main()
