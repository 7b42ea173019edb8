"""The tables of a study's tasks: what the models reach once they are fine-tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.finetuning.outcomes import OFFICIAL
from lingraft.report.table import row, table
from lingraft.study.entries import mixed_means, named, spread
from lingraft.study.results import size_text
from lingraft.study.tables import best_of, measured, ranked, titles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.report.table import Cell, Table
    from lingraft.study.results import Group, Results, TaskShown


def scores(results: Results, sentences: int | None) -> Table | None:
    """Every score of every label at one size, and of the floors; None where there is none."""
    metrics = results.task_metrics
    groups = measured(results.at(sentences), metrics)
    if not groups:
        return None
    best = {metric: best_of(groups, metric) for metric in metrics}
    rows = [
        row(named(group), *_scores(group, metrics, best), _runs(group, metrics)) for group in groups
    ]
    rows += [
        row(group.label, *_scores(group, metrics, {}), _runs(group, metrics), role="reference")
        for group in measured(results.floors, metrics)
    ]
    head = ("method", *titles(metrics), "fine-tunings")
    return table(size_text(sentences), head, rows, mixed_means(groups))


def _scores(group: Group, metrics: Iterable[str], best: dict[str, float | None]) -> Iterable[Cell]:
    for metric in metrics:
        yield ranked(spread(group, metric), group, metric, best.get(metric))


def _runs(group: Group, metrics: Iterable[str]) -> str:
    counts = sorted({len(rows) for metric in metrics if (rows := group.rows(metric))})
    return "–".join(dict.fromkeys(str(count) for count in (counts[0], counts[-1])))


def about(results: Results) -> list[str]:
    """For each task, what it was trained and scored on."""
    return [
        f"{task.name}: trained on {task.train_examples:,} examples, scored on {task.n:,} "
        f"({'the official splits' if task.splits == OFFICIAL else task.splits})."
        + (f" Without a model: {task.rules}." if task.rules else "")
        + (
            f" Learning rates, the best on the development set: {_rates(task)}."
            if task.rates
            else ""
        )
        for task in results.tasks
    ]


def _rates(task: TaskShown) -> str:
    counts = " and ".join(f"{rate:g} in {count:,}" for rate, count in task.rates)
    return f"{counts} of the fine-tunings"
