"""Scores of tasks that were learnt from training sets of several sizes, as figures against size.

A learning curve is read like a curve over sentences of text: what a study says of sizes of text it
says of sizes of the training set. So the same figure and the same data-efficiency factor tell how
many examples a method is worth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.finetuning.names import SIZED, unsized
from lingraft.study.metrics import TASK
from lingraft.study.results import EXAMPLES, Results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.study.results import Group, TaskShown


def of(results: Results) -> Results | None:
    """The tasks with several training sets, of the largest text that has some.

    Returns:
        Groups for each size of the training set in the place of sentences, floors among them;
        None where no task has several.
    """
    sized: dict[str, dict[int, TaskShown]] = {}
    for task in results.tasks:
        if SIZED in task.name:
            sized.setdefault(unsized(task.name), {})[task.train_examples] = task
    curves = {name: points for name, points in sized.items() if len(points) > 1}
    names = {task.name for points in curves.values() for task in points.values()}
    examples = sorted({size for points in curves.values() for size in points})

    def points_of(groups: Sequence[Group]) -> list[Group]:
        pairs = ((group, size) for size in examples for group in groups)
        return [point for group, size in pairs if (point := _point(group, size, names)) is not None]

    def reach(text: int | None) -> int:
        """2 of a text that has a curve, 1 with a point: larger ones may be under way."""
        return min(2, len({point.sentences for point in points_of(results.at(text))}))

    if not results.sizes:
        return None
    text = max(reversed(results.sizes), key=reach)  # of equals the largest
    groups = points_of((*results.floors, *results.at(text)))
    if not groups:
        return None
    tasks = tuple(
        replace(first, name=name, metrics=tuple(map(_plain, first.metrics)))
        for name, points in curves.items()
        for first in [points[min(points)]]
    )
    return Results(tuple(groups), results.labels, (), tasks, counted=EXAMPLES)


def _point(group: Group, size: int, names: set[str]) -> Group | None:
    """A group with the scores of one size of training set, without it in the metrics' names."""
    cells = []
    for cell in group.cells:
        own = {
            _plain(metric): rows
            for metric, rows in cell.tasks.items()
            if (task := metric.split("/")[1]) in names and task.endswith(f"{SIZED}{size}")
        }
        if own:
            cells.append(replace(cell, tasks=own))
    return replace(group, sentences=size, cells=tuple(cells)) if cells else None


def _plain(metric: str) -> str:
    """`task/korsts/spearman`, of `task/korsts@100/spearman`."""
    task, rest = metric.removeprefix(TASK).split("/", 1)
    return f"{TASK}{unsized(task)}/{rest}"
