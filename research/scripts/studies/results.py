"""The rows of a study in order: cells of equal method and size side by side, seeds together."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.finetuning.outcomes import metric_name
from lingraft.recipe.records import METHODS
from lingraft.report.variants import STREAM, TITLES
from lingraft.study.analysis import SeedGroup
from studies.metrics import BITS, LOSS, PERPLEXITY
from studies.notes import on_common
from studies.rows import CurveRow, EndRow, MetricRow, TaskRow, fine_tuned, latest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from studies.rows import AnyRow, Tuned, Value

Array = np.ndarray[Any, Any]

INITIALIZER = "embeddings.init"
RANDOM = "random"
PLACES = ("method", "sentences", "seed")
"""Axes that every table knows; any other becomes part of the row's label."""
REFERENCES = ("scratch", "xlm")
"""Methods from random weights, which others are measured against; the first that is there."""
WRITTEN = re.compile(r"(^|/)(spans|infilling)/")
SENTENCES, EXAMPLES = "sentences", "examples"
Key = tuple[int, ...]
"""Which model of a group: its seed; fine-tuned, its seed and that of the fine-tuning."""


def describe_rules(rules: dict[str, dict[str, float]], keys: Sequence[str]) -> str:
    """Describe each rule's results in the scores that tables show; empty without rules."""
    return "; ".join(
        ", ".join(f"{metric_name(key)} {scores[key]:.1f}" for key in keys) + f" ({rule})"
        for rule, scores in rules.items()
    )


@dataclass(frozen=True)
class Cell:
    """One finished run of the study."""

    name: str
    seed: int
    metrics: dict[str, MetricRow]
    curves: tuple[CurveRow, ...]
    end: EndRow
    tasks: dict[str, dict[int, MetricRow]] = field(default_factory=dict)
    """By metric `task/NAME/SCORE` and seed of fine-tuning."""
    written: str = ""
    """What was hidden from an encoder–decoder that writes it: spans or infilling."""
    seconds: float = 0.0
    """Of training and evaluation, and of the fine-tunings."""


@dataclass(frozen=True)
class Group(SeedGroup):
    """Cells that differ in nothing but the seed, with the axes that tell groups apart."""

    further: dict[str, Value] = field(kw_only=True)
    """Axes beside method, sentences and seed."""

    @property
    def beside(self) -> dict[str, Value]:
        """Method and further axes, but for the initializer."""
        axes = {key: value for key, value in self.further.items() if key != INITIALIZER}
        return {"method": self.method, **axes}

    def sound(self, metric: str) -> float | None:
        """The mean where it is a number: not of a training that diverged."""
        mean = self.mean(metric)
        return mean if mean is not None and math.isfinite(mean) else None

    @property
    def writes(self) -> bool:
        """Whether its models are encoder–decoders, which write what is hidden."""
        return any(cell.written for cell in self.cells)

    @property
    def precisions(self) -> dict[int, str]:
        """What each seed was trained in."""
        return {cell.seed: str(cell.end.machine.get("precision", "")) for cell in self.cells}

    def masks(self) -> frozenset[str]:
        """The masks that the seeds were scored on, usually one set."""
        return frozenset(row.masks for cell in self.cells for row in cell.metrics.values())


@dataclass(frozen=True)
class TaskShown:
    """A task that cells were fine-tuned on."""

    name: str
    metrics: tuple[str, ...]
    """Those that papers report."""
    splits: str
    """What the splits are, as `Outcome.split_note`."""
    n: int
    """Examples scored."""
    train_examples: int
    rules: str = ""
    """What needs no model, as a clause."""
    rates: tuple[tuple[float, int], ...] = ()
    """Learning rates that were the best on the development set, and of how many fine-tunings."""


@dataclass(frozen=True)
class Failure:
    """A cell whose last attempt failed, or one of whose tasks did."""

    cell: str
    message: str


@dataclass(frozen=True)
class Results:
    """All that is known of a study."""

    groups: tuple[Group, ...]
    """By size, and within a size in the order of the labels."""
    labels: tuple[str, ...]
    """Methods in the order of `methods.METHODS`; those with further axes last."""
    failures: tuple[Failure, ...]
    tasks: tuple[TaskShown, ...] = ()
    """In the order in which they were run."""
    floors: tuple[Group, ...] = ()
    """Of methods that do not train, beside others: they have no size and stand at every one."""
    counted: str = SENTENCES
    """What sizes are of: sentences of text, or examples of a task (`factor.by_training_set`)."""

    @property
    def counted_text(self) -> str:
        """What sizes count, as captions say it."""
        return "examples of the task" if self.counted == EXAMPLES else "sentences of training text"

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """From small to large; None, which is everything, last."""
        return tuple(dict.fromkeys(group.sentences for group in self.groups))

    @property
    def plain(self) -> tuple[str, ...]:
        """The labels that name a method alone; all labels where that leaves no two to compare."""
        further = {group.label for group in self.groups if group.further}
        floors = {group.label for group in self.floors}
        plain = tuple(x for x in self.labels if x not in further | floors)
        return plain if len(plain) > 1 else self.labels

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for group in (*self.groups, *self.floors) for cell in group.cells)

    @property
    def task_metrics(self) -> tuple[str, ...]:
        """All that papers report, task by task."""
        return tuple(dict.fromkeys(metric for task in self.tasks for metric in task.metrics))

    def at(self, sentences: int | None) -> tuple[Group, ...]:
        """The groups of one size."""
        return tuple(group for group in self.groups if group.sentences == sentences)

    def of(self, label: str) -> tuple[Group, ...]:
        """The groups of one label, from small to large."""
        return tuple(group for group in self.groups if group.label == label)

    def initialised(self, sentences: int | None) -> tuple[Group, ...]:
        """The groups of one size that name an initializer.

        Where none of them says `random`, the group that differs in nothing else stands before
        them: it has the initializer of the base recipe.
        """
        initialised = [group for group in self.at(sentences) if INITIALIZER in group.further]
        plain = [group for group in self.at(sentences) if INITIALIZER not in group.further]
        random = [group.beside for group in initialised if group.further[INITIALIZER] == RANDOM]
        lacking = [group.beside for group in initialised if group.beside not in random]
        return (*(group for group in plain if group.beside in lacking), *initialised)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, where there are several texts."""
        names = (name for cell in self.cells for name in cell.metrics if name.startswith(STREAM))
        return tuple(dict.fromkeys(name.split("/", 2)[1] for name in names))

    def reference(self, methods: Sequence[str] = REFERENCES) -> str | None:
        """The label that the others are measured against; None if no such method has a cell."""
        plain = {g.method: g.label for g in reversed(self.groups) if g.label in self.plain}
        return next((plain[method] for method in methods if method in plain), None)


def collect(rows: Iterable[AnyRow]) -> Results:
    """Put the rows of a results file in order.

    Rows of attempts that failed or were killed count for nothing. Of a cell that was run again with
    another fingerprint, the last one that was done counts. Bits per character are over the words
    that all cells score, where the rows tell of words.
    """
    all_rows = list(rows)
    tuned = fine_tuned(all_rows)
    done: dict[str, tuple[dict[str, Value], Cell]] = {}
    failed: dict[str, str] = {}
    task_rows: dict[str, list[TaskRow]] = {}
    for name, outcome in latest(all_rows).items():
        end = outcome.end
        if end.status == "failed":
            failed[end.cell] = end.message
            continue
        failed.pop(end.cell, None)
        rows_of_tasks, message = _current(tuned.get(name, {}))
        if message:
            failed[end.cell] = message
        for row in rows_of_tasks:
            task_rows.setdefault(row.task, []).append(row)
        done[repr(sorted(end.axes.items()))] = (end.axes, _cell(end, outcome.rows, rows_of_tasks))
    failures = tuple(Failure(*item) for item in failed.items())
    cells = on_common([cell for _, cell in done.values()], BITS)
    placed = [(axes, cell) for (axes, _), cell in zip(done.values(), cells, strict=True)]
    return replace(_ordered(placed, failures), tasks=tuple(map(_shown, task_rows.values())))


def _current(tuned: Tuned) -> tuple[list[TaskRow], str]:
    """Of each task, the rows of its last form that was done; and why one of the last failed."""
    task_rows: list[TaskRow] = []
    message = ""
    for task in dict.fromkeys(row.task for row in tuned.values()):
        rows = [row for row in tuned.values() if row.task == task]
        done = [row for row in rows if row.status == "done"]
        task_rows += [row for row in done if row.task_fingerprint == done[-1].task_fingerprint]
        last_form = [row for row in rows if row.task_fingerprint == rows[-1].task_fingerprint]
        message = next((row.message for row in last_form if row.status == "failed"), message)
    return task_rows, message


def _shown(rows: Sequence[TaskRow]) -> TaskShown:
    row = rows[-1]
    rates = Counter(one.learning_rate for one in rows if one.learning_rate is not None)
    n = max((score.n for score in row.scores if score.metric in row.shown), default=0)
    keys = next(iter(row.rules.values()), ())
    rules = describe_rules(row.rules, keys)
    return TaskShown(
        row.task, row.shown, row.splits, n, row.train_examples, rules, tuple(sorted(rates.items()))
    )


def _tasks(task_rows: Sequence[TaskRow]) -> dict[str, dict[int, MetricRow]]:
    """Scores as rows of metrics, by metric and seed of fine-tuning."""
    metrics: dict[str, dict[int, MetricRow]] = {}
    for row in task_rows:
        for score in row.scores:
            metrics.setdefault(score.metric, {})[row.seed] = MetricRow(
                study=row.study,
                cell=row.cell,
                fingerprint=row.fingerprint,
                axes=row.axes,
                seed=row.seed,
                tokens=0,
                seconds=row.seconds,
                **score.model_dump(),
            )
    return metrics


def _cell(
    end: EndRow, rows: Sequence[MetricRow | CurveRow], of_tasks: Sequence[TaskRow] = ()
) -> Cell:
    metric_rows = [_of_hidden(row) for row in rows if isinstance(row, MetricRow)]
    metrics = {row.metric: row for row in metric_rows}
    perplexity = metrics.get(PERPLEXITY)
    if perplexity is not None:
        loss = {"metric": LOSS, "value": math.log(perplexity.value)}
        metrics[LOSS] = perplexity.model_copy(update=loss)
    seed = end.axes.get("seed")
    seeds = {row.seed for row in metrics.values()}
    return Cell(
        name=end.cell,
        seed=seed if isinstance(seed, int) else min(seeds, default=0),
        metrics=metrics,
        curves=tuple(row for row in rows if isinstance(row, CurveRow)),
        end=end,
        tasks=_tasks(of_tasks),
        written=next((m[2] for row in rows if (m := _written(row))), ""),
        seconds=end.seconds + sum(row.seconds for row in of_tasks),
    )


def _written(row: MetricRow | CurveRow) -> re.Match[str] | None:
    return WRITTEN.search(row.metric) if isinstance(row, MetricRow) else None


def _of_hidden(row: MetricRow) -> MetricRow:
    """What an encoder–decoder writes of hidden text, named as what others fill in."""
    name = WRITTEN.sub(r"\1mask-only/", row.metric)
    return row if name == row.metric else row.model_copy(update={"metric": name})


def _ordered(
    cells: Sequence[tuple[dict[str, Value], Cell]], failed: tuple[Failure, ...]
) -> Results:
    axis_names = _varied([axes for axes, _ in cells])
    ranks = {name: rank for rank, name in enumerate(METHODS)}
    labels: dict[str, int] = {}
    further: set[str] = set()
    together: dict[tuple[str, int | None], list[tuple[dict[str, Value], Cell]]] = {}
    for axes, cell in cells:
        label = _label(axes, axis_names)
        labels.setdefault(label, ranks.get(str(axes.get("method")), len(ranks)))
        further |= {label} if any(name in axes for name in axis_names) else set()
        together.setdefault((label, _size(axes)), []).append((axes, cell))
    order = sorted(labels, key=lambda label: (label in further, labels[label], label))
    groups = [
        Group(
            label=label,
            method=str(members[0][0].get("method", "")),
            further={key: value for key, value in members[0][0].items() if key in axis_names},
            sentences=size,
            cells=tuple(sorted((cell for _, cell in members), key=lambda cell: cell.seed)),
        )
        for (label, size), members in together.items()
    ]
    groups.sort(key=lambda group: (_rank(group.sentences), order.index(group.label)))
    floors = [group for group in groups if _is_floor(group)]
    if len(floors) == len(groups):
        floors = []
    sized_groups = [group for group in groups if group not in floors]
    return Results(tuple(sized_groups), tuple(order), failed, floors=tuple(floors))


def _is_floor(group: Group) -> bool:
    record = METHODS.get(group.method)
    return record is not None and not record.phases


def _rank(size: int | None) -> float:
    return math.inf if size is None else size


def _size(axes: dict[str, Value]) -> int | None:
    value = axes.get("sentences")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _varied(axes: Sequence[dict[str, Value]]) -> dict[str, str]:
    """Further axes that are not the same everywhere, and how a label calls them."""
    names = dict.fromkeys(name for point in axes for name in point if name not in PLACES)
    return short_names(
        [name for name in names if len({repr(point.get(name, ...)) for point in axes}) > 1]
    )


def short_names(axes: Sequence[str]) -> dict[str, str]:
    """What labels call axes: the last part of the dotted path, the whole where two end alike."""
    ends = [name.rpartition(".")[2] for name in axes]
    return {
        name: end if ends.count(end) == 1 else name for name, end in zip(axes, ends, strict=True)
    }


def _label(axes: dict[str, Value], axis_names: dict[str, str]) -> str:
    method = str(axes.get("method", "model"))
    parts = [f"{end} {axes[name]}" for name, end in axis_names.items() if name in axes]
    return ", ".join([TITLES.get(method, method), *parts])


def size_text(sentences: int | None) -> str:
    """A size as a heading says it."""
    return "all sentences" if sentences is None else f"{sentences:,} sentences"
