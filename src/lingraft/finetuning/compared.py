"""Finished fine-tuning runs of several folders, arranged by task and model.

Only scores of the same examples compare: of a task that was scored on others too, these are a
result of their own, called `TASK (2)`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import outcomes
from lingraft.tasks import GROUPS, xtreme
from lingraft.tasks.examples import align

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from lingraft.report.row import Score
    from lingraft.report.scored import Rows
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example

    BySeed = dict[int, float]
    Pairs = list[tuple[Any, Any]]

SCRATCH = "scratch"
AVERAGE, GAP = "average", "gap"
"""Names of the scores over all languages; in the place of one language's."""


@dataclass(frozen=True)
class ScoredSeed:
    """A model with one seed, scored on one split of a task."""

    label: str
    outcome: outcomes.Outcome
    split: str
    rows: Mapping[str, Score]
    """By metric."""

    @property
    def examples_id(self) -> str:
        """Return a fingerprint that is equal for seeds that were scored on the same examples."""
        return next(iter(self.rows.values())).masks


@dataclass(frozen=True)
class TaskPart:
    """A split of a task in one language, and all seeds on the same examples of it."""

    title: str
    runs: dict[str, list[ScoredSeed]] = field(default_factory=lambda: defaultdict(list))
    """By label, ordered by seed."""

    @property
    def all_runs(self) -> list[ScoredSeed]:
        return [run for runs in self.runs.values() for run in runs]

    @property
    def first(self) -> outcomes.Outcome:
        return self.all_runs[0].outcome

    @property
    def split(self) -> str:
        return self.all_runs[0].split

    @cached_property
    def task(self) -> Task:
        """Return the task in this language."""
        return outcomes.task_in(self.first, self.split)

    @cached_property
    def examples(self) -> list[Example]:
        """Return the examples as they were scored."""
        return outcomes.examples(self.first, self.split)

    def rows(self, label: str, key: str) -> Rows:
        """Return a score's rows by seed."""
        runs = self.runs.get(label, ())
        return {(run.outcome.seed,): run.rows[key] for run in runs if key in run.rows}

    def answers(self, run: ScoredSeed) -> Pairs:
        """Return the examples with what a seed's model says of them."""
        predictions = outcomes.predictions(run.outcome, run.split)
        return list(zip(self.examples, align(self.examples, predictions), strict=True))


@dataclass(frozen=True)
class TransferResult:
    """A task as it was trained: its parts by language, or the one part of a task in one language.

    The average is the unweighted mean over the languages, those that were trained on included; the
    transfer gap is that of `tasks.xtreme`, a seed at a time.
    """

    name: str
    """`pawsx`, `pawsx (dev)` where another split is there too, `pawsx (2)` on other examples."""
    train: tuple[str, ...]
    """Languages that were trained on; empty for a task in one language."""
    parts: dict[str, TaskPart] = field(default_factory=dict)
    """By language."""

    @property
    def languages(self) -> list[str]:
        """Return the tested languages, the trained ones first."""
        return sorted(self.parts, key=lambda tag: (tag not in self.train, tag))

    @property
    def title(self) -> str:
        """Return `pawsx en→`, or `nsmc`."""
        return f"{self.name} {outcomes.join_languages(self.train)}→" if self.train else self.name

    @property
    def first(self) -> TaskPart:
        return next(iter(self.parts.values()))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the scores that tables show."""
        return self.first.task.shown

    def holds(self, seeds: Iterable[ScoredSeed]) -> bool:
        """Return whether seeds were scored on the same examples as those that are here."""
        here = ((seed, self.parts.get(outcomes.language_of(seed.split))) for seed in seeds)
        return all(
            part is None or part.all_runs[0].examples_id == seed.examples_id for seed, part in here
        )

    def add(self, seed: ScoredSeed) -> None:
        """Add a seed's scores on one split."""
        language = outcomes.language_of(seed.split)
        part = self.parts.setdefault(language, TaskPart(f"{self.title}{language}"))
        part.runs[seed.label].append(seed)

    def columns(self, label: str, key: str) -> dict[str, BySeed]:
        """Return a model's scores by language, and average and gap of the seeds that have all.

        There is no gap where there is nothing to transfer from or to.
        """
        values = {
            tag: {seed[0]: row.value for seed, row in part.rows(label, key).items()}
            for tag, part in self.parts.items()
        }
        seeds = sorted(set.intersection(*map(set, values.values())))
        whole = {seed: {tag: of[seed] for tag, of in values.items()} for seed in seeds}
        average = {seed: fmean(scores.values()) for seed, scores in whole.items()}
        gap = {}
        if self.train and set(self.train) < self.parts.keys():
            gap = {seed: xtreme.transfer_gap(of, self.train) for seed, of in whole.items()}
        return values | {AVERAGE: average, GAP: gap}

    def number(self, label: str) -> BySeed:
        """Return the average over languages of XTREME's one number, which is a mean of scores."""
        averages = [self.columns(label, key)[AVERAGE] for key in GROUPS[self.name].scores]
        return {seed: fmean(of[seed] for of in averages) for seed in averages[0]}


@dataclass(frozen=True)
class TaskComparison:
    """All that is compared."""

    labels: tuple[str, ...]
    reference: str
    weights: Mapping[str, str]
    """Fingerprint of each model's weights, by label."""
    results: Sequence[TransferResult]

    @property
    def parts(self) -> list[TaskPart]:
        return [part for result in self.results for part in result.parts.values()]


def collect(
    folders: Sequence[Path], reference: str | None = None, only: Collection[str] | None = None
) -> TaskComparison:
    """Read the finished runs of some folders.

    Args:
        folders: what `lingraft finetune --out` wrote, in the order in which models are shown.
        reference: label of the model that the others are tested against; None takes the one called
            "scratch" or, failing that, something that begins so, else the first.
        only: fingerprints of seeds; None takes all.

    Raises:
        DataError: a folder holds no results, or one label stands for different models or results.
        RecipeError: no model has the label of the reference.
    """
    seeds: dict[tuple[str, str, str, int], outcomes.Outcome] = {}
    places: dict[tuple[str, str], Path] = {}
    rows: defaultdict[tuple[Path, str], dict[str, Score]] = defaultdict(dict)
    for folder in folders:
        for outcome, own in outcomes.read_results(folder):
            if only is not None and outcome.fingerprint not in only:
                continue
            model = (outcome.model_label, outcome.model_fingerprint)
            places.setdefault(model, folder)
            old = seeds.setdefault((*model, outcome.task, outcome.seed), outcome)
            if old.fingerprint != outcome.fingerprint:
                raise DataError(
                    f"{outcome.folder} and {old.folder}: two results of one model, task and seed "
                    "under different settings; give one of them another --label"
                )
            for row in own:
                tag = row.axes.get("language")
                split = outcomes.split_in(row.split, str(tag)) if tag else row.split
                rows[outcome.folder, split][row.metric] = row
    models = list(places)
    counts = {label: sum(label == other for other, _ in models) for label, _ in models}
    names = {m: m[0] if counts[m[0]] == 1 else f"{places[m]}/{m[0]}" for m in models}
    if len({*names.values()}) < len(names):
        raise DataError(
            "one label stands for two models, whose weights differ; fine-tune one of them again "
            "with another --label or --out"
        )
    labels = tuple(names.values())
    if reference is None:
        scratch = (label for label in labels if label.rpartition("/")[2].startswith(SCRATCH))
        reference = min(scratch, default=labels[0])
    if reference not in labels:
        raise RecipeError(f"reference: no model is called {reference!r}, only {', '.join(labels)}")
    found = [
        ScoredSeed(names[label, weights], outcome, split, rows[outcome.folder, split])
        for (label, weights, *_), outcome in seeds.items()
        for split in outcome.evaluation
    ]
    weights = {names[model]: model[1] for model in models}
    return TaskComparison(labels, reference, weights, _arrange(found, reference))


def _arrange(found: Iterable[ScoredSeed], reference: str) -> list[TransferResult]:
    """Put seeds together that were scored on the same examples of a task."""
    grouped: defaultdict[str, defaultdict[str, defaultdict[Path, list[ScoredSeed]]]]
    grouped = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for one in sorted(found, key=lambda one: (one.label != reference, one.outcome.seed)):
        kind = outcomes.without_language(one.split) if one.outcome.transfer else one.split
        grouped[one.outcome.task][kind][one.outcome.folder].append(one)
    results: list[TransferResult] = []
    for kinds in grouped.values():
        for kind, by_folder in kinds.items():
            own: list[TransferResult] = []
            for seeds in by_folder.values():
                languages = seeds[0].outcome.transfer
                result = next((result for result in own if result.holds(seeds)), None)
                if result is None:
                    name = languages.task if languages else seeds[0].outcome.task
                    name += f" ({kind})" * (len(kinds) > 1) + f" ({len(own) + 1})" * bool(own)
                    result = TransferResult(name, languages.train if languages else ())
                    own.append(result)
                for seed in seeds:
                    result.add(seed)
            results += own
    return results


def differing_settings(part: TaskPart) -> tuple[str, ...]:
    """Return names of settings that differ between runs of a task, and what was learnt from."""
    data = [run.outcome for run in part.all_runs]
    settings = [{"selection": d.selection} | d.settings for d in data]
    names = dict.fromkeys(name for of_run in settings for name in of_run if name != "source")
    differing = [name for name in names if len({repr(s.get(name)) for s in settings}) > 1]
    return (*differing, *["train_examples"] * (len({d.train_examples for d in data}) > 1))
