"""The tables of a comparison, their sheets to full precision, and the verdict in a sentence."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.comparison.across import number_of, of_seeds, plain_cell, rank, settings
from lingraft.comparison.collect import differing_settings
from lingraft.finetuning.names import without_language
from lingraft.finetuning.outcomes import ALSO_CHOSE, OFFICIAL, is_cut, metric_name, summary, told
from lingraft.report import numbers
from lingraft.report.next_step import NextStep, command
from lingraft.report.table import BEST, Cell, Column, comma_separated, row, table
from lingraft.stats import FEWEST_BLOCKS
from lingraft.tasks import GROUPS, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.comparison.across import Setting
    from lingraft.comparison.collect import Comparison, Part
    from lingraft.comparison.significance import Tested
    from lingraft.finetuning.outcomes import Summary
    from lingraft.report.table import Table
    from lingraft.tasks import Task

AVERAGE = "average"
NOT_OFFICIAL = "‡"
OTHER_EXAMPLES = "†"


@dataclass(frozen=True)
class Score:
    """One score of one task, or the average: summaries by label."""

    title: str
    metric: str
    summaries: Mapping[str, Summary]
    marks: Mapping[str, str] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    """Labels that were scored on other examples, and do not compare."""

    def cell(self, label: str) -> Cell:
        """The score of a model, marked."""
        score = self.summaries.get(label)
        sign = self.marks.get(label, "") + (OTHER_EXAMPLES if label in self.apart else "")
        return replace(plain_cell(score, sign), rank=self._rank(label) if score else 0)

    def _rank(self, label: str) -> int:
        if label in self.apart:
            return 0
        means = [score.mean for name, score in self.summaries.items() if name not in self.apart]
        return rank(self.summaries[label].mean, means)


def measured(comparison: Comparison, tested: Sequence[Tested] = ()) -> list[Score]:
    """Every score of every task, and the average where there are several tasks."""
    marks: dict[tuple[str, str], dict[str, str]] = {}
    for test in tested:
        marks.setdefault((test.title, test.key), {})[test.label] = test.mark
    by_title = {
        part.title: [_of_part(comparison, part, key, marks) for key in part.keys]
        for part in comparison.parts
        if part.languages is None
    }
    for setting in settings_of(comparison):
        sign = NOT_OFFICIAL if is_cut(setting.note) else ""
        title = f"{setting.title}{len(setting.languages)}"
        by_title[setting.title] = [
            Score(
                title + sign,
                key,
                {
                    label: average
                    for label in setting.models
                    if (average := of_seeds(setting.average(label, key)))
                },
                marks.get((setting.title, key), {}),
            )
            for key in setting.keys
        ]
    families = dict.fromkeys(part.family for part in comparison.parts)
    titles = dict.fromkeys(part.title for part in comparison.parts)
    order = titles | dict.fromkeys(part.setting for part in comparison.parts)
    columns = [score for name in order for score in by_title.get(name, ())]
    return [*columns, _average(comparison)] if len(families) > 1 else columns


def settings_of(comparison: Comparison) -> list[Setting]:
    """Tasks in several languages: what was scored on the same examples."""
    return settings(
        (label, run.outcome, part.split)
        for part in comparison.parts
        if part.languages
        for label in comparison.labels
        for run in part.runs.get(label, ())
    )


def _of_part(
    comparison: Comparison,
    part: Part,
    key: str,
    marks: Mapping[tuple[str, str], dict[str, str]] | None = None,
) -> Score:
    """One score of one part."""
    title = part.title + ("" if part.official else NOT_OFFICIAL)
    values = {label: part.values(label, key) for label in comparison.labels}
    summaries = {label: summary([*v.values()]) for label, v in values.items() if v}
    signs = (marks or {}).get((part.title, key), {})
    return Score(title, key, summaries, signs, frozenset(part.apart))


def _average(comparison: Comparison) -> Score:
    """The mean over the tasks of the mean over a task's scores, for models that have all.

    The deviation is over the seeds that all tasks have; without two of them there is none.
    """
    summaries = {}
    for label in comparison.labels:
        if any(label not in part.runs for part in comparison.parts):
            continue
        by_task: dict[str, list[dict[int, float]]] = {}
        for part in comparison.parts:
            languages = part.languages
            keys = part.keys
            if languages and languages.task in GROUPS:
                keys = number_of(languages.task, keys)
            by_task.setdefault(part.family, []).extend(part.values(label, key) for key in keys)
        mean = fmean(fmean(fmean(s.values()) for s in scores) for scores in by_task.values())
        seeds = [set(by_seed) for scores in by_task.values() for by_seed in scores]
        common = set.intersection(*seeds)
        over = summary(
            [
                fmean(fmean(by_seed[seed] for by_seed in scores) for scores in by_task.values())
                for seed in sorted(common)
            ]
            or [mean]
        )
        complete = all(seed_set == common for seed_set in seeds)
        summaries[label] = over if complete else type(over)(mean, over.deviation, over.seeds)
    return Score(AVERAGE, "", summaries)


def scores(comparison: Comparison, tested: Sequence[Tested] = ()) -> Table:
    """Models × tasks: mean ± sample standard deviation over the seeds."""
    columns = measured(comparison, tested)
    titles = (Column(score.title, under=metric_name(score.metric)) for score in columns)
    rows = [
        row(label, *(score.cell(label) for score in columns), _seeds(comparison, label))
        for label in comparison.labels
    ]
    return table("Scores", ("model", *titles, "seeds"), rows, _notes(comparison))


def _seeds(comparison: Comparison, label: str) -> str:
    counted = [
        len(runs)
        for part in comparison.parts
        if (runs := part.runs.get(label) or part.apart.get(label))
    ]
    low, high = min(counted), max(counted)
    return str(low) if low == high else f"{low} to {high}"


def _notes(comparison: Comparison) -> tuple[str, ...]:
    by_note: dict[str, list[str]] = {}
    for part in comparison.parts:
        if part.languages is None:
            description = f"{part.title} ({part.split}, {len(part.examples):,} examples)"
            by_note.setdefault(part.note, []).append(description)
    for setting in settings_of(comparison):
        size = f"{len(setting.languages)} languages, {sum(setting.examples.values()):,} examples"
        by_note.setdefault(setting.note, []).append(f"{setting.title} ({size})")
    notes = [
        f"{NOT_OFFICIAL} Not the official splits: {', '.join(titles)}: {note}."
        if is_cut(note)
        else f"{'Official splits' if note == OFFICIAL else 'Splits of own files'}: "
        f"{', '.join(titles)}."
        for note, titles in by_note.items()
    ]
    own = {part.task.name: part.task for part in comparison.parts if part.task.is_own}
    notes += [_own_note(task) for task in own.values()]
    if chose := [part.title for part in comparison.parts if part.chose]:
        notes.append(f"{ALSO_CHOSE.capitalize()}: {', '.join(chose)}.")
    by_setting: dict[str, None] = {}
    for part in comparison.parts:
        if part.languages is None and (reached := told(part.rules, part.keys)):
            notes.append(f"{part.title} without a model: {reached}.")
        if part.apart:
            notes.append(
                f"{OTHER_EXAMPLES} {part.title}: scored on other examples, does not compare: "
                f"{', '.join(part.apart)}."
            )
        for label, seeds in part.left_out.items():
            notes.append(
                f"{part.title}: left out of {label}, since scored on other examples than its "
                f"other seeds: seed {', '.join(map(str, seeds))}."
            )
        notes += [f"{part.title} {metric_name(key)}: {text}." for key, text in _signatures(part)]
        if differing := differing_settings(part):
            by_setting[f"{part.family}: fine-tuned with different {', '.join(differing)}."] = None
    notes += by_setting
    for setting in settings_of(comparison):
        number = len(setting.languages)
        notes.append(
            f"{setting.title}{number}: trained in {', '.join(setting.train)}, "
            f"{f'the mean over {number} languages' if number > 1 else 'scored in one language'} "
            f"({', '.join(setting.languages)})."
        )
    if len({part.family for part in comparison.parts}) > 1:
        notes.append(
            f"{AVERAGE}: over the tasks, of each the mean of its scores (of XTREME's those that "
            "it takes); only for models that have all."
        )
    return tuple(notes)


def _signatures(part: Part) -> list[tuple[str, str]]:
    """Score and sacrebleu's signature of it, for those that have one; two do not compare."""
    runs = (run for runs in part.runs.values() for run in runs)
    pairs = [(run.outcome.data.get("signatures") or {}).items() for run in runs]
    return [pair for pair in dict.fromkeys(chain.from_iterable(pairs)) if pair[0] in part.keys]


def _own_note(task: Task) -> str:
    """What a user's own task is, from its saved definition."""
    labels = f", labels {', '.join(task.labels)}" if task.labels else ""
    metrics = ", ".join(metric_name(key) for key in task.shown)
    return (
        f"{task.name}: a task of your own ({task.kind}{labels}); scores {metrics}, in percent, "
        f"higher is better; checkpoints chosen by {metric_name(task.selection)}."
    )


def differences(comparison: Comparison, tested: Sequence[Tested]) -> Table | None:
    """Every model less the reference, with intervals; None where nothing compares."""
    if not tested:
        return None
    tests = {(test.label, test.title, test.key): test for test in tested}
    labels = dict.fromkeys(test.label for test in tested)
    rows = [
        row(
            f"{title} {metric_name(key)}",
            *(_less(tests.get((label, title, key))) for label in labels),
        )
        for title, key in dict.fromkeys((test.title, test.key) for test in tested)
    ]
    head = (f"less {comparison.reference}", *labels)
    return table("Differences", head, rows, _tested_notes(tested))


def _less(tested: Tested | None) -> Cell:
    if tested is None:
        return Cell(numbers.ABSENT)
    difference, value = tested.found, numbers.signed(tested.found.value, 1)
    if difference.p is None or difference.low is None or difference.high is None:
        return Cell(value)
    p = numbers.tested(difference.p, difference.p_seeds, difference.trained)
    between = numbers.between(difference.low, difference.high, 1, sign=True)
    return Cell(value, f"{between} {p}", mark=tested.mark)


def _tested_notes(tested: Sequence[Tested]) -> tuple[str, ...]:
    seeds = sorted({test.seeds for test in tested})
    over = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    single = " With one seed both tell of the test set alone." if seeds[0] == 1 else ""
    more = " The second p is of a paired t-test over the seeds." if seeds[-1] > 1 else ""
    few = any(test.found.p is None for test in tested)
    without = f" Fewer than {FEWEST_BLOCKS} documents give neither." if few else ""
    return (
        "Points, with 95 % intervals and two-sided p: paired bootstrap, "
        f"{tested[0].found.resamples:,} draws of test examples and of the {over} "
        f"seed{'s' if seeds != [1] else ''} that both models have.{more}{single}{without}",
        f"* {'each p' if more else 'p'} < 0.05{_uncorrected(len(tested))}.",
    )


def _uncorrected(number: int) -> str:
    if number == 1:
        return ""
    return (
        f", not corrected for {number} differences: one in twenty has a mark where models are alike"
    )


def score_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Mean, deviation and seeds of every score, one row a model and score, to full precision."""
    return [
        {
            "model": label,
            "task": languages.task if (languages := part.languages) else part.family,
            "train_languages": "+".join(languages.train) if languages else "",
            "test_language": part.language,
            "split": without_language(part.split),
            "metric": key,
            "mean": score.mean,
            "deviation": score.deviation,
            "seeds": score.seeds,
            "n": runs[0].outcome.n(part.split),
            "same_examples": label in part.runs,
            "split_note": runs[0].outcome.split_note,
        }
        for label in comparison.labels
        for part in comparison.parts
        if (runs := part.runs.get(label) or part.apart.get(label))
        for key in part.keys
        if (score := _of_part(comparison, part, key).summaries.get(label))
    ]


def differences_sheet(tested: Sequence[Tested], reference: str) -> str:
    """Every difference, to full precision."""
    names = ("model", "less", "task", "metric")
    head = (*names, "difference", "low", "high", "p", "p_seeds", "seeds", "draws")
    rows = []
    for test in tested:
        gain = test.found
        bounds = (gain.value, gain.low, gain.high, gain.p, gain.p_seeds)
        rows.append(
            (test.label, reference, test.title, test.key, *bounds, test.seeds, gain.resamples)
        )
    return comma_separated(head, rows)


def verdict(comparison: Comparison, results: Table, tested: Sequence[Tested]) -> str:
    """What the table of scores says, and whether the differences are more than luck."""
    if not any(cell.rank == BEST for line in results.rows for cell in line.cells):
        return f"{len(comparison.labels)} models; there is nothing to compare yet."
    firsts, wins = _winners(results)
    count, width = len(results.rows), len(results.columns) - 2
    best = f"{' and '.join(firsts)} {'is' if len(firsts) == 1 else 'are each'} best of {count} "
    best += f"models in {wins} of {width} columns." if width > 1 else "models."
    if not wins:
        best = "Neither model is" if count == 2 else f"None of {count} models is"
        best += f" best alone in any of {width} columns." if width > 1 else " best alone."
    return f"{best} {_significant(tested, comparison.reference, wins)}" if tested else best


def _significant(tested: Sequence[Tested], reference: str, wins: int) -> str:
    """How many of the differences to the reference are more than luck."""
    known = [test for test in tested if test.found.larger_p is not None]
    marked, number = sum(bool(test.mark) for test in known), len(known)
    if not known:
        return f"Nothing is known of luck: the test sets have fewer than {FEWEST_BLOCKS} documents."
    level = "significant (p < 0.05)."
    if number == 1:
        what = f"{'T' if marked or not wins else 'But t'}he difference to {reference} is "
        return f"{what}{'' if marked else 'not '}{level}"
    many = f"of {number} differences to {reference}"
    if not marked:
        return f"{'But none' if wins else 'None'} {many} is {level}"
    return f"{marked} {many} {'is' if marked == 1 else 'are'} {level}"


def _winners(results: Table) -> tuple[list[str], int]:
    """The models that are best alone in most columns, and in how many; all where that is none."""
    wins = {row.cells[0].text: 0 for row in results.rows}
    for at in range(1, len(results.columns) - 1):
        best = [row.cells[0].text for row in results.rows if row.cells[at].rank == BEST]
        if len(best) == 1:
            wins[best[0]] += 1
    most = max(wins.values())
    return [label for label, number in wins.items() if number == most], most


def next_step(comparison: Comparison, results: Table, tested: Sequence[Tested]) -> NextStep | None:
    """More seeds where no difference is significant, else to keep the weights.

    The command is the one that fine-tuned, where that is known. None without runs, and where
    nobody knows how a task of one's own was called.
    """
    (label, *_), _ = _winners(results)
    runs = [run for part in comparison.parts for run in part.runs.get(label, ())]
    if not runs:
        return None
    out = runs[0].outcome
    called = str(out.data.get("command", ""))
    if not called.startswith("lingraft finetune "):
        if out.task not in TASKS:
            return None
        called = command("finetune", out.model, "--task", out.task, "--data", "data")
    words = [word for word in shlex.split(called) if word not in ("--resume", "--overwrite")]
    called = shlex.join(words)
    known = [test for test in tested if test.found.larger_p is not None]
    if known and not any(test.mark for test in known):
        seeds, why = 2 * max(test.seeds for test in known), "More seeds may tell the models apart"
        if out.model not in words:  # a recipe names the models, and the seeds
            return NextStep(f"{why} (seeds = {seeds} in the recipe):", called)
        return NextStep(f"{why}:", f"{called} --seeds {seeds}")
    why = f"To use {label}, fine-tune it once more and keep its weights:"
    return NextStep(why, f"{called} --keep-models --overwrite")
