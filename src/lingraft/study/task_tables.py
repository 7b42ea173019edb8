"""The tables of a study's tasks: what the models reach once they are fine-tuned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table as RichTable
from rich.text import Text

from lingraft.report import numbers
from lingraft.study.analysis import difference, incomparable
from lingraft.study.entries import (
    MIXED_PAIRS,
    Entry,
    Line,
    Table,
    interval,
    mixed_means,
    named,
    spread,
)
from lingraft.study.factor import factor
from lingraft.study.results import collect, metric_named, size_text
from lingraft.study.tables import apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.stats import Resampling
    from lingraft.study.results import Group, Results, TaskShown
    from lingraft.study.rows import AnyRow


def scores(found: Results, sentences: int | None) -> Table | None:
    """Every score of every label at one size, and of the floors; None where there is none."""
    metrics = found.task_metrics
    groups = _tuned(found.at(sentences), metrics)
    if not groups:
        return None
    best = _best(groups, metrics)
    lines = [
        Line((Entry(named(group)), *_scores(group, metrics, best), Entry(_runs(group, metrics))))
        for group in groups
    ]
    lines += [
        Line((Entry(group.label), *_scores(group, metrics, {}), Entry(_runs(group, metrics))), True)
        for group in _tuned(found.floors, metrics)
    ]
    head = ("method", *_titles(metrics), "fine-tunings")
    return Table(size_text(sentences), head, tuple(lines), tuple(mixed_means(groups)))


def _tuned(groups: Iterable[Group], metrics: Sequence[str]) -> list[Group]:
    return [group for group in groups if any(group.rows(metric) for metric in metrics)]


def _titles(metrics: Iterable[str]) -> Iterable[str]:
    return (metric_named(metric).title for metric in metrics)


def _best(groups: Sequence[Group], metrics: Sequence[str]) -> dict[str, float]:
    """By metric, the best mean among groups that were scored on the same examples."""
    best = {}
    for metric in metrics:
        measured = [group for group in groups if group.rows(metric)]
        if len(measured) > 1 and incomparable(measured, metric) is None:
            best[metric] = max(group.mean(metric) or 0.0 for group in measured)
    return best


def _scores(group: Group, metrics: Iterable[str], best: dict[str, float]) -> Iterable[Entry]:
    for metric in metrics:
        entry = spread(group, metric)
        chosen = metric in best and group.mean(metric) == best[metric]
        yield Entry(entry.text, entry.under, chosen)


def _runs(group: Group, metrics: Iterable[str]) -> str:
    counts = sorted({len(rows) for metric in metrics if (rows := group.rows(metric))})
    return "–".join(dict.fromkeys(str(count) for count in (counts[0], counts[-1])))


def about(found: Results) -> list[str]:
    """For each task, what it was trained and scored on."""
    return [_about(task) for task in found.tasks]


def _about(task: TaskShown) -> str:
    splits = "the official splits" if task.splits == "official" else task.splits
    rules = f" Without a model: {task.rules}." if task.rules else ""
    return (
        f"{task.name}: trained on {task.train_examples:,} examples, "
        f"scored on {task.n:,} ({splits}).{rules}"
    )


def differences(found: Results, sentences: int | None, resampling: Resampling) -> Table | None:
    """Each label less the reference at one size, the floors too; None without two of them."""
    metrics = found.task_metrics
    groups = _tuned((*found.at(sentences), *found.floors), metrics)
    base = next((group for group in groups if group.label == found.reference()), None)
    if base is None or len(groups) < 2:
        return None
    lines: list[Line] = []
    notes: dict[str, None] = {}
    for group in groups:
        if group is base:
            continue
        entries = [Entry(group.label)]
        for metric in metrics:
            if apart(group, base, metric) is None:
                one = difference(group, base, metric, resampling)
                entries.append(interval(one, group.mean(metric) or 0.0, metric))
                notes |= {MIXED_PAIRS: None} if one.mixed else {}
            else:
                entries.append(Entry(numbers.ABSENT))
        lines.append(Line(tuple(entries), reference=group in found.floors))
    head = (f"less {base.label}", *_titles(metrics))
    return Table(size_text(sentences), head, tuple(lines), tuple(notes))


def factors(found: Results, resampling: Resampling) -> Table | None:
    """How many times more data the reference needs for the same scores; None without sizes."""
    metrics, reference = found.task_metrics, found.reference()
    baseline = [g for g in found.of(reference or "") if g.sentences is not None]
    lines = []
    for label in found.labels:
        for group in _tuned(found.of(label), metrics):
            if label == reference or group.sentences is None:
                continue
            entries = [_factor(group, baseline, metric, resampling) for metric in metrics]
            lines.append(Line((Entry(label), Entry(f"{group.sentences:,}"), *entries)))
    if not lines or not _tuned(baseline, metrics):
        return None
    head = ("method", "sentences", *_titles(metrics))
    return Table(f"times the data that {reference} needs, by task", head, tuple(lines))


def _factor(group: Group, baseline: Sequence[Group], metric: str, resampling: Resampling) -> Entry:
    measured = [one for one in baseline if one.rows(metric)]
    if not measured or incomparable((group, *measured), metric) is not None:
        return Entry(numbers.ABSENT)
    return Entry(*factor(group, measured, metric, resampling).shown())


def console(study: Any, rows: Sequence[AnyRow]) -> RichTable | None:
    """The scores in short for a terminal: a row a metric; None without tasks.

    Args:
        study: with a `name`.
        rows: of the results file.
    """
    found = collect(rows)
    if not found.tasks:
        return None
    table = RichTable(title=f"{study.name}: tasks", title_justify="left")
    table.add_column("sentences", justify="right")
    table.add_column("task and score", overflow="fold")
    labels = [x for x in found.labels if _tuned(_labelled(found, x), found.task_metrics)]
    for label in labels:
        table.add_column(label, justify="right")
    for size in found.sizes:
        groups = _tuned(found.at(size), found.task_metrics)
        best = _best(groups, found.task_metrics)
        for metric in found.task_metrics:
            by_label = {group.label: group for group in (*groups, *found.floors)}
            entries = [
                next(iter(_scores(by_label[label], [metric], best)))
                if label in by_label
                else Entry(numbers.ABSENT)
                for label in labels
            ]
            table.add_row(
                "all" if size is None else f"{size:,}",
                Text(metric_named(metric).title),
                *(
                    Text(f"{entry.whole}*", style="bold green") if entry.best else Text(entry.whole)
                    for entry in entries
                ),
            )
        table.add_section()
    return table


def _labelled(found: Results, label: str) -> list[Group]:
    return [group for group in (*found.groups, *found.floors) if group.label == label]
