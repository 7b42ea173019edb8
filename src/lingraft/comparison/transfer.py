"""What a comparison shows of tasks in several languages: tables, gaps, directions, their files."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.comparison import across
from lingraft.comparison.across import MEAN, of_seeds, plain_cell
from lingraft.errors import DataError, reading
from lingraft.finetuning.outcomes import RESULTS, is_cut, metric_name
from lingraft.report import heat, numbers
from lingraft.report.table import Cell, Column, comma_separated, markdown, row, table
from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.comparison.across import BySeed, Directions, Setting
    from lingraft.comparison.significance import Tested
    from lingraft.report.figure import Figure
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

PROTOCOLS = {
    "xtreme": "as XTREME counts",
    "metaxlm": "both directions, where XTREME takes one (--parity xtreme)",
    "lingraft": "sentences that repeat count once, where XTREME leaves them out (--parity xtreme)",
}
"""By what rows of results.jsonl call them."""


@dataclass(frozen=True)
class Retrieved:
    """One task in several languages; what `summary_table` asks of it is as of a `Setting`."""

    task: str
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """By label and language, in percent."""
    read: dict[str, dict[str, None]] = field(default_factory=dict)
    """By label, how they were found."""

    @property
    def number(self) -> str:
        """The key of its score."""
        return RETRIEVAL_GROUPS[self.task].scores[0]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def languages(self) -> tuple[str, ...]:
        """Of all models."""
        return tuple(dict.fromkeys(code for values in self.values.values() for code in values))

    def average(self, label: str, _key: str) -> dict[int, float]:
        """The mean over all languages, as of one seed; empty where the model lacks one of them."""
        values = self.values[label]
        return {0: fmean(values.values())} if len(values) == len(self.languages) else {}

    @property
    def note(self) -> str:
        """How its numbers were found."""
        alike: dict[str, list[str]] = {}
        for label, how in self.read.items():
            alike.setdefault(", ".join(how), []).append(label)
        return f"{self.task}: " + "; ".join(f"{how} ({', '.join(a)})" for how, a in alike.items())


def read_retrievals(folders: Sequence[Path], weights: Mapping[str, str]) -> list[Retrieved]:
    """The scores of the compared models in some folders of `lingraft retrieve`.

    Args:
        folders: its --out, each with results of --task.
        weights: of the compared models, by label; results are theirs by weights, where those are
            known, else by label.

    Raises:
        DataError: a folder has no results of a benchmark or none of these models, a label stands
            for other weights, or two folders say different things.
    """
    results: dict[str, Retrieved] = {}
    for folder in folders:
        strangers: dict[str, None] = {}
        has_owner = False
        for (label, task, language), rows in _reported(folder).items():
            owners = _owners(folder, label, rows[0]["model_weights"], weights)
            if not owners:
                strangers[label] = None
            for owner in owners:
                has_owner = True
                result = results.setdefault(task, Retrieved(task))
                value = fmean(float(row["value"]) for row in rows)
                if result.values.setdefault(owner, {}).setdefault(language, value) != value:
                    raise DataError(
                        f"{folder}: {task} in {language} of {label} is another number in another "
                        "folder; give one of them"
                    )
                result.read.setdefault(owner, {})[_how(rows[0])] = None
        if strangers:
            text = (
                f"{folder}: {', '.join(strangers)} is none of the compared models "
                f"({', '.join(weights)}), by name or weights"
            )
            if not has_owner:
                raise DataError(f"{text}; run lingraft retrieve with --label {next(iter(weights))}")
            logger.warning("%s; left out", text)
    return list(results.values())


def _reported(folder: Path) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The rows that count, a direction each, by model, task and language."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for entry in _rows(folder / RESULTS):
        task = entry.get("task")
        if (
            task in RETRIEVAL_GROUPS
            and entry["metric"] == RETRIEVAL_GROUPS[task].scores[0]
            and entry.get("split", "test") == "test"
            and entry.get("chosen", True)
        ):
            groups.setdefault((entry["model"], task, entry["language"]), []).append(entry)
    if not groups:
        raise DataError(
            f"{folder}: holds no finished results of XTREME's tasks; run lingraft retrieve with "
            f"--task ({' or '.join(RETRIEVAL_GROUPS)}) and --data, without --sentences"
        )
    return groups


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with reading(path, "run lingraft retrieve again, which keeps what it found"):
        lines = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line]


def _owners(folder: Path, label: str, own: str | None, weights: Mapping[str, str]) -> list[str]:
    """The labels of the compared models that a result belongs to."""
    same = [name for name, fingerprint in weights.items() if fingerprint == own]
    if not same and label in weights:
        if own is not None:
            raise DataError(
                f"{folder}: {label} has other weights than the fine-tuned model of that name; run "
                "lingraft retrieve again with that one, or give one of them another --label"
            )
        return [label]
    return same


def _how(row: Mapping[str, Any]) -> str:
    choice = row.get("chosen_on") or row["layer_from"]
    choice = {"test": "on the test pairs themselves, an oracle"}.get(choice, choice)
    return f"{PROTOCOLS[row['protocol']]}, layer {row['layer']} ({choice})"


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
