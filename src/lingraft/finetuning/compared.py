"""Finished fine-tuning runs of several folders, arranged by task and model.

Only scores of the same examples compare: runs that were scored on other examples than the
reference are kept apart, and every table says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import outcomes, scored
from lingraft.finetuning.names import language_of, split_in, titled, without_language
from lingraft.tasks import GROUPS, xtreme
from lingraft.tasks.examples import align

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.finetuning.outcomes import Languages, Outcome
    from lingraft.report.row import Score
    from lingraft.report.scored import Rows
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

    BySeed = dict[int, float]
    Pairs = list[tuple[Any, Any]]

SCRATCH = "scratch"
AVERAGE, GAP = "average", "gap"
"""Names of the scores over all languages; in the place of one language's."""
MEAN = "mean of scores"
"""Name of a mean of a task's scores: XTREME's one number, (EM + F1) / 2 of answers."""
ANSWERS = ("exact_match", "f1")
"""Scores of answers in passages, whose mean is the one number of such a task."""


@dataclass(frozen=True)
class Run:
    """A model with one seed, scored on one split of a task."""

    label: str
    outcome: Outcome
    split: str
    rows: Mapping[str, Score]
    """By metric."""

    @property
    def seed(self) -> int:
        return self.outcome.seed

    @property
    def examples_id(self) -> str:
        """Return a fingerprint that is equal for runs that were scored on the same examples."""
        return next(iter(self.rows.values())).masks


@dataclass(frozen=True)
class Part:
    """A split of a task in one language, and all runs on the same examples of it."""

    task: Task
    title: str
    setting: str
    """The title of the `Setting` that it belongs to."""
    runs: Mapping[str, Sequence[Run]]
    """By label, ordered by seed."""
    apart: Mapping[str, Sequence[Run]]
    """By label, the runs that were scored on other examples."""

    @property
    def all_runs(self) -> list[Run]:
        """Return the runs that compare."""
        return [run for runs in self.runs.values() for run in runs]

    @property
    def first(self) -> Outcome:
        return self.all_runs[0].outcome

    @property
    def split(self) -> str:
        return self.all_runs[0].split

    @cached_property
    def examples(self) -> list[Example]:
        """Return the examples as they were scored."""
        return outcomes.examples(self.first, self.split)

    @property
    def note(self) -> str:
        """Return a note of what the splits are."""
        return "; ".join(dict.fromkeys(run.outcome.split_note for run in self.all_runs))

    @property
    def languages(self) -> Languages | None:
        """Return the languages of a task in several; None for a task in one."""
        return self.first.languages

    @property
    def family(self) -> str:
        """Return the name of what is one task in an average, with the languages trained on."""
        return self.languages.title() if self.languages else self.first.task

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the scores that tables show."""
        return self.task.shown

    @property
    def number(self) -> tuple[str, ...]:
        """Return the scores whose mean is the one number: XTREME's, of one's own task the first."""
        if self.languages and self.languages.task in GROUPS:
            return GROUPS[self.languages.task].scores
        return ANSWERS if set(ANSWERS) <= set(self.keys) else self.keys[:1]

    @property
    def rules(self) -> dict[str, dict[str, float]]:
        """Return the scores of rules, of the runs that were trained on the most examples."""
        data = max(
            (r.outcome for r in self.all_runs), key=lambda o: o.data.get("train_examples", 0)
        )
        return data.rules(self.split)

    def of_model(self, label: str) -> Sequence[Run]:
        """Return the runs of a model; where it was scored on other examples alone, those."""
        return self.runs.get(label) or self.apart.get(label, ())

    def rows(self, label: str, key: str) -> Rows:
        """Return a score's rows by seed, of the runs that compare."""
        return {(r.seed,): r.rows[key] for r in self.runs.get(label, ()) if key in r.rows}

    def values(self, label: str, key: str) -> BySeed:
        """Score by seed."""
        keys = self.number if key == MEAN else (key,)
        rows = {run.seed: run.rows for run in self.of_model(label)}
        return {
            s: fmean(of[k].value for k in keys) for s, of in rows.items() if of.keys() >= set(keys)
        }


def answers(part: Part, run: Run) -> Pairs:
    """Return the examples with what a run said of them.

    Raises:
        DataError: predictions are missing, or of other examples.
    """
    predictions = align(part.examples, outcomes.predictions(run.outcome, run.split))
    return list(zip(part.examples, predictions, strict=True))


@dataclass(frozen=True)
class Setting:
    """A task as it was trained: its parts by language, or the one part of a task in one language.

    The average is the unweighted mean over the languages, those that were trained on included; the
    transfer gap is that of `tasks.xtreme`, a seed at a time.
    """

    title: str
    """`pawsx en→`, or `nsmc`."""
    parts: Mapping[str, Part]
    """By language, the trained ones first."""

    @property
    def first(self) -> Part:
        return next(iter(self.parts.values()))

    @property
    def name(self) -> str:
        """Return `pawsx`, or `pawsx (dev)` where another split is there too."""
        return self.title.rpartition(" ")[0] if self.train else self.title

    @property
    def train(self) -> tuple[str, ...]:
        """Return the languages that were trained on; empty for a task in one language."""
        return self.first.languages.train if self.first.languages else ()

    @property
    def task(self) -> str:
        """Return the name of the task without a language."""
        return self.first.languages.task if self.first.languages else self.first.family

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the scores that tables show; `MEAN` is last where the one number is of several."""
        several = self.train and len(self.first.number) > 1
        return (*self.first.keys, MEAN) if several else self.first.keys

    @property
    def key(self) -> str:
        """Return the score that is the task's one number."""
        return MEAN if MEAN in self.keys else self.first.number[0]

    def columns(self, label: str, key: str) -> dict[str, BySeed]:
        """Return a model's scores by language, and average and gap of the seeds that have all.

        There is no average of scores on other examples, and no gap where there is nothing to
        transfer from or to.
        """
        values = {language: part.values(label, key) for language, part in self.parts.items()}
        seeds = sorted(set.intersection(*map(set, values.values())))
        if self.train and any(label not in part.runs for part in self.parts.values()):
            seeds = []
        whole = {seed: {tag: of[seed] for tag, of in values.items()} for seed in seeds}
        average = {seed: fmean(scores.values()) for seed, scores in whole.items()}
        gap = {}
        if self.train and set(self.train) < self.parts.keys():
            gap = {seed: xtreme.transfer_gap(of, self.train) for seed, of in whole.items()}
        return values | {AVERAGE: average, GAP: gap}


@dataclass(frozen=True)
class Comparison:
    """All that is compared."""

    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    reference: str

    @property
    def weights(self) -> dict[str, str]:
        """Return the fingerprint of each model's weights, by label."""
        return {
            label: run.outcome.model_fingerprint
            for part in self.parts
            for label in self.labels
            for run in part.of_model(label)
        }

    @cached_property
    def settings(self) -> list[Setting]:
        """Return the tasks, with their languages."""
        grouped: defaultdict[str, dict[str, Part]] = defaultdict(dict)
        for part in self.parts:
            grouped[part.setting][language_of(part.split)] = part
        settings = []
        for title, parts in grouped.items():
            train = Setting(title, parts).train
            order = sorted(parts, key=lambda tag: (tag not in train, tag))
            settings.append(Setting(title, {tag: parts[tag] for tag in order}))
        return settings


def collect(folders: Sequence[Path], reference: str | None = None) -> Comparison:
    """Read the finished runs of some folders.

    Args:
        folders: what `lingraft finetune --out` wrote, in the order in which models are shown.
        reference: label of the model that the others are tested against; None takes the one called
            "scratch" or, failing that, something that begins so, else the first.

    Raises:
        DataError: a folder holds no results, or one label stands for different models or results.
        RecipeError: no model has the label of the reference.
    """
    return arrange(runs_of(_labelled(folders), folders), reference)


def runs_of(found: Iterable[tuple[str, Outcome]], folders: Iterable[Path]) -> list[Run]:
    """Return finished seeds, each with its label, as runs with their rows in the folders."""
    rows: defaultdict[tuple[Path, str], dict[str, Score]] = defaultdict(dict)
    for folder in folders:
        for row in scored.rows_in(folder):
            language = row.axes.get("language")
            split = split_in(row.split, str(language)) if language else row.split
            rows[folder / str(row.facts["place"]), split][row.metric] = row
    return [
        Run(label, outcome, split, rows[outcome.folder, split])
        for label, outcome in found
        for split in outcome.evaluation
    ]


def arrange(runs: Iterable[Run], reference: str | None = None) -> Comparison:
    """Arrange finished runs with the labels of their models; as `collect`."""
    grouped: defaultdict[tuple[str, str], list[Run]] = defaultdict(list)
    labels: dict[str, None] = {}
    for run in runs:
        labels[run.label] = None
        grouped[run.outcome.task, run.split].append(run)
    if reference is None:
        reference = min(
            (one for one in labels if one.startswith(SCRATCH)), default=next(iter(labels))
        )
    if reference not in labels:
        raise RecipeError(
            f"--reference: no model is called {reference!r}; there are {', '.join(labels)}"
        )
    kinds = {(task, without_language(split)) for task, split in grouped}
    several = Counter(task for task, _ in kinds)
    parts = [
        _part(group, without_language(split) if several[task] > 1 else "", reference)
        for (task, split), group in grouped.items()
    ]
    return Comparison(tuple(labels), tuple(parts), reference)


def _labelled(folders: Sequence[Path]) -> list[tuple[str, Outcome]]:
    """Label every run with its model; equal labels of different folders are told apart."""
    found: defaultdict[tuple[str, str], dict[tuple[str, int], Outcome]] = defaultdict(dict)
    places: dict[tuple[str, str], Path] = {}
    for folder in folders:
        for new in outcomes.outcomes(folder):
            model = (new.model_label, new.model_fingerprint)
            places.setdefault(model, folder.resolve())
            old = found[model].setdefault((new.task, new.seed), new)
            if old.fingerprint != new.fingerprint:
                raise DataError(
                    f"{new.folder} and {old.folder}: two results of {new.model_label} on "
                    f"{new.task} with seed {new.seed} under different settings; give one of them "
                    "another --label"
                )
    result = []
    for (label, weights), runs in found.items():
        others = [place for model, place in places.items() if model[0] == label]
        place = places[label, weights]
        if others.count(place) > 1:
            raise DataError(
                f"{place}: {label} stands for two models (their weights differ); "
                "fine-tune one of them again with another --label or --out"
            )
        depth = 0  # as many of the last parts of the folder's path as tell it from the others
        while len({one.parts[len(one.parts) - depth :] for one in others}) < len(others):
            depth += 1
        name = "/".join((*place.parts[len(place.parts) - depth :], label))
        result += [(name, outcome) for outcome in runs.values()]
    return result


def _part(runs: Sequence[Run], kind: str, reference: str) -> Part:
    """Arrange the runs on one split; `kind` tells it from another split of the task."""
    counted = Counter(run.examples_id for run in runs)
    of_reference = (run.examples_id for run in runs if run.label == reference)
    examples_id = next(of_reference, counted.most_common(1)[0][0])
    same: defaultdict[str, list[Run]] = defaultdict(list)
    apart: defaultdict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.seed):
        (same if run.examples_id == examples_id else apart)[run.label].append(run)
    order = dict.fromkeys(run.label for run in runs)
    first = next(run for run in runs if run.examples_id == examples_id)
    outcome, split, languages = first.outcome, first.split, first.outcome.languages
    title = languages.title(kind) if languages else titled(outcome.task, kind)
    return Part(
        scored.task_in(outcome, split),
        f"{title}{language_of(split)}" if languages else title,
        title,
        {label: same[label] for label in order if label in same},
        {label: apart[label] for label in order if label in apart},
    )


def differing_settings(part: Part) -> tuple[str, ...]:
    """Return names of settings that differ between runs of a task, and what was learnt from."""
    data = [run.outcome.data for run in part.all_runs]
    settings = [{"selection": d.get("selection")} | d.get("settings", {}) for d in data]
    names = dict.fromkeys(name for of_run in settings for name in of_run if name != "source")
    differing = [name for name in names if len({repr(s.get(name)) for s in settings}) > 1]
    learnt = [{d.get(key) for d in data} - {None} for key in ("train_examples", "train_digest")]
    if max(map(len, learnt)) > 1:  # older results have no digest
        differing.append("training examples")
    return tuple(differing)
