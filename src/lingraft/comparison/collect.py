"""Finished fine-tuning runs of several folders, arranged by task and model.

Only scores of the same examples compare: runs that were scored on other examples than the
reference are kept apart, and every table says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError, reading
from lingraft.finetuning import outcomes
from lingraft.finetuning.names import language_of, titled, unsized, without_language
from lingraft.finetuning.outcomes import is_cut
from lingraft.rundir import fingerprint
from lingraft.tasks import TASKS
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import align
from lingraft.tasks.weighted import on_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.finetuning.outcomes import Languages, Outcome
    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example, Prediction
    from lingraft.tasks.weighted import Score

SCRATCH = "scratch"
TOLERANCE = 0.01
"""Points by which a score made anew may differ from the saved one."""


@dataclass(frozen=True)
class Run:
    """One model with one seed, scored on one split of a task."""

    label: str
    outcome: Outcome
    split: str

    @property
    def seed(self) -> int:
        return self.outcome.seed

    @property
    def scores(self) -> dict[str, float]:
        """By metric, in percent."""
        return self.outcome.scores(self.split)

    @cached_property
    def examples_id(self) -> str:
        """Equal for runs that were scored on the same examples."""
        path = outcomes.existing(self.outcome.folder / f"examples-{self.split}.jsonl")
        with reading(path, "delete the folder and fine-tune this seed again"):
            return fingerprint(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Part:
    """One split of one task, and all runs that were scored on the same examples of it."""

    task: Task
    split: str
    title: str
    examples: list[Example]
    runs: Mapping[str, Sequence[Run]]
    """By label, ordered by seed."""
    apart: Mapping[str, Sequence[Run]]
    """By label, the runs that were scored on other examples."""
    family: str
    """What counts as one task in an average: its name, of one in several languages with those that
    were trained on."""
    setting: str
    """Of a task in several languages, the `across.Setting` that it belongs to: its title."""
    left_out: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By label with runs on the same examples, the seeds that were scored on others."""

    @property
    def languages(self) -> Languages | None:
        """Of a task in several languages, those of its first run."""
        return next(run.outcome.languages for runs in self.runs.values() for run in runs)

    @property
    def language(self) -> str:
        """Of a task in several languages, the one that is scored; else empty."""
        return language_of(self.split)

    @property
    def note(self) -> str:
        """What the splits are."""
        notes = (run.outcome.split_note for runs in self.runs.values() for run in runs)
        return "; ".join(dict.fromkeys(notes))

    @property
    def official(self) -> bool:
        return not is_cut(self.note)

    @property
    def chose(self) -> bool:
        """Whether the split chose the best weights of a run."""
        return any(run.outcome.chosen_on(self.split) for runs in self.runs.values() for run in runs)

    @property
    def keys(self) -> tuple[str, ...]:
        """The scores that tables show."""
        return self.task.shown

    @property
    def rules(self) -> dict[str, dict[str, float]]:
        """What needs no model, of the runs that were trained on the most examples."""
        runs = [run for group in self.runs.values() for run in group]
        largest = max(runs, key=lambda run: int(run.outcome.data.get("train_examples", 0)))
        return largest.outcome.rules(self.split)

    def values(self, label: str, key: str) -> dict[int, float]:
        """Score by seed; of a model that was scored on other examples, of those."""
        runs = self.runs.get(label) or self.apart.get(label, ())
        return {run.seed: run.scores[key] for run in runs if key in run.scores}


@dataclass(frozen=True)
class Answers:
    """What one run said of the examples of a part."""

    part: Part
    predictions: list[Prediction]
    """In the order of the examples."""
    scores: Mapping[str, Score]
    """That tables show, as functions of how often each example counts."""

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """Examples with what was said of them."""
        return list(zip(self.part.examples, self.predictions, strict=True))


def answers(part: Part, run: Run) -> Answers:
    """The saved predictions of a run, checked.

    Raises:
        DataError: they are missing, of another kind than the task, or do not give its scores.
    """
    predictions = align(part.examples, outcomes.predictions(run.outcome, run.split))
    functions = part.task.score_functions(part.examples, predictions)
    scores = {key: functions[key] for key in part.keys}
    for key, value in on_all(scores, len(part.examples)).items():
        saved = run.scores.get(key)
        if saved is None or abs(value - saved) > TOLERANCE:
            says = "nothing of it" if saved is None else f"{saved:.2f}"
            raise DataError(
                f"{part.task.name}: the saved predictions give {key} {value:.2f}, scores.json says "
                f"{says}; delete the folder and fine-tune this seed again"
            )
    return Answers(part, predictions, scores)


@dataclass(frozen=True)
class Comparison:
    """All that is compared."""

    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    reference: str

    @property
    def weights(self) -> dict[str, str]:
        """Fingerprint of each model's weights, by label."""
        return {
            label: run.outcome.model_fingerprint
            for part in self.parts
            for runs in (part.runs, part.apart)
            for label, of_label in runs.items()
            for run in of_label
        }


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
    runs = _labelled(folders)
    labels = tuple(dict.fromkeys(label for label, _ in runs))
    if reference is None:
        scratch = sorted(label for label in labels if label.startswith(SCRATCH))
        reference = scratch[0] if scratch else labels[0]
    if reference not in labels:
        raise RecipeError(
            f"--reference: no model is called {reference!r}; there are {', '.join(labels)}"
        )
    grouped: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for label, outcome in runs:
        for split in outcome.evaluation:
            grouped[outcome.task, split].append(Run(label, outcome, split))
    several = Counter(
        task for task, _ in {(task, without_language(split)) for task, split in grouped}
    )
    parts = []
    for (name, split), group in grouped.items():
        kind = without_language(split) if several[name] > 1 else ""
        languages = group[0].outcome.languages
        setting = languages.title(kind) if languages else ""
        title = f"{setting}{language_of(split)}" if languages else titled(name, kind)
        parts.append(_part(title, split, group, reference, setting))
    return Comparison(labels, tuple(parts), reference)


def _labelled(folders: Sequence[Path]) -> list[tuple[str, Outcome]]:
    """Every run with the label of its model; equal labels of different folders are told apart."""
    by_model: dict[tuple[str, str], tuple[Path, list[Outcome]]] = {}
    for folder in dict.fromkeys(folders):
        for outcome in outcomes.outcomes(folder):
            key = (outcome.model_label, outcome.model_fingerprint)
            place, runs = by_model.setdefault(key, (folder, []))
            if not any(_same(outcome, previous) for previous in runs):
                runs.append(outcome)
            elif folder == place:
                raise DataError(
                    f"{outcome.folder}: a second result of {outcome.model_label} on "
                    f"{outcome.task} with seed {outcome.seed}; delete one of them"
                )
    places: dict[str, list[Path]] = defaultdict(list)
    for (label, _), (folder, _) in by_model.items():
        places[label].append(folder.resolve())
    result = []
    for (label, _), (folder, runs) in by_model.items():
        if len(set(places[label])) < len(places[label]):
            raise DataError(
                f"{folder}: {label} stands for two models (their weights differ); fine-tune one of "
                "them again with another --label or --out"
            )
        name = "/".join((*_apart(folder.resolve(), places[label]), label))
        result += [(name, outcome) for outcome in runs]
    return result


def _apart(folder: Path, folders: Sequence[Path]) -> tuple[str, ...]:
    """The last parts of a folder's path, as many as tell it from the others; none if it is alone.

    Args:
        folder: one of the folders.
        folders: all different.
    """

    def ends(depth: int) -> list[tuple[str, ...]]:
        return [place.parts[len(place.parts) - depth :] for place in folders]

    depth = next(depth for depth in count() if len(set(ends(depth))) == len(folders))
    return ends(depth)[list(folders).index(folder)]


def _same(new: Outcome, old: Outcome) -> bool:
    """Whether both are one result, which may lie in two folders."""
    if (new.task, new.seed) != (old.task, old.seed):
        return False
    if new.fingerprint != old.fingerprint:
        raise DataError(
            f"{new.folder} and {old.folder}: two results of {new.model_label} on {new.task} with "
            f"seed {new.seed} under different settings; give one of them another --label"
        )
    return True


def _part(title: str, split: str, runs: Sequence[Run], reference: str, setting: str) -> Part:
    counted = Counter(run.examples_id for run in runs)
    reference_id = next(
        (run.examples_id for run in runs if run.label == reference),
        max(counted, key=lambda examples_id: counted[examples_id]),
    )
    same: dict[str, list[Run]] = defaultdict(list)
    apart: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.seed):
        (same if run.examples_id == reference_id else apart)[run.label].append(run)
    order = dict.fromkeys(run.label for run in runs)
    first = next(run for run in runs if run.examples_id == reference_id)
    examples = outcomes.examples(first.outcome, split)
    return Part(
        _task(first.outcome, split),
        split,
        title,
        examples,
        {label: same[label] for label in order if label in same},
        {label: apart[label] for label in order if label in apart and label not in same},
        languages.title() if (languages := first.outcome.languages) else first.outcome.task,
        setting,
        {label: [run.seed for run in runs] for label, runs in apart.items() if label in same},
    )


def _task(outcome: Outcome, split: str) -> Task:
    """A benchmark's task, or the user's own as the results have it; the record of the language."""
    name, definition = outcome.task, outcome.task_definition
    if languages := outcome.languages:
        language = language_of(split)
        name = languages.names.get(language, name)
        definition = languages.definitions.get(language)
    if definition is None:
        if unsized(name) in TASKS:
            return TASKS[unsized(name)]
        raise DataError(
            f"{outcome.folder}: lingraft has no task {name}, and its scores.json has no "
            "task_definition, as one of your own would; fine-tune it again"
        )
    try:
        return task_of(decode(dict(definition)), Path(), read_tags=False)
    except RecipeError as error:
        raise DataError(
            f"task {name}: its saved definition is broken ({error}); fine-tune it again"
        ) from None


def differing_settings(part: Part) -> tuple[str, ...]:
    """What is not the same for all runs of a task: names of settings, and what was learnt from."""
    data = [run.outcome.data for runs in part.runs.values() for run in runs]
    settings = [{"selection": d.get("selection")} | d.get("settings", {}) for d in data]
    names = dict.fromkeys(name for of_run in settings for name in of_run if name != "source")
    differing = [name for name in names if len({repr(s.get(name)) for s in settings}) > 1]
    learnt = [{d.get(key) for d in data} - {None} for key in ("train_examples", "train_digest")]
    if max(map(len, learnt)) > 1:  # older results have no digest
        differing.append("training examples")
    return tuple(differing)
