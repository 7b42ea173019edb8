"""Tables of a study's tasks, what the models reach once fine-tuned, and of every stream's text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.finetuning.outcomes import OFFICIAL
from lingraft.report.table import row, table
from lingraft.report.variants import STREAM
from studies import tables
from studies.analysis import incomparable
from studies.entries import mixed_means, named, spread
from studies.metrics import BITS, PERPLEXITY, metric_named
from studies.notes import asked, is_of_words, words_note
from studies.results import size_text
from studies.tables import best_of, measured, ranked, titles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lingraft.report.table import Table, TableCell
    from lingraft.stats import Resampling
    from studies.results import Group, Results, TaskShown


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


def _scores(
    group: Group, metrics: Iterable[str], best: dict[str, float | None]
) -> Iterable[TableCell]:
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


SHOWN = (BITS, PERPLEXITY)


def by_stream(results: Results, sentences: int | None, resampling: Resampling) -> Iterator[Table]:
    """Bits per character by stream, their differences to the reference, and perplexity."""
    for metric in SHOWN:
        title = f"{metric_named(metric).title} by stream"
        names = tuple(f"{STREAM}{stream}/{metric}" for stream in results.streams)
        groups = tables.measured(results.at(sentences), names)
        if not groups:
            continue
        main = next((g for g in groups if g.label == results.reference()), groups[0])
        rows = [row(named(group), *_values(group, groups, names, main)) for group in groups]
        head = ("method", *results.streams, "seeds")
        size = f"{title}, {size_text(sentences)}" if len(results.sizes) > 1 else title
        other = [note for name in names for note in words_note(groups, main, name)]
        yield table(size, head, rows, (*other, *mixed_means(groups)))
        if metric != BITS:
            continue
        less = tables.differences(results, sentences, resampling, names)
        if less is not None:
            yield replace(less, title=f"{size}, differences")


def _values(
    group: Group, groups: list[Group], names: tuple[str, ...], main: Group
) -> Iterator[TableCell | str]:
    """The group's entries, with marks for the best of those that compare and for other words."""
    for name in names:
        rivals = [
            rival
            for rival in groups
            if incomparable((group, rival), name) is None
            and asked(rival, name) == asked(group, name)
        ]
        cell = spread(group, name)
        if is_of_words(name):
            cell = tables.marked(cell, group, main, name)
        yield tables.ranked(cell, group, name, tables.best_sound(rivals, name))
    yield str(len(group.cells))
