"""The demo's table in README.md, from measured runs.

    python scripts/demo_table.py runs/demo-0 runs/demo-1 runs/demo-2    # measure
    python scripts/demo_table.py                                        # write the table again

The first form keeps the figures in docs/demo.jsonl; both write the table from that file.
`make demo-seeds` trains the runs and calls both.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "docs" / "demo.jsonl"
README = ROOT / "README.md"
START, END = "<!-- demo table: scripts/demo_table.py -->", "<!-- end of demo table -->"
COLUMNS = (
    ("perplexity", "perplexity ↓", "{:.1f}"),
    ("hits@1", "right at the first guess ↑", "{:.1f} %"),
    ("hits@10", "right within ten guesses ↑", "{:.1f} %"),
)
FROM_METRICS = ("perplexity", "hits@1", "hits@10", "mrr", "mr", "ties")
NAMES = {"xpt": "**lingraft**, from the English model", "scratch": "the same model from scratch"}


def measure(runs: list[Path]) -> list[dict[str, Any]]:
    """One row a run and method."""
    from lingraft.recipe import decoding
    from lingraft.rundir import Run

    rows = []
    for path in runs:
        run = Run.existing(path)
        seed = decoding.load(run.recipe_path)["seed"]
        for method, variant in (("xpt", run), ("scratch", Run(path / "baselines/scratch", path))):
            result = variant.stage("evaluation").result()
            phases = [variant.stage(p.name).result() for p in sorted(variant.path.glob("phase-*"))]
            metrics = result["metrics"]["mask-only"]
            rows.append(
                {
                    "seed": seed,
                    "method": method,
                    "tokens": sum(phase["tokens"] for phase in phases),
                    "seconds": round(sum(phase["seconds"] for phase in phases), 1),
                    "positions": metrics["positions"],
                    "masks": result["masks"]["fingerprint"],
                    "unigram_perplexity": round(math.exp(result["unigram_entropy"]), 1),
                    **{key: round(metrics[key], 5) for key in FROM_METRICS},
                    "bits_per_character": round(result["words"]["bits_per_character"], 5),
                    "words": result["words"]["words"],
                }
            )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The Markdown table: mean and sample standard deviation over the seeds."""
    titles = " | ".join(title for _, title, _ in COLUMNS)
    lines = [f"| | {titles} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for method, name in NAMES.items():
        mine = [row for row in rows if row["method"] == method]
        cells = []
        for key, _, form in COLUMNS:
            values = [row[key] for row in mine]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            mean = form.format(statistics.mean(values))
            cells.append(f"{mean} ± {form.format(spread).removesuffix(' %')}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    seeds = sorted({row["seed"] for row in rows})
    first = rows[0]
    lines += [
        "",
        f"{len(seeds)} runs each, mean ± standard deviation, "
        f"{first['tokens'] / 1e6:.1f} M tokens of training a run. "
        f"Asked were {first['positions']:,} hidden tokens of pages that no model has seen. "
        "Guessing by frequency alone has a perplexity of "
        f"{first['unigram_perplexity']:.0f}.{ties(rows)} `make demo-seeds` measures it again.",
    ]
    return "\n".join(lines)


def ties(rows: list[dict[str, Any]]) -> str:
    """Of how many masked tokens another token has the score; older rows do not tell."""
    told = [row for row in rows if row.get("ties")]
    tied, asked = (sum(row[key] for row in told) for key in ("ties", "positions"))
    return f" Ties: {tied:,} of {asked:,}." if told else ""


def rewritten(readme: str, rows: list[dict[str, Any]]) -> str:
    """The README with the table put in its place."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table(rows)}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.runs:
        rows = measure(arguments.runs)
        if len({row["masks"] for row in rows}) != 1:
            sys.exit("the runs were scored on different masks; they do not compare")
        FIGURES.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rows = [json.loads(line) for line in FIGURES.read_text(encoding="utf-8").splitlines()]
    README.write_text(rewritten(README.read_text(encoding="utf-8"), rows), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
