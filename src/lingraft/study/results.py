"""The rows of a study in order: cells that differ in the seed alone stand together."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.evaluation.records import blocks
from lingraft.finetuning.names import SIZED, unsized
from lingraft.recipe.records import METHODS
from lingraft.report.variants import TITLES
from lingraft.study.analysis import BITS, LOSS, PERPLEXITY, TASK
from lingraft.study.grid import PLACES
from lingraft.study.rows import CurveRow, EndRow, MetricRow, TaskRow, fine_tuned, latest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.study.rows import AnyRow, Value

REFERENCES = ("scratch", "xlm")
"""Methods from random weights, which others are measured against; the first that is there."""
WRITTEN = re.compile(r"(^|/)(spans|infilling)/")
"""What an encoder-decoder writes of hidden text, shown as what others fill in."""
Key = tuple[int, ...]
"""Which model of a group: its seed; fine-tuned, its seed and that of the fine-tuning."""


@dataclass(frozen=True)
class Cell:
    """One finished run of the study."""

    name: str
    seed: int
    axes: Mapping[str, Value]
    metrics: Mapping[str, MetricRow]
    curves: tuple[CurveRow, ...]
    end: EndRow
    tasks: Mapping[str, Mapping[int, MetricRow]] = field(default_factory=dict)
    """By metric `task/NAME/SCORE` and seed of fine-tuning; those that papers report."""

    @property
    def valid_loss(self) -> float:
        """The lowest validation loss of the last phase, whose weights were evaluated."""
        valid = [curve for curve in self.curves if curve.split == "valid"]
        losses = [loss for _, loss in valid[-1].points if math.isfinite(loss)] if valid else []
        return min(losses, default=math.inf)


@dataclass(frozen=True)
class Group:
    """Cells that differ in nothing but the seed."""

    label: str
    method: str
    sentences: int | None
    """None where all are taken, or none."""
    cells: tuple[Cell, ...]
    """By seed."""

    @property
    def is_untrained(self) -> bool:
        """Whether its method trains nothing, so that it stands at every size."""
        return self.method in METHODS and not METHODS[self.method].stretches

    def rows(self, metric: str) -> dict[Key, MetricRow]:
        """Return the metric's rows by seed; of a task, by seed and that of fine-tuning."""
        if metric.startswith(TASK):
            return {
                (cell.seed, seed): row
                for cell in self.cells
                for seed, row in cell.tasks.get(metric, {}).items()
            }
        return {(cell.seed,): cell.metrics[metric] for cell in self.cells if metric in cell.metrics}

    def values(self, metric: str) -> list[float]:
        """Return the metric of each model."""
        return [row.value for row in self.rows(metric).values()]

    def mean(self, metric: str) -> float | None:
        """Return the mean over the seeds; of a task, of their means over fine-tunings."""
        by_seed: dict[int, list[float]] = {}
        for key, row in self.rows(metric).items():
            by_seed.setdefault(key[0], []).append(row.value)
        return fmean(map(fmean, by_seed.values())) if by_seed else None

    def deviation(self, metric: str) -> float | None:
        """Return the sample standard deviation over all models; None for one."""
        values = self.values(metric)
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class Results:
    """All that is known of a study."""

    groups: tuple[Group, ...]
    """By size, and within a size in the order of the labels."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """By cell, why its last attempt failed."""
    counted: str = "sentences"
    """What sizes are of."""

    @property
    def labels(self) -> list[str]:
        """Those that name a method alone first, in the order of `METHODS`."""
        ranks = {name: rank for rank, name in enumerate(METHODS)}
        ranked = {g.label: (", " in g.label, ranks.get(g.method, len(ranks))) for g in self.groups}
        return sorted(ranked, key=lambda label: (*ranked[label], label))

    @property
    def cells(self) -> list[Cell]:
        return [cell for group in self.groups for cell in group.cells]

    @property
    def sizes(self) -> list[int | None]:
        """From small to large; None, which is everything, last."""
        sized = [group.sentences for group in self.groups if not group.is_untrained]
        return list(dict.fromkeys(sized or [group.sentences for group in self.groups]))

    def at(self, size: int | None) -> list[Group]:
        """Return the groups of one size, and those that train nothing."""
        return [g for g in self.groups if g.sentences == size or g.is_untrained]

    def of(self, label: str) -> list[Group]:
        """Return the groups of one label that have a size, from small to large."""
        return [group for group in self.groups if group.label == label and group.sentences]

    @property
    def reference(self) -> str | None:
        """The label that the others are measured against."""
        plain = {g.method: g.label for g in reversed(self.groups) if ", " not in g.label}
        return next((plain[method] for method in REFERENCES if method in plain), None)


def collect(rows: Iterable[AnyRow], select: Iterable[str] = ()) -> Results:
    """Put the rows of a results file in order.

    Of a cell that was run several times, the last run that was done counts. Bits per character are
    over the words that all cells score.

    Args:
        rows: of the file.
        select: axes of which the value with the lowest validation loss is taken.
    """
    all_rows = list(rows)
    tuned = fine_tuned(all_rows)
    cells: dict[str, Cell] = {}
    failures: dict[str, str] = {}
    for name, outcome in latest(all_rows).items():
        end, of_tasks = outcome.end, list(tuned.get(name, {}).values())
        forms = {row.task: row.task_fingerprint for row in of_tasks}  # the last of each task
        of_tasks = [row for row in of_tasks if row.task_fingerprint == forms[row.task]]
        failures.pop(end.cell, None)
        ends: list[EndRow | TaskRow] = [end, *of_tasks]
        if failed := [row.message for row in ends if row.status == "failed"]:
            failures[end.cell] = failed[-1]
        if end.status == "done":
            done = [row for row in of_tasks if row.status == "done"]
            cells[repr(sorted(end.axes.items()))] = _cell(end, outcome.rows, done)
    return Results(tuple(_groups(_on_common(list(cells.values())), list(select))), failures)


def _cell(end: EndRow, rows: Sequence[MetricRow | CurveRow], of_tasks: Sequence[TaskRow]) -> Cell:
    metrics = {}
    for row in rows:
        if isinstance(row, MetricRow):
            name = WRITTEN.sub(r"\1mask-only/", row.metric)
            metrics[name] = row.model_copy(update={"metric": name})
    if (perplexity := metrics.get(PERPLEXITY)) is not None:
        loss = {"metric": LOSS, "value": math.log(perplexity.value)}
        metrics[LOSS] = perplexity.model_copy(update=loss)
    tasks: dict[str, dict[int, MetricRow]] = {}
    for task in of_tasks:
        common: dict[str, Any] = task.model_dump(include={"study", "cell", "fingerprint", "axes"})
        for score in task.scores:
            if score.metric in task.shown:
                tasks.setdefault(score.metric, {})[task.seed] = MetricRow(
                    **common, seed=task.seed, tokens=0, seconds=task.seconds,
                    **score.model_dump(),
                )  # fmt: skip
    seed = end.axes.get("seed")
    curves = tuple(row for row in rows if isinstance(row, CurveRow))
    seed = seed if isinstance(seed, int) else 0
    return Cell(end.cell, seed, end.axes, metrics, curves, end, tasks)


def _on_common(cells: list[Cell]) -> list[Cell]:
    """Return the cells with bits per character over the words that every cell scores.

    They stay as they are where a row does not tell of its words, where models were asked for
    other words, and where no word or every word is common.
    """
    words = [cell.metrics[BITS].words for cell in cells if BITS in cell.metrics]
    if len(words) < 2 or not all(words) or len({len(row or ()) for row in words}) > 1:
        return cells
    scores_RW2 = np.array(words)
    characters_RW = scores_RW2[..., 1]
    common_W = np.asarray((characters_RW > 0).all(0))
    same = ((characters_RW == characters_RW.max(0)) | (characters_RW == 0)).all()
    if not same or not common_W.any() or bool(((characters_RW > 0) == common_W).all()):
        return cells
    of_words = iter(scores_RW2 * common_W[:, None])
    changed = []
    for cell in cells:
        if BITS in cell.metrics:
            bits_W, length_W = next(of_words).T
            sums = blocks(bits_W, length_W)
            update = {
                "value": float(bits_W.sum() / length_W.sum()),
                "n": int(common_W.sum()),
                "blocks": tuple(map(tuple, sums)) if np.isfinite(sums).all() else None,
            }
            row = cell.metrics[BITS].model_copy(update=update)
            cell = replace(cell, metrics={**cell.metrics, BITS: row})
        changed.append(cell)
    return changed


def _groups(cells: Sequence[Cell], select: Sequence[str]) -> list[Group]:
    """Return the groups by size and label, of a selected axis the best value alone."""
    names = dict.fromkeys(axis for cell in cells for axis in cell.axes if axis not in PLACES)
    varied = [a for a in names if len({repr(cell.axes.get(a, ...)) for cell in cells}) > 1]
    ends = [axis.rpartition(".")[2] for axis in varied]
    short = {a: e if ends.count(e) == 1 else a for a, e in zip(varied, ends, strict=True)}
    together: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        place = {axis: value for axis, value in cell.axes.items() if axis != "seed"}
        beside = repr(sorted((a, v) for a, v in place.items() if a not in select))
        together.setdefault(beside, {}).setdefault(repr(sorted(place.items())), []).append(cell)
    found = []
    for rivals in together.values():
        best = [min(rivals.values(), key=lambda of: fmean(cell.valid_loss for cell in of))]
        for members in best if select else rivals.values():
            axes = members[0].axes
            method, size = str(axes.get("method", "model")), axes.get("sentences")
            parts = [f"{short[axis]} {axes[axis]}" for axis in varied if axis in axes]
            label = ", ".join([TITLES.get(method, method), *parts])
            ordered = tuple(sorted(members, key=lambda cell: cell.seed))
            found.append(Group(label, method, size if isinstance(size, int) else None, ordered))
    order = Results(tuple(found)).labels
    return sorted(found, key=lambda g: (g.sentences or math.inf, order.index(g.label)))


def by_examples(results: Results) -> Results | None:
    """Return results of learning curves: sizes are those of tasks' training sets.

    They are of the largest text; None where no task has several sizes.
    """
    groups = []
    for group in results.at(results.sizes[-1]) if results.groups else ():
        names = {metric.split("/")[1] for cell in group.cells for metric in cell.tasks}
        for size in sorted({int(name.partition(SIZED)[2]) for name in names if SIZED in name}):
            cells = tuple(
                replace(
                    cell,
                    tasks={
                        metric.replace(name, unsized(name), 1): rows
                        for metric, rows in cell.tasks.items()
                        if (name := metric.split("/")[1]).endswith(f"{SIZED}{size}")
                    },
                )
                for cell in group.cells
            )
            groups.append(replace(group, sentences=size, cells=cells))
    groups.sort(key=lambda group: group.sentences or 0)
    several = len({group.sentences for group in groups}) > 1
    return Results(tuple(groups), counted="examples") if several else None
