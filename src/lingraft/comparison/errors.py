"""Error analysis of a task: tables for the page and sheets for files, models side by side.

Language Chameleon, tables 8 to 10, show what each gold label was taken for; the rest is ours.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.comparison.breakdowns import ARROW, Breakdown, breakdowns
from lingraft.comparison.samples import Samples, samples
from lingraft.report import numbers
from lingraft.report.table import Cell as Shown
from lingraft.report.table import Column, row, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.comparison.breakdowns import Cell
    from lingraft.comparison.collect import Part
    from lingraft.report.table import Table
    from lingraft.tasks.predictions import Prediction

SHOWN_SAMPLES = 5
FILED_SAMPLES = 50
SHOWN_PAIRS = 10
SHOWN_LABELS = 4
SHOWN_ROWS = 16


@dataclass(frozen=True)
class Sheet:
    """Rows of a CSV file."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Errors:
    """The error analysis of one task."""

    title: str
    tables: tuple[Table, ...]
    samples: Mapping[str, tuple[Table, ...]]
    """By model."""
    sheets: tuple[Sheet, ...]


@dataclass(frozen=True)
class Means:
    """One breakdown of all models: means over the seeds by row."""

    breakdown: Breakdown
    sizes: Mapping[str, int]
    """By row; of confusions, the number with that gold."""
    values: Mapping[str, Mapping[str, float]]
    """By model and row; a row that a model lacks is 0 in confusions."""


def analyse(part: Part) -> Errors:
    """What the models of a part get wrong.

    Raises:
        DataError: predictions are missing or of another kind than the task.
    """
    wanted = breakdowns(part)
    cells: dict[str, dict[str, list[dict[str, Cell]]]] = {one.title: {} for one in wanted}
    lists: dict[str, list[Samples]] = {}
    for label, runs in part.runs.items():
        seeds: list[list[Prediction]] = [run.predictions(part.examples) for run in runs]
        for one in wanted:
            cells[one.title][label] = [one.measure(part, said) for said in seeds]
        lists[label] = samples(part, seeds, FILED_SAMPLES)
    means = [_means(one, cells[one.title]) for one in wanted]
    tables = [table for one in means for table in _tables(one, len(part.examples))]
    sheets = [_sheet(one) for one in means]
    shown = {
        label: tuple(_sample_table(one) for one in found if one.samples)
        for label, found in lists.items()
    }
    return Errors(part.title, tuple(tables), shown, (*sheets, *_sample_sheets(lists)))


def _means(breakdown: Breakdown, cells: Mapping[str, Sequence[Mapping[str, Cell]]]) -> Means:
    sizes: dict[str, int] = {}
    values: dict[str, dict[str, float]] = {}
    for label, seeds in cells.items():
        found: defaultdict[str, list[float]] = defaultdict(list)
        for rows in seeds:
            for name, cell in rows.items():
                sizes.setdefault(name, cell.n)
                found[name].append(cell.value)
        values[label] = {
            name: sum(one) / len(seeds) if breakdown.confusion else fmean(one)
            for name, one in found.items()
        }
    return Means(breakdown, sizes, values)


def _tables(means: Means, n: int) -> list[Table]:
    if not means.breakdown.confusion:
        return [_plain(means)]
    return [_taken_for(means, n), *_most_confused(means)]


def _plain(means: Means) -> Table:
    one = means.breakdown
    rows = list(means.sizes)
    notes = [one.note] if one.note else []
    if len(rows) > SHOWN_ROWS:
        notes.append(f"{SHOWN_ROWS} of {len(rows)} rows; all are in the file.")
    shown = [
        (
            row,
            f"{means.sizes[row]:,}",
            *(numbers.fixed(v.get(row), one.decimals) for v in means.values.values()),
        )
        for row in rows[:SHOWN_ROWS]
    ]
    return table(one.title, (one.rows, "n", *means.values), shown, notes)


def _taken_for(means: Means, n: int) -> Table:
    """By gold label what each model took it for, the commonest first (tables 8 to 10)."""
    totals: dict[str, int] = {}
    for pair, size in means.sizes.items():
        totals.setdefault(pair.partition(ARROW)[0], size)
    order = sorted(totals, key=lambda gold: -totals[gold])
    rows = []
    for gold in order[:SHOWN_ROWS]:
        cells = [gold, f"{totals[gold]:,}"]
        for values in means.values.values():
            said = {
                pair.partition(ARROW)[2]: value
                for pair, value in values.items()
                if pair.partition(ARROW)[0] == gold
            }
            top = sorted(said, key=lambda label: -said[label])[:SHOWN_LABELS]
            cells.append(", ".join(f"{one} {said[one]:,.0f}" for one in top))
        rows.append(cells)
    notes = [means.breakdown.note]
    if len(order) > SHOWN_ROWS:
        notes.append(f"The {SHOWN_ROWS} commonest of {len(order)}; all are in the file.")
    models = (Column(label, "long") for label in means.values)
    title = f"{means.breakdown.title}: what gold was taken for"
    return table(title, ("gold", "n", *models), rows, notes)


def _most_confused(means: Means) -> list[Table]:
    wrong = [pair for pair in means.sizes if len(set(pair.split(ARROW))) == 2]
    total = {pair: sum(v.get(pair, 0) for v in means.values.values()) for pair in wrong}
    top = sorted(wrong, key=lambda pair: -total[pair])[:SHOWN_PAIRS]
    if not top:
        return []
    rows = []
    for pair in top:
        size = means.sizes[pair]
        counts = (values.get(pair, 0.0) for values in means.values.values())
        shown = [Shown(numbers.fixed(one, 0), numbers.percent(one / size)) for one in counts]
        rows.append(row(pair, f"{size:,}", *shown))
    head = ("gold → said", "n", *means.values)
    note = "Counts, and shares of the gold label; by the sum over the models."
    return [table(f"{means.breakdown.title}: most confused", head, rows, (note,))]


def _sheet(means: Means) -> Sheet:
    one = means.breakdown
    first = ("gold", "said") if one.confusion else (one.rows,)
    rows = [
        (
            *(row.split(ARROW) if one.confusion else (row,)),
            means.sizes[row],
            *(values.get(row, 0.0 if one.confusion else "") for values in means.values.values()),
        )
        for row in means.sizes
    ]
    return Sheet(one.name, (*first, "n", *means.values), tuple(rows))


def _sample_table(found: Samples) -> Table:
    rows = [
        (one.id, one.text, one.gold, one.said, numbers.fixed(one.value, 2))
        for one in found.samples[:SHOWN_SAMPLES]
    ]
    texts = (Column(text, "long") for text in ("text", "gold", "said"))
    return table(found.title, ("id", *texts, found.value), rows)


def _sample_sheets(lists: Mapping[str, Sequence[Samples]]) -> list[Sheet]:
    rows: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    values: dict[str, str] = {}
    for label, found in lists.items():
        for one in found:
            values[one.name] = one.value
            for sample in one.samples:
                told = (sample.text, sample.gold, sample.said, sample.value)
                rows[one.name].append((label, sample.id, *told))
    return [
        Sheet(name, ("model", "id", "text", "gold", "said", values[name]), tuple(found))
        for name, found in rows.items()
    ]
