"""Tables of scores after fine-tuning: models × tasks, × languages, and XTREME's averages."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.finetuning.compared import AVERAGE, GAP, differing_settings
from lingraft.finetuning.outcomes import ALSO_CHOSE, OFFICIAL, is_cut, metric_name
from lingraft.report import numbers
from lingraft.report.row import RESULTS, read
from lingraft.report.table import BEST, Column, TableCell, row, table
from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.compared import BySeed, TaskComparison, TransferResult
    from lingraft.report.row import Score
    from lingraft.report.table import Table, TableRow

    Marks = Mapping[tuple[str, str], Mapping[str, str]]
    """(Title of a task with its language, score) → by model, a sign behind the number."""
    Retrieved = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Score]]]]
    """By task, label, language and direction."""

SCORES = "In percent, higher is better: mean ± sample standard deviation over the seeds."
MARKED = "* differs from the reference, p < 0.05."
NOT_OFFICIAL = "‡"
OF_LANGUAGES = (
    f"{AVERAGE}: over the languages, the trained ones included; only for models that have all.",
    f"{GAP}: the trained language less the mean over the others.",
)


def of_tasks(comparison: TaskComparison, marks: Marks) -> Table:
    """Return models × tasks: mean ± sample standard deviation over the seeds."""
    labels, heads, columns = comparison.labels, [], []
    for result in comparison.results:
        title = result.title + NOT_OFFICIAL * is_cut(result.first.first.split_note)
        for key in result.keys:
            over = f", mean of {len(result.parts)} languages" * bool(result.train)
            heads.append(Column(title, under=f"{metric_name(key)}{over}"))
            scores = {label: result.columns(label, key)[AVERAGE] for label in labels}
            columns.append(_cells(scores, marks.get((result.title, key), {})))
    rows = [row(one, *(of[one] for of in columns), _seeds(comparison, one)) for one in labels]
    notes = (SCORES, *([MARKED] if marks else []), *_notes(comparison.results))
    return table("Scores", ("model", *heads, "seeds"), rows, notes)


def of_languages(comparison: TaskComparison, marks: Marks) -> list[Table]:
    """Return a table a task in several languages, trained in (rows) × tested in (columns)."""
    by_name: defaultdict[str, list[TransferResult]] = defaultdict(list)
    for result in comparison.results:
        if result.train:
            by_name[result.name].append(result)
    tables = []
    for name, results in by_name.items():
        tags = [*dict.fromkeys(tag for one in results for tag in one.languages), AVERAGE, GAP]
        rows: list[TableRow] = []
        for key, result in product(results[0].keys, results):
            every = {label: result.columns(label, key) for label in comparison.labels}
            scores = {label: of for label, of in every.items() if any(of.values())}
            titles = {tag: part.title for tag, part in result.parts.items()}
            columns = [
                _cells(
                    {label: of.get(tag, {}) for label, of in scores.items()},
                    marks.get((titles.get(tag, result.title), key), {}) if tag != GAP else {},
                    is_ranked=tag != GAP,
                )
                for tag in tags
            ]
            start = ("+".join(result.train), metric_name(key))
            rows += (row(label, *start, *(of[label] for of in columns)) for label in scores)
        texts = (Column(title, "text") for title in ("model", "trained in", "score"))
        notes = [*OF_LANGUAGES, *_notes(results)]
        tables.append(table(name, [*texts, *map(Column, tags)], rows, notes))
    return tables


def _cells(
    scores: Mapping[str, BySeed], marks: Mapping[str, str], *, is_ranked: bool = True
) -> dict[str, TableCell]:
    """Return a column by model, the best marked."""
    means = {label: fmean(of.values()) for label, of in scores.items() if of}
    best = max(means.values()) if is_ranked and len(means) > 1 else None
    return {
        label: summary(of, marks.get(label, ""), is_best=means.get(label) == best)
        for label, of in scores.items()
    }


def summary(values: BySeed, mark: str = "", *, is_best: bool = False) -> TableCell:
    """Return mean and sample standard deviation over the seeds; without one a dash."""
    if not values:
        return TableCell(numbers.ABSENT)
    under = f"± {numbers.fixed(stdev(values.values()), 1)}" if len(values) > 1 else ""
    return TableCell(numbers.fixed(fmean(values.values()), 1), under, BEST * is_best, mark)


def _seeds(comparison: TaskComparison, label: str) -> str:
    counts = {len(part.runs[label]) for part in comparison.parts if label in part.runs}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def _notes(results: Sequence[TransferResult]) -> list[str]:
    """Return what holds of some tasks, each sentence once."""
    subjects: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for result in results:
        for sentence, subject in _remarks(result):
            subjects[sentence][subject] = None
    return [f"{sentence}: {', '.join(of)}." for sentence, of in subjects.items()]


def _remarks(result: TransferResult) -> Iterator[tuple[str, str]]:
    """Yield sentences, and what each is about."""
    parts = list(result.parts.values())
    first, runs = parts[0].first, [run for part in parts for run in part.all_runs]
    where = f"{len(parts)} languages" if result.train else parts[0].split
    size = sum(part.first.splits[part.split].n for part in parts)
    for note in dict.fromkeys(run.outcome.split_note for run in runs):
        splits = "Official splits" if note == OFFICIAL else "Splits of own files"
        if is_cut(note):
            splits = f"{NOT_OFFICIAL} Not the official splits ({note})"
        yield splits, f"{result.title} ({where}, {size:,} examples)"
    for part in parts:
        if any(run.outcome.is_chosen_on(part.split) for run in part.all_runs):
            yield ALSO_CHOSE.capitalize(), part.title
        if differing := differing_settings(part):
            yield f"Fine-tuned with different {', '.join(differing)}", result.title
    for key, text in first.signatures.items():
        if key in first.shown:
            yield f"{result.title} {metric_name(key)}", text


# -- XTREME's one number of every task, of what was fine-tuned and retrieved

WHOLES = {"average of seven": xtreme.SEVEN, "XTREME average": xtreme.NINE}


def summary_table(comparison: TaskComparison, retrieved: Retrieved) -> Table | None:
    """Return a table of XTREME's number of every task, over languages, and of its averages.

    Only of what was trained in the one language that XTREME trains in, and of what needs no
    training. Groups of tasks and the averages of seven and nine tasks are there where all their
    tasks are. None of a single task.
    """
    sizes: dict[str, int] = {}
    values: defaultdict[str, dict[str, BySeed]] = defaultdict(dict)
    notes = ["Of each task the mean over the languages of its one number, as XTREME reports it."]
    for result in comparison.results:
        task = result.name
        if task in xtreme.SEVEN and result.train == (GROUPS[task].train_language,):
            sizes[task] = len(result.parts)
            for label in comparison.labels:
                values[label][task] = result.number(label)
            if is_cut(result.first.first.split_note):
                notes.append(f"Not the official splits, so not XTREME's number: {task}.")
    for task, of_models in retrieved.items():
        languages = {tag for by_language in of_models.values() for tag in by_language}
        sizes[task] = len(languages)
        for label, by_language in of_models.items():
            means = [fmean(r.value for r in ways.values()) for ways in by_language.values()]
            values[label][task] = {0: fmean(means)} if by_language.keys() == languages else {}
    here = [task for task in xtreme.NINE if task in sizes]
    if len(here) < 2 and not retrieved:
        return None
    averages = {label: _averages(of_model) for label, of_model in values.items()}
    titles = dict.fromkeys(title for of_model in averages.values() for title in of_model)
    whole = {task: len(xtreme.GROUP_OF[task].languages) for task in here}
    heads = [Column(task, under=f"{sizes[task]} of {whole[task]} languages") for task in here]
    rows = [
        row(
            label,
            *(summary(of_model.get(task, {})) for task in here),
            *(numbers.fixed(averages[label].get(title), 1) for title in titles),
        )
        for label, of_model in values.items()
    ]
    if lacking := [task for task in xtreme.NINE if task not in here]:
        notes.append(f"No XTREME average without {', '.join(lacking)}.")
    return table("XTREME, trained in English", ("model", *heads, *titles), rows, notes)


def _averages(of_model: Mapping[str, BySeed]) -> dict[str, float]:
    """Average the groups of tasks, of seven and of nine, where all their tasks are there."""
    means = {task: fmean(seeds.values()) for task, seeds in of_model.items() if seeds}
    wholes = {title: xtreme.average(means, tasks) for title, tasks in WHOLES.items()}
    known = {title: value for title, value in wholes.items() if value is not None}
    return xtreme.category_averages(means) | known


def read_retrievals(folders: Sequence[Path], weights: Mapping[str, str]) -> Retrieved:
    """Read the scores of the compared models, by task, in folders of `lingraft analyze retrieval`.

    Args:
        folders: its --out, each with results of --task.
        weights: of the compared models, by label; results are theirs by weights, where those are
            known, else by label.

    Raises:
        DataError: two folders say different things.
    """
    results: defaultdict[str, defaultdict[str, defaultdict[str, dict[str, Score]]]]
    results = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for folder in folders:
        for one in filter(_counts, read(folder / RESULTS)):
            own = one.facts.get("weights")
            owners = [
                name
                for name, mark in weights.items()
                if (own == mark if own else name == one.model)
            ]
            for owner in owners:
                task, language = str(one.axes["task"]), str(one.axes["language"])
                ways = results[task][owner][language]
                if ways.setdefault(str(one.axes.get("direction")), one).value != one.value:
                    raise DataError(
                        f"{folder}: {task} in {language} of {one.model} is another number in "
                        "another folder; give one of them"
                    )
    return results


def _counts(row: Score) -> bool:
    """Return whether a row is of the one score of a task, on its test set, at the chosen layer."""
    group = RETRIEVAL_GROUPS.get(str(row.axes.get("task")))
    return row.reported and group is not None and row.metric == group.scores[0]
