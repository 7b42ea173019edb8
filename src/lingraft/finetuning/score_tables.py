"""Tables of scores after fine-tuning: models × tasks, × languages, and what trained where."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from lingraft.finetuning.compared import AVERAGE, GAP, differing_settings
from lingraft.finetuning.outcomes import ALSO_CHOSE, OFFICIAL, is_cut, metric_name, told
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, row, table

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
    """Return models × tasks: mean ± sample standard deviation over the seeds."""
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
    rows = [row(one, *(of[one] for of in columns), _seeds(comparison, one)) for one in labels]
    notes = (SCORES, *([MARKED] if marks else []), *_notes(settings))
    return table("Scores", ("model", *heads, "seeds"), rows, notes)


def of_languages(comparison: Comparison, marks: Marks) -> list[Table]:
    """Return a table a task in several languages, trained in (rows) × tested in (columns)."""
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
            scores = {label: of for label, of in every.items() if any(of.values())}
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
    scores = {label: of_model.get(tag, {}) for label, of_model in columns.items()}
    apart = [label for label in columns if tag == GAP or (part and label not in part.runs)]
    signs = {} if tag == GAP else dict(marks.get((part.title if part else setting.title, key), {}))
    if part:
        signs |= dict.fromkeys(apart, OTHER_EXAMPLES)
    same = SAME * (tag in setting.train)
    return ranked(scores, {label: signs.get(label, "") + same for label in columns}, apart)


def ranked(
    scores: Mapping[str, BySeed], marks: Mapping[str, str], apart: Collection[str] = ()
) -> dict[str, Cell]:
    """Return a column by model, the best marked; those `apart` do not compare."""
    means = {label: fmean(of.values()) for label, of in scores.items() if of}
    rivals = [mean for label, mean in means.items() if label not in apart]
    best = max(rivals) if len(rivals) > 1 else None
    return {
        label: summary(
            of,
            marks.get(label, "") if of else "",
            is_best=label not in apart and label in means and means[label] == best,
        )
        for label, of in scores.items()
    }


def summary(values: BySeed, mark: str = "", *, is_best: bool = False) -> Cell:
    """Return mean and sample standard deviation over the seeds; without one a dash."""
    if not values:
        return Cell(numbers.ABSENT)
    several = len(values) > 1
    under = f"± {numbers.fixed(stdev(values.values()), 1)}" if several else ""
    return Cell(numbers.fixed(fmean(values.values()), 1), under, BEST * is_best, mark)


def _seeds(comparison: Comparison, label: str) -> str:
    counted = {len(runs) for part in comparison.parts if (runs := part.of_model(label))}
    return " to ".join(map(str, sorted({min(counted), max(counted)})))


def _notes(settings: Sequence[Setting]) -> list[str]:
    """Return what holds of some tasks, each sentence once."""
    subjects: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for setting in settings:
        for sentence, subject in _remarks(setting):
            subjects[sentence][subject] = None
    return [f"{sentence}: {', '.join(of)}." for sentence, of in subjects.items()]


def _remarks(setting: Setting) -> Iterator[tuple[str, str]]:
    """Yield sentences, and what each is about."""
    parts = list(setting.parts.values())
    where = f"{len(parts)} languages" if setting.train else parts[0].split
    size = sum(part.first.n(part.split) for part in parts)
    for note in dict.fromkeys(part.note for part in parts):
        splits = "Official splits" if note == OFFICIAL else "Splits of own files"
        if is_cut(note):
            splits = f"{NOT_OFFICIAL} Not the official splits ({note})"
        yield splits, f"{setting.title} ({where}, {size:,} examples)"
    rules, keys = [part.rules for part in parts], parts[0].keys
    for rule in rules[0]:
        if all(of.get(rule, {}).keys() >= set(keys) for of in rules):
            means = {key: fmean(of[rule][key] for of in rules) for key in keys}
            yield "Without a model", f"{setting.title} {told({rule: means}, keys)}"
    for part in parts:
        yield from _remarks_on_runs(part)


def _remarks_on_runs(part: Part) -> Iterator[tuple[str, str]]:
    """Yield what holds of one part alone."""
    for label, runs in part.apart.items():
        what = f"{OTHER_EXAMPLES} scored on other examples, does not compare"
        if label in part.runs:
            what = "Left out, scored on other examples"
        seeds = " and ".join(str(run.seed) for run in runs)
        yield what, f"{part.title} {label} seed {seeds}"
    for run in part.all_runs:
        if run.outcome.chosen_on(part.split):
            yield ALSO_CHOSE.capitalize(), part.title
        for key, text in run.outcome.signatures.items():
            yield f"{part.title} {metric_name(key)}", text
    if differing := differing_settings(part):
        yield f"Fine-tuned with different {', '.join(differing)}", part.family
