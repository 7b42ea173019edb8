"""Error analysis of a task: tables for the page and sheets for files, models side by side.

Examples that models get wrong or are unsure of stand with their texts, averaged over the seeds.

Language Chameleon, tables 8 to 10, show what each gold label was taken for; the rest is ours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.comparison.breakdowns import Breakdown, breakdowns
from lingraft.comparison.collect import answers
from lingraft.report import numbers
from lingraft.report.table import Cell, Column, row, table
from lingraft.tasks.dependency.metrics import right_words
from lingraft.tasks.examples import SpanExample, TextExample
from lingraft.tasks.tagging_metrics import entity_spans, shown_tags
from lingraft.tasks.words import are_entities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingraft.comparison.breakdowns import Cells, Row
    from lingraft.comparison.collect import Answers, Part
    from lingraft.report.table import Table
    from lingraft.tasks.examples import Example


@dataclass(frozen=True)
class Sample:
    """One example as a model sees it."""

    id: str
    text: str
    gold: str
    said: str
    value: float
    """What the list is ordered by."""


@dataclass(frozen=True)
class Samples:
    """A list of examples of one model."""

    name: str
    title: str
    value: str
    """What `Sample.value` is."""
    samples: tuple[Sample, ...]


def samples(part: Part, seeds: Sequence[Answers], limit: int) -> list[Samples]:
    """The lists that a kind of task has: most uncertain and most surprising, or the worst.

    Args:
        part: the task, with its examples.
        seeds: what one model said with each seed.
        limit: examples in each list.
    """
    match part.task.kind:
        case "classification" | "pair" | "relation":
            return _labels(part, seeds, limit)
        case "regression":
            return [_residuals(seeds, limit)]
        case "tagging" if not are_entities(part.task.labels):
            return [_worst(seeds, limit, "tags wrong", _wrong_tags, _tags)]
        case "tagging":
            return [_worst(seeds, limit, "entities wrong", _wrong_entities, _entities)]
        case "parsing":
            return [_worst(seeds, limit, "words wrong", _wrong_words, _arcs)]
        case "span":
            return [_worst(seeds, limit, "points lost", _lost(part), _answer)]
        case "translation":
            return [_worst(seeds, limit, "points lost", _lost(part), _translations)]


def _labels(part: Part, seeds: Sequence[Answers], limit: int) -> list[Samples]:
    """From the mean of the seeds' probabilities; none where they were not saved."""
    labels = part.task.labels
    tables = [[prediction.probabilities for _, prediction in answers.pairs] for answers in seeds]
    if any(len(row) != len(labels) for table in tables for row in table):
        return []
    surprising, uncertain = [], []
    means = np.mean(tables, axis=0).tolist()
    for (example, _), chances in zip(seeds[0].pairs, means, strict=True):
        fields = (example.id, _text(example), example.label, labels[chances.index(max(chances))])
        entropy = -sum(p * math.log2(p) for p in chances if p > 0)
        uncertain.append(Sample(*fields, entropy))
        if fields[2] != fields[3]:
            surprising.append(Sample(*fields, chances[labels.index(example.label)]))
    surprising.sort(key=lambda sample: sample.value)
    uncertain.sort(key=lambda sample: -sample.value)
    title, value = "Most surprising mistakes", "probability of gold"
    return [
        Samples("surprising", title, value, tuple(surprising[:limit])),
        Samples("uncertain", "Most uncertain", "entropy (bits)", tuple(uncertain[:limit])),
    ]


def _text(example: Example) -> str:
    if isinstance(example, SpanExample):
        return example.question
    if isinstance(example, TextExample) and example.pair is not None:
        return f"{example.text} ‖ {example.pair}"
    return example.text


def _residuals(seeds: Sequence[Answers], limit: int) -> Samples:
    ranked = []
    for (example, _), *predictions in zip(
        seeds[0].pairs, *(seed.predictions for seed in seeds), strict=True
    ):
        mean = fmean(prediction.score for prediction in predictions)
        fields = (f"{example.score:.2f}", f"{mean:.2f}", mean - example.score)
        ranked.append(Sample(example.id, _text(example), *fields))
    ranked.sort(key=lambda sample: -abs(sample.value))
    return Samples("surprising", "Furthest from gold", "said less gold", tuple(ranked[:limit]))


def _worst(
    seeds: Sequence[Answers],
    limit: int,
    value: str,
    wrong: Callable[[Any, Any], float],
    show: Callable[[Any, Any], tuple[str, str]],
) -> Samples:
    """Examples with most wrong, on the mean over the seeds; shown as the first seed has them."""
    counts_SN = [[wrong(*pair) for pair in answers.pairs] for answers in seeds]
    means = [fmean(of_seeds) for of_seeds in zip(*counts_SN, strict=True)]
    ranked = []
    for index in sorted(range(len(means)), key=lambda place: -means[place])[:limit]:
        example, prediction = seeds[0].pairs[index]
        ranked.append(Sample(example.id, _text(example), *show(example, prediction), means[index]))
    return Samples("worst", f"Most {value}", value, tuple(ranked))


def _wrong_entities(example: Any, prediction: Any) -> float:
    gold, guess = map(entity_spans, shown_tags(example, prediction))
    return len(gold ^ guess)


def _entities(example: Any, prediction: Any) -> tuple[str, str]:
    units = [unit for unit in example.units if not unit.isspace()]
    joint = "" if example.characters else " "

    def shown(tags: list[str]) -> str:
        spans = sorted(entity_spans(tags), key=lambda span: span[1])
        return ", ".join(
            f"{joint.join(units[begin : end + 1])} ({kind})" for kind, begin, end in spans
        )

    gold, guess = shown_tags(example, prediction)
    return shown(gold), shown(guess)


def _wrong_tags(example: Any, prediction: Any) -> float:
    gold, guess = shown_tags(example, prediction)
    return sum(map(str.__ne__, gold, guess))


def _tags(example: Any, prediction: Any) -> tuple[str, str]:
    units = [unit for unit in example.units if not unit.isspace()]
    gold, guess = shown_tags(example, prediction)
    wrong = [i for i, pair in enumerate(zip(gold, guess, strict=True)) if pair[0] != pair[1]]

    def shown(tags: list[str]) -> str:
        return ", ".join(f"{units[i]} ({tags[i]})" for i in wrong)

    return shown(gold), shown(guess)


def _wrong_words(example: Any, prediction: Any) -> float:
    return sum(not right for _, right in right_words(example, prediction))


def _arcs(example: Any, prediction: Any) -> tuple[str, str]:
    wrong = [i for i, (_, right) in enumerate(right_words(example, prediction)) if not right]
    names = ("root", *example.words)

    def shown(heads: Sequence[int], relations: Sequence[str]) -> str:
        return ", ".join(f"{example.words[i]} → {names[heads[i]]} ({relations[i]})" for i in wrong)

    return shown(example.heads, example.relations), shown(prediction.heads, prediction.relations)


def _lost(part: Part) -> Callable[[Any, Any], float]:
    """What an answer lacks of the last headline score (ROUGE-W, F1, chrF++), in percent."""

    def lost(example: Any, prediction: Any) -> float:
        scores = part.task.score_functions([example], [prediction])
        return 100 - float(scores[part.keys[-1]](np.ones((1, 1)))[0])

    return lost


def _translations(example: Any, prediction: Any) -> tuple[str, str]:
    return example.translation, prediction.translation


def _answer(example: Any, prediction: Any) -> tuple[str, str]:
    gold = " / ".join(answer.text for answer in example.answers or ()) or "(does not say)"
    return gold, prediction.text or "(does not say)"


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
