"""Error analysis of a task: tables for the page and sheets for files, models side by side.

Language Chameleon, tables 8 to 10, show what each gold label was taken for; the rest is ours.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.comparison.breakdowns import Breakdown, breakdowns
from lingraft.comparison.collect import answers
from lingraft.comparison.samples import Samples, samples
from lingraft.report import numbers
from lingraft.report.table import Cell, Column, row, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.comparison.breakdowns import Cells, Row
    from lingraft.comparison.collect import Part
    from lingraft.report.table import Table

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
    """One breakdown of all models: means over the seeds."""

    breakdown: Breakdown
    models: tuple[str, ...]
    sizes: Mapping[Row, int]
    """By row; of confusions, the number with that gold."""
    values: Mapping[Row, Sequence[float | None]]
    """By row, of each model: None where it lacks the row, but 0 in confusions."""


def analyse(part: Part) -> Errors:
    """What the models of a part get wrong.

    Raises:
        DataError: predictions are missing or of another kind than the task.
    """
    views = breakdowns(part)
    cells: list[dict[str, list[Cells]]] = [{} for _ in views]
    lists: dict[str, list[Samples]] = {}
    for label, runs in part.runs.items():
        seeds = [answers(part, run) for run in runs]
        for breakdown, by_label in zip(views, cells, strict=True):
            by_label[label] = [breakdown.measure(of_seed) for of_seed in seeds]
        lists[label] = samples(part, seeds, FILED_SAMPLES)
    means = [_means(breakdown, by_label) for breakdown, by_label in zip(views, cells, strict=True)]
    tables = [table for mean in means for table in _tables(mean)]
    sheets = [_sheet(mean) for mean in means]
    by_model = {
        label: tuple(_sample_table(group) for group in groups if group.samples)
        for label, groups in lists.items()
    }
    return Errors(part.title, tuple(tables), by_model, (*sheets, *_sample_sheets(lists)))


def _means(breakdown: Breakdown, cells: Mapping[str, Sequence[Cells]]) -> Means:
    rows = [rows for seeds in cells.values() for rows in seeds]
    sizes: dict[Row, int] = {}
    for of_seed in rows:
        sizes |= {row: cell.n for row, cell in of_seed.items() if row not in sizes}

    def mean(row: Row, seeds: Sequence[Cells]) -> float | None:
        scores = [of_seed[row].value for of_seed in seeds if row in of_seed]
        if breakdown.confusion:
            return sum(scores) / len(seeds)
        return fmean(scores) if scores else None

    values = {row: [mean(row, seeds) for seeds in cells.values()] for row in sizes}
    return Means(breakdown, tuple(cells), sizes, values)


def _tables(means: Means) -> list[Table]:
    if not means.breakdown.confusion:
        return [_plain(means)]
    return [_taken_for(means), *_most_confused(means)]


def _plain(means: Means) -> Table:
    breakdown = means.breakdown
    rows = list(means.sizes)
    notes = [breakdown.note] if breakdown.note else []
    if len(rows) > SHOWN_ROWS:
        notes.append(f"{SHOWN_ROWS} of {len(rows)} rows; all are in the file.")
    visible = [
        (
            *row,
            f"{means.sizes[row]:,}",
            *(numbers.fixed(value, breakdown.decimals) for value in means.values[row]),
        )
        for row in rows[:SHOWN_ROWS]
    ]
    return table(breakdown.title, (*breakdown.rows, "n", *means.models), visible, notes)


def _taken_for(means: Means) -> Table:
    """By gold label what each model took it for, the commonest first (tables 8 to 10)."""
    totals = {gold: size for (gold, _), size in means.sizes.items()}
    order = sorted(totals, key=lambda gold: -totals[gold])
    rows = []
    for gold in order[:SHOWN_ROWS]:
        cells = [gold, f"{totals[gold]:,}"]
        for place in range(len(means.models)):
            predicted = {
                pair[1]: count
                for pair, counts in means.values.items()
                if pair[0] == gold and (count := counts[place])
            }
            top = sorted(predicted, key=lambda label: -predicted[label])[:SHOWN_LABELS]
            cells.append(", ".join(f"{label} {predicted[label]:,.0f}" for label in top))
        rows.append(cells)
    notes = [means.breakdown.note]
    if len(order) > SHOWN_ROWS:
        notes.append(f"The {SHOWN_ROWS} commonest of {len(order)}; all are in the file.")
    models = (Column(label, "long") for label in means.models)
    title = f"{means.breakdown.title}: what gold was taken for"
    return table(title, ("gold", "n", *models), rows, notes)


def _most_confused(means: Means) -> list[Table]:
    total = {
        (gold, predicted): sum(value or 0.0 for value in means.values[gold, predicted])
        for gold, predicted in means.sizes
        if gold != predicted
    }
    top = sorted(total, key=lambda pair: -total[pair])[:SHOWN_PAIRS]
    if not top:
        return []
    rows = []
    for pair in top:
        size = means.sizes[pair]
        counts = (count or 0.0 for count in means.values[pair])
        cells = [Cell(numbers.fixed(count, 0), numbers.percent(count / size)) for count in counts]
        rows.append(row(" → ".join(pair), f"{size:,}", *cells))
    head = ("gold → said", "n", *means.models)
    note = "Counts, and shares of the gold label; by the sum over the models."
    return [table(f"{means.breakdown.title}: most confused", head, rows, (note,))]


def _sheet(means: Means) -> Sheet:
    breakdown = means.breakdown
    rows = [
        (*row, size, *("" if value is None else value for value in means.values[row]))
        for row, size in means.sizes.items()
    ]
    return Sheet(breakdown.name, (*breakdown.rows, "n", *means.models), tuple(rows))


def _sample_table(group: Samples) -> Table:
    rows = [
        (sample.id, sample.text, sample.gold, sample.said, numbers.fixed(sample.value, 2))
        for sample in group.samples[:SHOWN_SAMPLES]
    ]
    texts = (Column(text, "long") for text in ("text", "gold", "said"))
    return table(group.title, ("id", *texts, group.value), rows)


def _sample_sheets(lists: Mapping[str, Sequence[Samples]]) -> list[Sheet]:
    rows: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    values: dict[str, str] = {}
    for label, groups in lists.items():
        for group in groups:
            values[group.name] = group.value
            for sample in group.samples:
                cells = (sample.text, sample.gold, sample.said, sample.value)
                rows[group.name].append((label, sample.id, *cells))
    return [
        Sheet(name, ("model", "id", "text", "gold", "said", values[name]), tuple(lines))
        for name, lines in rows.items()
    ]
