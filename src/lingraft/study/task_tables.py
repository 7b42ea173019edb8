"""The tables of a study's tasks: what the models reach once they are fine-tuned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report.table import BEST, row, table
from lingraft.study.analysis import incomparable
from lingraft.study.entries import mixed_means, named, spread
from lingraft.study.results import size_text
from lingraft.study.tables import measured, titles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.report.table import Cell, Table
    from lingraft.study.results import Group, Results, TaskShown


def scores(results: Results, sentences: int | None) -> Table | None:
    """Every score of every label at one size, and of the floors; None where there is none."""
    metrics = results.task_metrics
    groups = measured(results.at(sentences), metrics)
    if not groups:
        return None
    best = _best(groups, metrics)
    rows = [
        row(named(group), *_scores(group, metrics, best), _runs(group, metrics)) for group in groups
    ]
    rows += [
        row(group.label, *_scores(group, metrics, {}), _runs(group, metrics), role="reference")
        for group in measured(results.floors, metrics)
    ]
    head = ("method", *titles(metrics), "fine-tunings")
    return table(size_text(sentences), head, rows, mixed_means(groups))


def _best(groups: Sequence[Group], metrics: Sequence[str]) -> dict[str, float]:
    """By metric, the best mean among groups that were scored on the same examples."""
    best = {}
    for metric in metrics:
        measured = [group for group in groups if group.rows(metric)]
        if len(measured) > 1 and incomparable(measured, metric) is None:
            best[metric] = max(group.mean(metric) or 0.0 for group in measured)
    return best


def _scores(group: Group, metrics: Iterable[str], best: dict[str, float]) -> Iterable[Cell]:
    for metric in metrics:
        chosen = metric in best and group.mean(metric) == best[metric]
        yield replace(spread(group, metric), rank=BEST if chosen else 0)


def _runs(group: Group, metrics: Iterable[str]) -> str:
    counts = sorted({len(rows) for metric in metrics if (rows := group.rows(metric))})
    return "–".join(dict.fromkeys(str(count) for count in (counts[0], counts[-1])))


def about(results: Results) -> list[str]:
    """For each task, what it was trained and scored on."""
    return [_about(task) for task in results.tasks]


def _about(task: TaskShown) -> str:
    splits = "the official splits" if task.splits == "official" else task.splits
    rules = f" Without a model: {task.rules}." if task.rules else ""
    return (
        f"{task.name}: trained on {task.train_examples:,} examples, "
        f"scored on {task.n:,} ({splits}).{rules}"
    )
