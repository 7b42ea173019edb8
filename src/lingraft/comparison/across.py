"""What models score in each language of a task, trained in some of them (SPEC C.1).

The average is the unweighted mean over the languages, those that were trained on included; the
transfer gap is that of `tasks.xtreme`, a seed at a time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.finetuning.names import language_of, learnt, titled, without_language
from lingraft.finetuning.outcomes import is_cut, metric_name, summary, told
from lingraft.report import numbers
from lingraft.report.table import BEST, SECOND, Cell, Column, row, table
from lingraft.tasks import GROUPS, xtreme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.finetuning.outcomes import Outcome, Summary
    from lingraft.report.table import Table

MEAN = "mean of scores"
"""Of several scores of a task: XTREME's one number, (EM + F1) / 2 of answers."""
ANSWERS = ("exact_match", "f1")
"""Scores of answers in passages, whose mean is the one number of such a task."""
SAME = "•"
"""Trained and tested in one language."""

BySeed = dict[int, float]


@dataclass(frozen=True)
class Setting:
    """A task, trained in the same languages and scored on the same split by several models."""

    task: str
    name: str
    """`pawsx`, or `pawsx (dev)` where another split is there too."""
    train: tuple[str, ...]
    languages: tuple[str, ...]
    """Those that are scored, the trained ones first."""
    keys: tuple[str, ...]
    """The scores that tables show; `MEAN` is last where there are several of one kind."""
    values: Mapping[str, Mapping[str, Mapping[str, BySeed]]]
    """By model, score, language and seed."""
    chosen: Mapping[str, tuple[str, ...]]
    """By model, the development sets that chose its weights."""
    examples: Mapping[str, int]
    """By language."""
    rules: Mapping[str, Mapping[str, float]]
    """What needs no model, by rule and score: means over the languages."""
    note: str
    """What the splits are, as `Outcome.split_note`."""

    @property
    def number(self) -> str:
        """The key of the task's one number."""
        return MEAN if MEAN in self.keys else number_of(self.task, self.keys)[0]

    @property
    def title(self) -> str:
        """`pawsx en→`."""
        return f"{self.name} {learnt(self.train)}→"

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.values)

    @property
    def others(self) -> tuple[str, ...]:
        """The languages that were not trained on."""
        return tuple(language for language in self.languages if language not in self.train)

    def complete(self, label: str, key: str) -> dict[int, dict[str, float]]:
        """By seed and language, of the seeds that have all languages."""
        values = self.values[label].get(key, {})
        seeds = set.intersection(*(set(values.get(language, {})) for language in self.languages))
        return {
            seed: {language: values[language][seed] for language in self.languages}
            for seed in sorted(seeds)
        }

    def average(self, label: str, key: str) -> BySeed:
        """The mean over all languages by seed."""
        complete = self.complete(label, key)
        return {seed: fmean(scores.values()) for seed, scores in complete.items()}

    def gap(self, label: str, key: str) -> BySeed:
        """The transfer gap by seed; empty where there is nothing to transfer from or to."""
        if not self.others or not set(self.train) <= set(self.languages):
            return {}
        complete = self.complete(label, key)
        return {seed: xtreme.transfer_gap(scores, self.train) for seed, scores in complete.items()}


def settings(scored: Iterable[tuple[str, Outcome, str]]) -> list[Setting]:
    """What there is to show.

    Args:
        scored: label of a model, its outcome, and a split of it that is reported; those in one
            language are left out.
    """
    groups: dict[tuple[str, tuple[str, ...], str], list[tuple[str, Outcome, str]]] = {}
    for label, outcome, split in scored:
        if (languages := outcome.languages) is not None:
            key = (languages.task, languages.train, without_language(split))
            groups.setdefault(key, []).append((label, outcome, split))
    splits = Counter((task, train) for task, train, _ in groups)
    return [
        _setting(task, titled(task, split if splits[task, train] > 1 else ""), train, entries)
        for (task, train, split), entries in groups.items()
    ]


def _setting(
    task: str, name: str, train: tuple[str, ...], entries: Sequence[tuple[str, Outcome, str]]
) -> Setting:
    keys = tuple(dict.fromkeys(key for _, outcome, _ in entries for key in outcome.data["shown"]))
    number = number_of(task, keys)
    several = number if len(number) > 1 else ()
    values: dict[str, dict[str, dict[str, BySeed]]] = {}
    selections: dict[str, dict[str, None]] = {}
    examples: dict[str, int] = {}
    rules: dict[str, list[Mapping[str, Mapping[str, float]]]] = {}
    for label, outcome, split in entries:
        languages = outcome.languages
        assert languages is not None
        language, scores = language_of(split), outcome.scores(split)
        if several:
            scores[MEAN] = fmean(scores[key] for key in several)
        for key in (*keys, *([MEAN] if several else [])):
            if key in scores:
                of_language = values.setdefault(label, {}).setdefault(key, {})
                of_language.setdefault(language, {}).setdefault(outcome.seed, scores[key])
        selections.setdefault(label, {})[languages.select_on] = None
        examples[language] = outcome.n(split)
        rules.setdefault(language, []).append(outcome.rules(split))
    order = sorted(examples, key=lambda tag: (tag not in train, tag))
    notes = dict.fromkeys(outcome.split_note for _, outcome, _ in entries)
    return Setting(
        task,
        name,
        train,
        tuple(order),
        (*keys, MEAN) if several else keys,
        values,
        {label: tuple(sets) for label, sets in selections.items()},
        examples,
        _rules([_rules(of_language) for of_language in rules.values()]),
        "; ".join(notes),
    )


def _rules(by_split: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """The mean of every rule's scores, where all have it."""
    first, *rest = by_split
    return {
        rule: {
            key: fmean((value, *(rules[rule][key] for rules in rest)))
            for key, value in scores.items()
            if all(key in rules.get(rule, {}) for rules in rest)
        }
        for rule, scores in first.items()
    }


def number_of(task: str, keys: Sequence[str]) -> tuple[str, ...]:
    """The scores whose mean is the task's one number: XTREME's, of one's own task the first."""
    if task in GROUPS:
        return GROUPS[task].scores
    return ANSWERS if set(ANSWERS) <= set(keys) else tuple(keys[:1])


# -- tables


def language_table(setting: Setting, marks: Mapping[tuple[str, str, str], str]) -> Table:
    """Models × languages, with average and gap: mean ± sample standard deviation over the seeds.

    Args:
        setting: the task.
        marks: (model, score, language) → a sign behind the number; the average's language is "".
    """
    several = len(setting.keys) > 1
    head = [Column("model", "text")] + [Column("score", "text")] * several
    head += [
        Column(language, under="trained" if language in setting.train else "")
        for language in setting.languages
    ]
    head += [Column("average"), Column("gap")]
    rows = []
    for key in setting.keys:
        columns = [
            {label: setting.values[label].get(key, {}).get(tag, {}) for label in setting.models}
            for tag in setting.languages
        ]
        columns.append({label: setting.average(label, key) for label in setting.models})
        names = (*setting.languages, "")
        for label in setting.models:
            cells = [
                _cell(column, label, marks.get((label, key, name), ""))
                for column, name in zip(columns, names, strict=True)
            ]
            gap = _cell({label: setting.gap(label, key)}, label)
            start = (label, metric_name(key)) if several else (label,)
            rows.append(row(*start, *cells, gap))
    title = f"{setting.name}, trained in {', '.join(setting.train)}"
    return table(title, head, rows, _notes(setting))


def _cell(values: Mapping[str, BySeed], label: str, mark: str = "") -> Cell:
    score = of_seeds(values[label])
    if score is None:
        return plain_cell(None)
    means = [fmean(seeds.values()) for seeds in values.values() if seeds]
    return replace(plain_cell(score, mark), rank=rank(score.mean, means))


def rank(mean: float, means: Sequence[float]) -> int:
    """1 for the best and 2 for the second best of several means, 0 for others.

    2 only where another is worse: of three models of which two are equal none is second.
    """
    order = sorted(set(means), reverse=True)
    place = order.index(mean) + 1
    ranked = len(means) > 1 and (place == BEST or (place == SECOND and len(order) > 2))
    return place if ranked else 0


def of_seeds(values: BySeed) -> Summary | None:
    """Mean and deviation over the seeds; None without one."""
    return summary([*values.values()]) if values else None


def _notes(setting: Setting) -> list[str]:
    trained = ", ".join(setting.train)
    number = len(setting.languages)
    languages = "1 language" if number == 1 else f"the {number} languages"
    scored = [tag for tag in setting.train if tag in setting.languages]
    others = [tag for tag in setting.train if tag not in setting.languages]
    included = f", {', '.join(scored)} included" if scored else ""
    included += f", {', '.join(others)} not among them" if others else ""
    notes = [f"average: over {languages}{included}; only for models that have all."]
    if setting.others and not others:
        notes.append(f"gap: {trained} less the mean over the other {len(setting.others)}.")
    by_choice: dict[str, list[str]] = {}
    for label, choices in setting.chosen.items():
        for choice in choices:
            by_choice.setdefault(choice, []).append(label)
    for choice, labels in by_choice.items():
        of = "the mean over all tested languages" if choice == "mean" else choice
        whose = f" ({', '.join(labels)})" if len(by_choice) > 1 else ""
        notes.append(f"Weights chosen on the development sets of {of}{whose}.")
    keys = [key for key in setting.keys if key != MEAN]
    complete = all(key in scores for scores in setting.rules.values() for key in keys)
    if complete and (reached := told(setting.rules, keys)):
        notes.append(f"average without a model: {reached}.")
    if is_cut(setting.note):
        notes.append(f"not the official splits of {setting.task}: {setting.note}.")
    if MEAN in setting.keys:
        notes.append(f"{MEAN}: of exact match and F1, XTREME's number.")
    return notes


# -- directions


@dataclass(frozen=True)
class Directions:
    """One score of one model, trained in each language by itself: train × test (figure 6)."""

    task: str
    label: str
    key: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    means: Mapping[tuple[str, str], Summary]
    """(Trained in, tested in) → over the seeds."""
    gaps: Mapping[str, Summary]
    """Trained in → the transfer gap."""
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.task}, {self.label}: {metric_name(self.key)}, trained in … tested in …"


def directions(all_settings: Iterable[Setting]) -> list[Directions]:
    """The matrices of all tasks that are trained in two or more single languages."""
    by_task: dict[str, list[Setting]] = {}
    for setting in all_settings:
        if len(setting.train) == 1:
            by_task.setdefault(setting.name, []).append(setting)
    return [
        _matrix(task, of_task, label, key)
        for task, of_task in by_task.items()
        if len(of_task) > 1
        for label in dict.fromkeys(label for setting in of_task for label in setting.models)
        for key in dict.fromkeys(key for setting in of_task for key in setting.keys)
        if sum(label in setting.values for setting in of_task) > 1
    ]


def _matrix(task: str, of_task: Sequence[Setting], label: str, key: str) -> Directions:
    mine = [setting for setting in of_task if label in setting.values]
    train = tuple(setting.train[0] for setting in mine)
    tested = dict.fromkeys(language for setting in mine for language in setting.languages)
    means = {
        (setting.train[0], language): score
        for setting in mine
        for language, values in setting.values[label].get(key, {}).items()
        if (score := of_seeds(values)) is not None
    }
    order = sorted(tested, key=lambda tag: (train.index(tag) if tag in train else len(train), tag))
    gaps = {setting.train[0]: gap for setting in mine if (gap := of_seeds(setting.gap(label, key)))}
    notes = [
        f"Chosen on the development sets of: {', '.join(c for m in mine for c in m.chosen[label])}."
    ]
    notes += dict.fromkeys(
        f"not the official splits: {setting.note}." for setting in mine if is_cut(setting.note)
    )
    return Directions(task, label, key, train, tuple(order), means, gaps, tuple(notes))


def direction_table(matrix: Directions) -> Table:
    """Trained in (rows) × tested in (columns), and the mean over the tested languages."""
    rows = []
    for trained in matrix.train:
        scores = [matrix.means.get((trained, tested)) for tested in matrix.test]
        cells = [
            plain_cell(score, SAME if tested == trained else "")
            for tested, score in zip(matrix.test, scores, strict=True)
        ]
        means = [score.mean for score in scores if score]
        whole = numbers.fixed(fmean(means), 1) if len(means) == len(scores) else numbers.ABSENT
        rows.append(row(trained, *cells, whole, plain_cell(matrix.gaps.get(trained))))
    head = ("trained in", *matrix.test, "average", "gap")
    notes = [f"{SAME} trained and tested in the same language.", *matrix.notes]
    return table(matrix.title, head, rows, notes)


def plain_cell(score: Summary | None, mark: str = "") -> Cell:
    """Mean and deviation without a rank."""
    if score is None:
        return Cell(numbers.ABSENT)
    under = "" if score.deviation is None else f"± {numbers.fixed(score.deviation, 1)}"
    return Cell(numbers.fixed(score.mean, 1), under, mark=mark)
