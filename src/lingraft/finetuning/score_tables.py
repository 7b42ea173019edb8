"""Tables of scores after fine-tuning: models × tasks, × languages, and what trained where."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.finetuning.compared import AVERAGE, GAP, MEAN, differing_settings
from lingraft.finetuning.outcomes import (
    ALSO_CHOSE,
    OFFICIAL,
    Summary,
    is_cut,
    metric_name,
    summary,
    told,
)
from lingraft.report import numbers
from lingraft.report.table import BEST, SECOND, Cell, Column, row, table
from lingraft.tasks import GROUPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lingraft.finetuning.compared import BySeed, Comparison, Part, Setting
    from lingraft.report.table import Row, Table

    Marks = Mapping[tuple[str, str], Mapping[str, str]]
    """(Title of a task with its language, score) → by model, a sign behind the number."""

SCORES = "In percent, higher is better: mean ± sample standard deviation over the seeds."
MARKED = "* differs from the reference, p < 0.05."
NOT_OFFICIAL, OTHER_EXAMPLES = "‡", "†"
SAME = "•"
OF_LANGUAGES = (
    f"{SAME} trained and tested in the same language.",
    f"{AVERAGE}: over the languages, the trained ones included; only for models that have all.",
)
OF_GAP = f"{GAP}: the trained language less the mean over the others."


def of_tasks(comparison: Comparison, marks: Marks) -> Table:
    """Models × tasks: mean ± sample standard deviation over the seeds."""
    labels, settings = comparison.labels, comparison.settings
    heads, columns = [], []
    for setting in settings:
        title, column = setting.title, ""
        if setting.train:
            title, column = f"{title}{len(setting.parts)}", AVERAGE
        title += NOT_OFFICIAL * is_cut(setting.first.note)
        for key in setting.keys:
            heads.append(Column(title, under=metric_name(key)))
            scores = {label: setting.columns(label, key) for label in labels}
            columns.append(_cells(setting, key, column, scores, marks))
    if len({part.family for part in comparison.parts}) > 1:
        heads.append(Column(AVERAGE))
        columns.append(ranked({label: over_tasks(comparison, label) for label in labels}))
    rows = [row(one, *(of[one] for of in columns), _seeds(comparison, one)) for one in labels]
    notes = (SCORES, *([MARKED] if marks else []), *_notes(settings))
    return table("Scores", ("model", *heads, "seeds"), rows, notes)


def of_languages(comparison: Comparison, marks: Marks) -> list[Table]:
    """A table a task in several languages, trained in (rows) × tested in (columns)."""
    by_name: defaultdict[str, list[Setting]] = defaultdict(list)
    for setting in comparison.settings:
        if setting.train:
            by_name[setting.name].append(setting)
    tables = []
    for name, settings in by_name.items():
        tags = [*dict.fromkeys(t for s in settings for t in s.parts), AVERAGE, GAP]
        rows: list[Row] = []
        for key, setting in product(settings[0].keys, settings):
            every = {label: setting.columns(label, key) for label in comparison.labels}
            scores = {
                label: of_model for label, of_model in every.items() if any(of_model.values())
            }
            columns = [_cells(setting, key, tag, scores, marks) for tag in tags]
            start = ("+".join(setting.train), metric_name(key))
            rows += (row(label, *start, *(of[label] for of in columns)) for label in scores)
        texts = (Column(title, "text") for title in ("model", "trained in", "score"))
        gap = [OF_GAP] if any(line.cells[-1].text != numbers.ABSENT for line in rows) else []
        notes = [*OF_LANGUAGES, *gap, *_notes(settings)]
        tables.append(table(name, [*texts, *map(Column, tags)], rows, notes))
    return tables


def _cells(
    setting: Setting, key: str, tag: str, columns: Mapping[str, Mapping[str, BySeed]], marks: Marks
) -> dict[str, Cell]:
    """Return a column of a language, an average or a gap, by model, from `Setting.columns`."""
    part = setting.parts.get(tag)
    scores = {label: of_seeds(of_model.get(tag, {})) for label, of_model in columns.items()}
    apart = [label for label in columns if tag == GAP or (part and label not in part.runs)]
    title = part.title if part else setting.title
    signs = {} if tag == GAP else dict(marks.get((title, key), {}))
    if part:
        signs |= dict.fromkeys(apart, OTHER_EXAMPLES)
    same = SAME * (tag in setting.train)
    return ranked(scores, {label: signs.get(label, "") + same for label in columns}, apart)


def over_tasks(comparison: Comparison, label: str) -> Summary | None:
    """The mean over the tasks of the mean over a task's scores; None where the model lacks one.

    The deviation is over the seeds that all tasks have; without two of them there is none.
    """
    if any(label not in part.runs for part in comparison.parts):
        return None
    by_task: defaultdict[str, list[BySeed]] = defaultdict(list)
    for part in comparison.parts:
        several = part.languages and part.languages.task in GROUPS
        keys = part.number if several else part.keys
        by_task[part.family] += [part.values(label, key) for key in keys]
    mean = fmean(fmean(fmean(s.values()) for s in scores) for scores in by_task.values())
    common = set.intersection(*(set(s) for scores in by_task.values() for s in scores))
    by_seed = [
        fmean(fmean(of[seed] for of in scores) for scores in by_task.values())
        for seed in sorted(common)
    ]
    over = summary(by_seed or [mean])
    return Summary(mean, over.deviation, over.seeds)


def _seeds(comparison: Comparison, label: str) -> str:
    counted = {len(runs) for part in comparison.parts if (runs := part.of_model(label))}
    return " to ".join(map(str, sorted({min(counted), max(counted)})))


def _notes(settings: Sequence[Setting]) -> list[str]:
    """What holds of some tasks, each sentence once."""
    subjects: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for setting in settings:
        for sentence, subject in _remarks(setting):
            subjects[sentence][subject] = None
    return [f"{sentence}: {', '.join(of)}." for sentence, of in subjects.items()]


def _remarks(setting: Setting) -> Iterator[tuple[str, str]]:
    """Sentences, and what each is about."""
    parts = list(setting.parts.values())
    where = f"{len(parts)} languages" if setting.train else parts[0].split
    size = sum(part.first.n(part.split) for part in parts)
    for note in dict.fromkeys(part.note for part in parts):
        splits = "Official splits" if note == OFFICIAL else "Splits of own files"
        if is_cut(note):
            splits = f"{NOT_OFFICIAL} Not the official splits ({note})"
        yield splits, f"{setting.title} ({where}, {size:,} examples)"
    rules = [part.rules for part in parts]
    keys = parts[0].keys
    for rule in rules[0]:
        if all(of.get(rule, {}).keys() >= set(keys) for of in rules):
            means = {key: fmean(of[rule][key] for of in rules) for key in keys}
            yield "Without a model", f"{setting.title} {told({rule: means}, keys)}"
    if MEAN in setting.keys:
        yield f"{MEAN} of exact match and F1, XTREME's number", setting.task
    for part in parts:
        yield from _remarks_on_runs(part)


def _remarks_on_runs(part: Part) -> Iterator[tuple[str, str]]:
    """What holds of one part alone."""
    for label, runs in part.apart.items():
        seeds = " and ".join(str(run.seed) for run in runs)
        if label in part.runs:
            yield "Left out, scored on other examples", f"{part.title} {label} seed {seeds}"
        else:
            does = "scored on other examples, does not compare"
            yield f"{OTHER_EXAMPLES} {does}", f"{part.title} {label}"
    for run in part.all_runs:
        if run.outcome.chosen_on(part.split):
            yield ALSO_CHOSE.capitalize(), part.title
        if run.outcome.languages:
            choice = run.outcome.languages.select_on
            of = "all tested languages, by their mean" if choice == "mean" else choice
            yield f"Weights chosen on the development sets of {of}", run.label
        for key, text in (run.outcome.data.get("signatures") or {}).items():
            if key in part.keys:
                yield f"{part.title} {metric_name(key)}", text
    if differing := differing_settings(part):
        yield f"Fine-tuned with different {', '.join(differing)}", part.family


# -- cells


def ranked(
    scores: Mapping[str, Summary | None],
    marks: Mapping[str, str] | None = None,
    apart: Collection[str] = (),
) -> dict[str, Cell]:
    """A column by model, the best and second best ranked; those `apart` do not compare."""
    means = [score.mean for label, score in scores.items() if score and label not in apart]
    return {
        label: replace(
            plain_cell(score, (marks or {}).get(label, "") if score else ""),
            rank=rank(score.mean, means) if score and label not in apart else 0,
        )
        for label, score in scores.items()
    }


def rank(mean: float, means: Sequence[float]) -> int:
    """1 for the best and 2 for the second best of several means, 0 for others.

    2 only where another is worse: of three models of which two are equal none is second.
    """
    order = sorted(set(means), reverse=True)
    place = order.index(mean) + 1
    is_ranked = len(means) > 1 and (place == BEST or (place == SECOND and len(order) > 2))
    return place if is_ranked else 0


def of_seeds(values: BySeed) -> Summary | None:
    """Mean and deviation over the seeds; None without one."""
    return summary([*values.values()]) if values else None


def plain_cell(score: Summary | None, mark: str = "") -> Cell:
    """Mean and deviation without a rank."""
    if score is None:
        return Cell(numbers.ABSENT)
    under = "" if score.deviation is None else f"± {numbers.fixed(score.deviation, 1)}"
    return Cell(numbers.fixed(score.mean, 1), under, mark=mark)
