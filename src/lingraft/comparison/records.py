"""The record of a task, also of a user's own, which is known here by its saved files alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.tasks import TASKS
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.examples import SpanExample, TaggedExample, TextExample
from lingraft.tasks.metrics import SCORES
from lingraft.tasks.predictions import LabelPrediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction


def record(
    name: str,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    scores: Mapping[str, float],
    definition: Mapping[str, Any] | None = None,
) -> Task:
    """The record of a task.

    Args:
        name: of the task.
        examples: that were scored.
        predictions: in the same order; they tell the order of a user's labels.
        scores: as they were saved; they tell the metrics of a user's task.
        definition: of a user's task, where it was saved; then nothing is guessed.

    Raises:
        DataError: a user's task of a kind that user tasks cannot have, or a broken definition.
    """
    if definition is not None:
        try:
            return task_of(decode(dict(definition)), Path())
        except RecipeError as error:
            raise DataError(
                f"task {name}: its saved definition is broken ({error}); fine-tune it again"
            ) from None
    if name in TASKS:
        return TASKS[name]
    kind = _kind(name, examples[0])
    metrics = [
        metric for metric, keys in SCORES[kind].items() if all(key in scores for key in keys)
    ]
    if not metrics:
        raise DataError(
            f"task {name}: its scores are {', '.join(scores)}; a {kind} task has some of "
            f"{', '.join(SCORES[kind])}; fine-tune it again"
        )
    pair = isinstance(examples[0], TextExample) and examples[0].pair is not None
    table = {
        "name": name,
        "kind": "pair" if pair and kind == "classification" else kind,
        "files": {"train": name},  # never read: labels are given
        "labels": _labels(examples, predictions),
        "metrics": metrics,
    }
    return task_of(decode(table, f"task {name}"), Path())


def _kind(name: str, example: Example) -> str:
    match example:
        case TextExample(score=float()):
            return "regression"
        case TextExample():
            return "classification"
        case TaggedExample():
            return "tagging"
        case SpanExample():
            return "span"
    raise DataError(f"task {name}: lingraft has no such task, and users' own are of other kinds")


def _labels(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[str]:
    """Labels in the order of the probabilities, as far as it can be seen; tags sorted, O last.

    A label that neither gold nor predictions have gets a name that says its place.
    """
    there: set[str] = set()
    places: dict[int, str] = {}
    number = 0
    for example, said in zip(examples, predictions, strict=True):
        if isinstance(example, TextExample) and example.label is not None:
            there.add(example.label)
        elif isinstance(example, TaggedExample) and example.tags is not None:
            there.update(example.tags)
        if isinstance(said, LabelPrediction):
            there.add(said.label)
            number = max(number, len(said.probabilities))
            if said.probabilities:
                places[said.probabilities.index(max(said.probabilities))] = said.label
    rest = iter(sorted(there - set(places.values()), key=lambda label: (label == "O", label)))
    return [
        places.get(index) or next(rest, f"label {index}")
        for index in range(max(number, len(there)))
    ]
