"""What a comparison shows of tasks in several languages: tables, gaps, directions, their files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.comparison import across
from lingraft.comparison.across import MEAN, of_seeds, plain_cell
from lingraft.finetuning.outcomes import is_cut, metric_name
from lingraft.report import heat, numbers
from lingraft.report.table import Cell, Column, comma_separated, markdown, row, table
from lingraft.tasks import GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.comparison.across import BySeed, Directions, Setting
    from lingraft.comparison.retrieved import Retrieved
    from lingraft.comparison.significance import Tested
    from lingraft.report.figure import Figure
    from lingraft.report.table import Table

AVERAGE, GAP = "average", "gap"
"""As the language of a row of the sheet."""
F1 = "f1"
"""The score of answers whose gap the paper draws (MetaXLM, section 5.1)."""


@dataclass(frozen=True)
class Transfer:
    """A section of the page."""

    summary: Table | None
    """The one number of every task; None for a single task."""
    languages: tuple[Table, ...]
    gaps: Figure | None
    directions: tuple[Table, ...]
    heat_maps: tuple[Figure, ...]
    sheet: str
    """All numbers to full precision, as CSV."""


def section(
    settings: Sequence[Setting], tested: Sequence[Tested], retrieved: Sequence[Retrieved] = ()
) -> Transfer | None:
    """What there is to show of tasks in several languages; None without one."""
    if not settings and not retrieved:
        return None
    matrices = across.directions(settings)
    return Transfer(
        summary_table(settings, retrieved),
        tuple(across.language_table(setting, _marks(setting, tested)) for setting in settings),
        gap_bars(settings),
        tuple(across.direction_table(matrix) for matrix in matrices),
        tuple(heat_maps(matrices, settings)),
        sheet(settings, retrieved),
    )


def _marks(setting: Setting, tested: Sequence[Tested]) -> dict[tuple[str, str, str], str]:
    """(Model, score, language) → the sign of its difference to the reference."""
    return {
        (test.label, test.key, test.title.removeprefix(setting.title)): test.mark
        for test in tested
        if test.title.startswith(setting.title)
    }


# -- one number a task


def summary_table(settings: Sequence[Setting], retrieved: Sequence[Retrieved] = ()) -> Table | None:
    """XTREME's one number of every task, averaged over languages, and what it averages to.

    Only of what was trained in the one language that XTREME trains in, and of what needs no
    training. Groups of tasks and the averages of seven and nine tasks are there where all their
    tasks are.
    """
    here: dict[str, Setting | Retrieved] = {result.task: result for result in retrieved}
    for setting in settings:
        if setting.task in xtreme.SEVEN and setting.train == (GROUPS[setting.task].train_language,):
            here[setting.task] = setting
    results = {task: here[task] for task in xtreme.NINE if task in here}
    if len(results) < 2 and not retrieved:
        return None
    models = dict.fromkeys(label for result in results.values() for label in result.models)
    by_task = {label: _numbers(label, results) for label in models}
    means = {
        label: {task: fmean(values.values()) for task, values in scores.items()}
        for label, scores in by_task.items()
    }
    groups = dict.fromkeys(name for m in means.values() for name in xtreme.category_averages(m))
    wholes = [
        (title, tasks)
        for title, tasks in (("average of seven", xtreme.SEVEN), ("XTREME average", xtreme.NINE))
        if any(xtreme.average(m, tasks) is not None for m in means.values())
    ]
    head: list[str | Column] = ["model", *(_task_column(s) for s in results.values()), *groups]
    rows = []
    for label in models:
        cells = [plain_cell(of_seeds(by_task[label].get(task, {}))) for task in results]
        categories = xtreme.category_averages(means[label])
        more = [categories.get(name) for name in groups]
        more += [xtreme.average(means[label], tasks) for _, tasks in wholes]
        rows.append(row(label, *cells, *(Cell(numbers.fixed(value, 1)) for value in more)))
    notes = ["Of each task the mean over the languages of its one number, as XTREME reports it."]
    if groups:
        notes.append(
            f"{', '.join(groups)}: the mean of the tasks of the group, which are all there."
        )
    if len(results) < len(xtreme.NINE):
        lacking = [task for task in xtreme.NINE if task not in results]
        are = "is" if len(lacking) == 1 else "are"
        notes.append(f"No XTREME average: {', '.join(lacking)} {are} not there.")
    cut = [s.task for s in settings if results.get(s.task) is s and is_cut(s.note)]
    if cut:
        notes.append(f"Not the official splits, so not XTREME's numbers: {', '.join(cut)}.")
    notes += [result.note for result in retrieved]
    titles = [*head, *(_whole_column(title, results, tasks) for title, tasks in wholes)]
    return table("XTREME, trained in English", titles, rows, notes)


def _numbers(label: str, results: Mapping[str, Setting | Retrieved]) -> dict[str, BySeed]:
    """Task → its number by seed, of the tasks that a model has in all languages."""
    averages = {
        task: result.average(label, result.number)
        for task, result in results.items()
        if label in result.models
    }
    return {task: values for task, values in averages.items() if values}


def _task_column(setting: Setting | Retrieved) -> Column:
    """Says how many of the task's languages the number is over, where it is not all."""
    whole, here = len(xtreme.GROUP_OF[setting.task].languages), len(setting.languages)
    return Column(setting.task, under="" if here == whole else f"{here} of {whole} languages")


def _whole_column(
    title: str, results: Mapping[str, Setting | Retrieved], tasks: Iterable[str]
) -> Column:
    """Says so where a task lacks languages."""
    partial = any(_task_column(results[task]).under for task in tasks)
    return Column(title, under="not all languages" if partial else "")


# -- figures


def gap_bars(settings: Sequence[Setting]) -> Figure | None:
    """The transfer gap of every model on every task; None where there is none."""
    values = {}
    keys = {}
    for setting in settings:
        keys[setting.title] = key = (
            F1 if MEAN in setting.keys and F1 in setting.keys else setting.number
        )
        for label in setting.models:
            if gap := of_seeds(setting.gap(label, key)):
                values[setting.title, label] = (gap.mean, gap.deviation)
    groups = list(dict.fromkeys(title for title, _ in values))
    if not groups:
        return None
    models = list(dict.fromkeys(label for setting in settings for label in setting.models))
    texts = [
        f"{title} {label}: {numbers.fixed(value, 1)}"
        for (title, label), (value, _) in values.items()
    ]
    scores = "; ".join(f"{title} {metric_name(keys[title])}" for title in groups)
    return heat.bars(
        "gap", values, groups, models,
        axis="transfer gap (points)",
        description="Transfer gap: " + "; ".join(texts),
        caption="Transfer gap: the score in the training languages less the mean over the others; "
        f"smaller is better at equal scores. Lines: standard deviation over seeds. {scores}.",
    )  # fmt: skip


def heat_maps(matrices: Sequence[Directions], settings: Sequence[Setting]) -> Iterator[Figure]:
    """A heat map a model and task, of the task's number; the same colours for all of a task."""
    keys = {setting.name: setting.number for setting in settings}
    selection = [matrix for matrix in matrices if matrix.key == keys[matrix.task]]
    for place, matrix in enumerate(selection):
        alike = [m for m in selection if m.task == matrix.task]
        means = [score.mean for m in alike for score in m.means.values()]
        values = {where: score.mean for where, score in matrix.means.items()}
        texts = [
            f"{trained} to {tested}: {numbers.fixed(value, 1)}"
            for (trained, tested), value in values.items()
        ]
        yield heat.heat_map(
            f"directions-{place}", values, matrix.train, matrix.test, (min(means), max(means)),
            axes_of=("trained in", "tested in"),
            description=f"{matrix.title} " + "; ".join(texts),
            caption=f"{matrix.label} on {matrix.task}, {metric_name(matrix.key)}: trained in each "
            "language by itself, tested in all. Framed: the same language. "
            + ("All models have the same colour scale." if len(alike) > 1 else ""),
        )  # fmt: skip


# -- files


def sheet(settings: Sequence[Setting], retrieved: Sequence[Retrieved] = ()) -> str:
    """Mean and deviation of every score in every language, of averages and gaps."""
    head = ("model", "task", "train_languages", "test_language", "metric", "mean", "deviation")
    rows: list[tuple[Any, ...]] = [
        (label, result.task, "", language, result.number, value, None, None)
        for result in retrieved
        for label, values in result.values.items()
        for language, value in values.items()
    ]
    for setting in settings:
        for label in setting.models:
            for key in setting.keys:
                by_language: dict[str, BySeed] = {
                    language: setting.values[label].get(key, {}).get(language, {})
                    for language in setting.languages
                }
                by_language |= {AVERAGE: setting.average(label, key), GAP: setting.gap(label, key)}
                for language, values in by_language.items():
                    if score := of_seeds(values):
                        start = (label, setting.name, "+".join(setting.train), language, key)
                        rows.append((*start, score.mean, score.deviation, score.seeds))
    return comma_separated((*head, "seeds"), rows)


def files(data: Transfer, out: Path) -> dict[Path, str]:
    """The tables and figures beside a page."""
    tables = [*([data.summary] if data.summary else []), *data.languages, *data.directions]
    text = "\n\n".join(f"## {t.title}\n\n{markdown(t)}" for t in tables)
    texts = {
        out.with_name(f"{out.stem}-languages.md"): f"{text}\n",
        out.with_name(f"{out.stem}-languages.csv"): data.sheet,
    }
    figures: list[Any] = [*([data.gaps] if data.gaps else []), *data.heat_maps]
    for figure in figures:
        name = re.sub(r"[^\w.-]+", "-", f"{out.stem}-{figure.name}")
        texts[out.with_name(f"{name}.svg")] = figure.alone()
    return texts
