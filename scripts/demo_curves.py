"""The picture in README.md: loss against tokens, from measured runs.

    python scripts/demo_curves.py --demo RUN … --automatic RUN …
    python scripts/demo_curves.py                                   # draw it again

The first form keeps the losses in docs/demo-curves.jsonl; both draw docs/assets/demo-curves.svg
from that file. `make demo-curves` trains the runs and calls both.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report.figure import Figure, band, level, line, tokens_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs/demo-curves.jsonl"
PICTURE = ROOT / "docs/assets/demo-curves.svg"
NAMES = {
    "scratch": "from scratch",
    "xpt": "lingraft, the XPT paper's method",
    "auto": "lingraft, chosen by itself",
}
"""Models in the order of the legend."""
UNIGRAMS = "guessing by frequency alone"


def measure(demo: list[Path], automatic: list[Path]) -> list[dict[str, Any]]:
    """One row a model and seed: validation losses by the tokens trained on so far.

    Args:
        demo: runs of recipes/demo.toml, each with its baseline.
        automatic: runs of the short form, on the same text and vocabulary.

    Returns:
        Rows with `model`, `seed`, `tokens`, `seconds`, `method`, `unigram_entropy` (nats), what
        the masked tokens are known by (`masks`), and `points` (tokens, nats).
    """
    from lingraft.recipe import decoding
    from lingraft.rundir import Run

    rows = []
    for path in demo:
        run = Run.existing(path)
        rows += [_row("xpt", run, path, decoding), _row("scratch", run, path, decoding)]
    rows += [_row("auto", Run.existing(path), path, decoding) for path in automatic]
    return rows


def _row(model: str, run: Any, path: Path, decoding: Any) -> dict[str, Any]:
    from lingraft.rundir import Run

    recipe = decoding.load(run.recipe_path)
    variant = Run(path / "baselines/scratch", path) if model == "scratch" else run
    phases = [variant.stage(p.name).result() for p in sorted(variant.path.glob("phase-*"))]
    evaluation = variant.stage("evaluation").result()
    return {
        "model": model,
        "seed": recipe["seed"],
        "method": "scratch" if model == "scratch" else recipe["method"]["name"],
        "tokens": sum(one["tokens"] for one in phases),
        "seconds": round(sum(one["seconds"] for one in phases), 1),
        "masks": evaluation["masks"]["fingerprint"],
        "unigram_entropy": round(evaluation["unigram_entropy"], 5),
        "points": points(variant.path),
    }


def points(run: Path) -> list[list[float]]:
    """Tokens since the first phase began, and validation loss in nats."""
    found: list[list[float]] = []
    before, phase = 0.0, ""
    for text in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        seen = json.loads(text)
        if seen["kind"] == "valid":
            if phase and seen["phase"] != phase:
                before = found[-1][0]
            phase = seen["phase"]
            found.append([before + seen["tokens"], round(seen["loss"], 5)])
    return found


def picture(rows: list[dict[str, Any]]) -> Figure:
    """Mean loss over the seeds; the bands reach from the lowest to the highest seed."""
    curves = {name: [row["points"] for row in rows if row["model"] == name] for name in NAMES}

    def draw(axes: Axes, form: str) -> None:
        for place, seeds in enumerate(curves.values()):
            most = min(points[-1][0] for points in seeds)
            least = max(points[0][0] for points in seeds)
            tokens = np.linspace(least, most, 200)
            losses = np.stack([np.interp(tokens, *np.array(one).T) for one in seeds])
            band(axes, tokens, losses.min(axis=0), losses.max(axis=0), place)
            line(axes, tokens, losses.mean(axis=0), place)
        level(axes, rows[0]["unigram_entropy"], UNIGRAMS)
        tokens_axis(axes, form)
        axes.set_xlabel("tokens of training")
        axes.set_ylabel("loss on held-out text (nats)")

    ends = {name: fmean(points[-1][1] for points in seeds) for name, seeds in curves.items()}
    told = "; ".join(f"{NAMES[name]}: {value:.2f}" for name, value in ends.items())
    return Figure(
        "demo-curves",
        draw,
        tuple((title, place) for place, title in enumerate(NAMES.values())),
        f"Loss on held-out Korean text against tokens of training. Last values: {told}.",
        "",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", nargs="+", type=Path, default=[])
    parser.add_argument("--automatic", nargs="+", type=Path, default=[])
    arguments = parser.parse_args()
    if arguments.demo:
        rows = measure(arguments.demo, arguments.automatic)
        if len({(row["masks"], row["unigram_entropy"]) for row in rows}) != 1:
            sys.exit("the runs were scored on different tokens; they do not compare")
        ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rows = [json.loads(text) for text in ROWS.read_text(encoding="utf-8").splitlines()]
    drawn = picture(rows)
    PICTURE.write_text(drawn.alone(), encoding="utf-8")
    print(drawn.description)


if __name__ == "__main__":
    main()
