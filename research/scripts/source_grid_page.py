"""Write research/pages/source-grid.md and its figure: which predictor of the best source holds.

    python research/scripts/source_grid_page.py            # from rows and notes
    python research/scripts/source_grid_page.py --facts    # facts first, from build/

Rows: research/rows/source-grid.jsonl.xz, which source_grid.py makes, with the free
facts of each pair as a table; notes: research/notes/source-grid.md.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import archive
import source_predictors as predictors
import source_standings as sources
from studies import drawing as figure
from studies.drawing import Figure
from studies.metrics import BITS
from studies.rows import CurveRow, latest

from lingraft.files import write_text
from lingraft.report import numbers
from lingraft.report.table import BEST, TableCell, markdown, row, table
from lingraft.stats import Resampling

if TYPE_CHECKING:
    from studies.rows import AnyRow

FOLDER = Path(__file__).parents[1]
GRID = "source-grid"
LANGUAGES = ("en", "fr", "es", "ja", "ko", "zh")
TARGETS = ("ko", "ja", "es", "zh", "fr")
EVERY_STEPS = 25
"""Steps between two looks at the validation text, in research/recipes/source-grid.toml."""
FIRST_PHASE = "phase-1"
FACTS = {
    "tokens_per_word": ("tokens/word", False),
    "unknown_rate": ("unknown", False),
    "whole_words": ("whole words", True),
    "vocabulary_scripts": ("scripts (pieces)", True),
    "scripts": ("scripts", True),
    "characters": ("characters", True),
    "trigrams": ("trigrams", True),
    "words": ("words", True),
    "ttr_gap": ("TTR gap", False),
}
"""Facts of a pair that need no training: title, and whether a source is thought to be the better
the higher it is. They were measured when the grid was run."""
BRANCHES = {
    "en": ("Indo-European", "Germanic"),
    "fr": ("Indo-European", "Romance"),
    "es": ("Indo-European", "Romance"),
    "ja": ("Japonic", "Japonic"),
    "ko": ("Koreanic", "Koreanic"),
    "zh": ("Sino-Tibetan", "Sinitic"),
}
"""Family and branch of each language: the one predictor that is written by hand."""
FIGURE = "<!-- figure -->"
"""Where the figure stands in the notes: beside what was found."""
HEAD = """# Which source for which target?

<!-- Made by `python research/scripts/source_grid_page.py` from research/rows/source-grid.jsonl.xz
and research/notes/source-grid.md: change those, not this file. -->
"""


def language_of(name: str) -> str:
    """The language of a candidate: its folder's name."""
    return Path(name).name


# -- what the grid holds


@cache
def rows_of(target: str) -> tuple[AnyRow, ...]:
    """The rows of a target, of all sources and seeds."""
    return tuple(one for one in archive.read(GRID) if one.axes["language"] == target)


def groups_of(target: str, seed: int | None = None) -> dict[str, Any]:
    """Finished grafts of a target by source, of one seed or of all that every source has.

    Empty where a source is missing.
    """
    rows = [one for one in rows_of(target) if one.axes["method"] == "xpt"]
    seeds: dict[str, set[Any]] = {}
    for outcome in latest(rows).values():
        if not outcome.rows:
            continue
        axes = outcome.end.axes
        seeds.setdefault(str(axes[sources.AXIS]), set()).add(axes["seed"])
    if len(seeds) < len(LANGUAGES) - 1:
        return {}
    common = set.intersection(*seeds.values())
    wanted = common if seed is None else common & {seed}
    chosen = [one for one in rows if one.axes["seed"] in wanted]
    return {language_of(name): group for name, group in sources.by_candidate(chosen).items()}


def scratch_of(target: str) -> float | None:
    """Bits per character of the model with random layers."""
    values = [
        one.value
        for one in rows_of(target)
        if one.axes["method"] == "scratch" and getattr(one, "metric", "") == BITS
    ]
    return values[-1] if values else None


def looks_of(target: str) -> dict[str, dict[str, float]]:
    """Validation loss of each source's run (seed 0) at each look of its first phase."""
    found: dict[str, dict[str, float]] = {}
    for outcome in latest(rows_of(target)).values():
        for one in outcome.rows:
            wanted = isinstance(one, CurveRow) and (one.split, one.phase) == ("valid", FIRST_PHASE)
            if not wanted or one.axes["method"] != "xpt" or one.axes["seed"] != 0:
                continue
            source = language_of(str(one.axes[sources.AXIS]))
            *most, last = one.points
            for number, (_, loss) in enumerate(most, 1):
                name = f"loss at step {EVERY_STEPS * number}"
                found.setdefault(name, {})[source] = loss
            found.setdefault("loss after phase 1", {})[source] = last[1]
    return found


def predictors_of(final: predictors.Scores, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name, values by target and source, and direction of all predictors."""
    rows = []
    for name, (title, higher) in FACTS.items():
        values: predictors.Scores = {}
        for one in facts:
            if one[name] is not None:
                values.setdefault(one["target"], {})[one["source"]] = one[name]
        rows.append({"name": title, "values": values, "higher": higher, "kind": "fact"})
    kin = {
        t: {s: float(sum(a == b for a, b in zip(BRANCHES[t], BRANCHES[s], strict=True))) for s in r}
        for t, r in final.items()
    }
    rows.append({"name": "kinship", "values": kin, "higher": True, "kind": "fact"})
    rows.append(
        {"name": "other targets", "values": elsewhere(final), "higher": False, "kind": "grid"}
    )
    looks = {target: looks_of(target) for target in final}
    for name in dict.fromkeys(name for found in looks.values() for name in found):
        values = {target: found[name] for target, found in looks.items() if name in found}
        rows.append({"name": name, "values": values, "higher": False, "kind": "probe"})
    return rows


def elsewhere(final: predictors.Scores) -> predictors.Scores:
    """How a source does on the other targets: bits less those of the same target's mean."""
    level = {target: sum(row.values()) / len(row) for target, row in final.items()}
    found: predictors.Scores = {}
    for target, scores in final.items():
        for source in scores:
            gains = [
                row[source] - level[other]
                for other, row in final.items()
                if other != target and source in row
            ]
            if gains:
                found.setdefault(target, {})[source] = sum(gains) / len(gains)
    return found


# -- the page


def score_table(grid: dict[str, dict[str, Any]]) -> Any:
    """Sources down, targets across."""
    targets = list(grid)
    best = {t: min(g.mean(BITS) for g in grid[t].values()) for t in targets}
    rows = []
    for source in LANGUAGES:
        cells: list[str | TableCell] = [source]
        for target in targets:
            group = grid[target].get(source)
            mean = None if group is None else group.mean(BITS)
            rank = BEST if mean is not None and mean == best[target] else 0
            cells.append(TableCell(numbers.fixed(mean, 3), rank=rank))
        rows.append(row(*cells))
    random = [scratch_of(target) for target in targets]
    if any(value is not None for value in random):
        cells = [numbers.fixed(value, 3) for value in random]
        rows.append(row("random layers", *cells, role="reference"))
    spread = [
        numbers.fixed(max(g.mean(BITS) for g in grid[t].values()) - best[t], 3) for t in targets
    ]
    rows.append(row("worst less best", *spread, role="reference"))
    return table("bits per character", ("source", *targets), rows)


def predictor_table(found: list[dict[str, Any]]) -> Any:
    rows = []
    for one in found:
        held = one["held"]
        mean = numbers.fixed(held["correlation"], 2)
        low, high = (numbers.fixed(held[bound], 2) for bound in ("low", "high"))
        between = "" if held["low"] is None else f"[{low}, {high}]"
        p = numbers.ABSENT if held["p"] is None else numbers.fixed(held["p"], 3)
        sign = "higher" if one["higher"] else "lower"
        known = sum(value is not None for value in held["by_target"].values())
        regret = numbers.fixed(held["regret"], 3)
        rows.append((one["name"], sign, TableCell(mean, under=between), p, str(known), regret))
    head = ("predictor", "good is", "Spearman", "p", "targets", "regret")
    return table("predictors", head, rows)


def drawing(found: list[dict[str, Any]]) -> Figure:
    """Correlations with their intervals, one line each."""
    shown = [one for one in found if one["held"]["correlation"] is not None]

    def draw(axes: Any, form: str) -> None:
        colours = {"fact": 0, "grid": 1, "probe": 2}
        for place, one in enumerate(reversed(shown)):
            held, index = one["held"], colours[one["kind"]]
            ends = [held["low"], held["high"]]
            figure.line(axes, ends, [place, place], index, linestyle="-", linewidth=1.2)
            figure.line(axes, [held["correlation"]], [place], index, marker="o", markersize=4)
        axes.axvline(0, color=figure.FAINT, linewidth=0.8)
        axes.set_yticks(range(len(shown)), [one["name"] for one in reversed(shown)], fontsize=7)
        axes.set_xlim(-1.05, 1.05)
        axes.set_ylim(-0.7, len(shown) - 0.3)
        axes.set_xlabel("Spearman's correlation with the final bits per character")
        if form == "wide":
            axes.set_position([0.2, 0.13, 0.77, 0.78])

    told = "; ".join(
        f"{one['name']} {numbers.fixed(one['held']['correlation'], 2)}" for one in shown
    )
    names = (("fact", 0), ("other targets of the grid", 1), ("the run's own early loss", 2))
    return Figure("predictors", draw, names, told, "", 1.25)


def ranking_lines(grid: dict[str, dict[str, Any]]) -> list[str]:
    """What the intervals over the test text allow to say of each target."""
    return [
        f"- **{target}**: {sources.verdict(sources.standings(groups, Resampling()))}"
        for target, groups in grid.items()
    ]


def finals(grid: dict[str, dict[str, Any]]) -> predictors.Scores:
    """Bits per character by target and source."""
    return {t: {s: g.mean(BITS) for s, g in groups.items()} for t, groups in grid.items()}


def judged(rows: list[dict[str, Any]], final: predictors.Scores) -> list[dict[str, Any]]:
    """Predictors with how well they hold."""
    found = []
    for one in rows:
        held = predictors.held(one["values"], final, higher=one["higher"])
        found.append({key: one[key] for key in ("name", "kind", "higher")} | {"held": asdict(held)})
    return found


def across_seeds(facts: list[dict[str, Any]]) -> list[str]:
    """What seed 0 foretells of seed 1: nothing of the two runs is common but text and source."""
    first, second = (
        {target: groups for target in TARGETS if (groups := groups_of(target, seed))}
        for seed in (0, 1)
    )
    if len(second) < 2:
        return []
    again = finals(second)
    known = {target: scores for target, scores in finals(first).items() if target in again}
    rows = [{"name": "final score", "values": known, "higher": False, "kind": "grid"}]
    rows += [one for one in predictors_of(known, facts) if one["kind"] == "probe"]
    apart = {
        target: {
            (one.candidate.rpartition("/")[2], other.rpartition("/")[2]): -1
            for one in sources.standings(first[target], Resampling())
            for other in one.ahead_of
        }
        for target in again
    }
    same = predictors.agreement(apart, again)
    pairs = sum(len(scores) * (len(scores) - 1) // 2 for scores in again.values())
    return [
        "## What repeats with another seed\n",
        f"The final score of seed 1, foretold by what seed 0 showed ({', '.join(again)}). The "
        "first row is the most that any predictor can be expected to reach at this size.",
        markdown(predictor_table(judged(rows, again))),
        f"Intervals over the test text alone tell {same.apart} of {pairs} pairs of sources apart "
        f"at seed 0; {same.same} of these are in the same order at seed 1.",
    ]


def made() -> dict[Path, str]:
    """The page and its figure, from the rows and the notes."""
    grid = {target: groups for target in TARGETS if (groups := groups_of(target))}
    final = finals(grid)
    facts = archive.table(GRID, "facts")
    found = judged(predictors_of(final, facts), final)
    regrets = [sum(row.values()) / len(row) - min(row.values()) for row in final.values()]
    chance = sum(regrets) / len(regrets)
    cells = sum(map(len, final.values()))
    seeds = {len(group.values(BITS)) for groups in grid.values() for group in groups.values()}
    picture = drawing(found)
    shown = f"![{picture.description}](../figures/{GRID}.svg)"
    notes = (FOLDER / f"notes/{GRID}.md").read_text(encoding="utf-8").strip()
    parts = [
        HEAD,
        notes.replace(FIGURE, shown),
        "## Bits per character\n",
        f"{cells} pairs, {len(grid)} targets, seeds a pair: {', '.join(map(str, sorted(seeds)))}. "
        "Lower is better; the best source of each target is bold. Columns do not compare.",
        markdown(score_table(grid)),
        "What intervals over blocks of the test text (and seeds, where there are two) tell apart:",
        "\n".join(ranking_lines(grid)),
        "## Predictors\n",
        "Spearman's correlation with the final score within a target, mean over the targets; "
        "positive where the predictor points to good sources. Intervals: targets, and sources "
        "within them, drawn again. p: one-sided, the predictor's values permuted among the sources "
        "of each target. Regret: bits per character that its first choice is worse than the best "
        f"source; a source drawn at random: {chance:.3f}. “loss …”: on the validation documents, "
        "at seed 0, in the very run whose end is foretold.",
        markdown(predictor_table(found)),
        *across_seeds(facts),
    ]
    page = "\n\n".join(part for part in parts if part) + "\n"
    return {
        FOLDER / f"pages/{GRID}.md": page,
        FOLDER / f"figures/{GRID}.svg": picture.alone(),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    (FOLDER / "figures").mkdir(exist_ok=True)
    for path, text in made().items():
        write_text(path, text)
        print(path.relative_to(FOLDER))


if __name__ == "__main__":
    main()
