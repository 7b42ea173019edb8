"""How much of the test text stands beside it in the training text.

    python research/scripts/measure_neighbours.py build/study-ko

For every file of OUT (JSON lines in reading order, as build_study_data.py writes them): the
share of a test document's distinct 12-character runs that occur in the 40 training lines next to it
on either side, and, to compare, in 80 training lines of the same file drawn at random. Where a
document is cut by the split the first is larger. The split is that of the recipe's defaults.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

from lingraft.corpus.split import split_of
from lingraft.recipe import Corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_CHARACTERS = 12
LINES_A_SIDE = 40


def runs(lines: Sequence[str]) -> set[str]:
    """The distinct runs of characters in some lines."""
    return {
        line[start : start + RUN_CHARACTERS]
        for line in lines
        for start in range(len(line) - RUN_CHARACTERS + 1)
    }


def measure(rows: Sequence[tuple[str, list[str]]]) -> tuple[int, float, float]:
    """Compare test documents with what stands beside them.

    Args:
        rows: id and lines of every document, in reading order.

    Returns:
        Test documents, and the mean shares of their runs in neighbours and in random lines.
    """
    section = Corpus(text=("unused",))
    sides = [split_of(n, section.split_seed, section.valid, section.test) for n, _ in rows]
    lines = [(side, line) for side, (_, own) in zip(sides, rows, strict=True) for line in own]
    trained = [line for side, line in lines if side == "train"]
    generator = random.Random(0)
    beside, drawn = [], []
    first = 0
    for side, (_, own) in zip(sides, rows, strict=True):
        last = first + len(own)
        mine = runs(own) if side == "test" else set()
        if mine:
            around = (
                lines[max(0, first - LINES_A_SIDE) : first],
                lines[last : last + LINES_A_SIDE],
            )
            near = [line for part in around for kind, line in part if kind == "train"]
            beside.append(len(mine & runs(near)) / len(mine))
            others = generator.sample(trained, min(len(trained), 2 * LINES_A_SIDE))
            drawn.append(len(mine & runs(others)) / len(mine))
        first = last
    count = max(len(beside), 1)
    return len(beside), sum(beside) / count, sum(drawn) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    for path in sorted(parser.parse_args().folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [(row["id"], row["text"].split("\n")) for row in map(json.loads, file)]
        count, beside, drawn = measure(rows)
        print(
            f"{path.name}: {len(rows):,} documents, {count:,} for the test; of their runs "
            f"{beside:.1%} stand in neighbours, {drawn:.1%} in random lines"
        )


if __name__ == "__main__":
    main()
