"""Scores that need no model: those of the most frequent label, to read a model's against."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.tasks.examples import (
    LabelPrediction,
    RelationExample,
    TaggedExample,
    TagPrediction,
    TextExample,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import Example, Prediction
    from lingraft.tasks.task import Task

COMMONEST = "most frequent label"


def scores(
    task: Task, train: Sequence[Example], examples: Sequence[Any]
) -> dict[str, dict[str, float]]:
    """Return all scores of every rule that fits the task, in percent, by rule and score.

    Labels, tags and relations are the most frequent ones of the training examples. Numbers, trees
    and answers in passages have no rule.
    """
    counts = Counter(label for example in train for label in _labels(example))
    if not counts:
        return {}
    label = counts.most_common(1)[0][0]
    shares = tuple(counts[name] / counts.total() for name in task.labels)
    predictions: list[Prediction] = [
        TagPrediction(example.id, (label,) * len(example.units))
        if task.kind == "tagging"
        else LabelPrediction(example.id, label, shares)
        for example in examples
    ]
    return {COMMONEST: task.score(examples, predictions)}


def _labels(example: Example) -> Sequence[str]:
    match example:
        case TextExample(label=str() as label) | RelationExample(label=str() as label):
            return (label,)
        case TaggedExample(tags=tuple() as tags):
            return tags
    return ()
