"""Scores that need no model: what a fixed rule reaches, to read a model's scores against."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.tasks.examples import (
    LabelPrediction,
    ParseExample,
    ParsePrediction,
    RelationExample,
    TaggedExample,
    TagPrediction,
    TextExample,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Example, Prediction
    from lingraft.tasks.task import Task

COMMONEST = "most frequent label"
NEIGHBOURS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "left neighbour": lambda n: tuple(range(n)),
    "right neighbour": lambda n: (*range(2, n + 1), 0),
}
"""Heads of n words, each the word beside it and the outermost the root. Korean is
head-final: the right neighbour is the harder baseline."""


def scores(
    task: Task, train: Sequence[Example], examples: Sequence[Example]
) -> dict[str, dict[str, float]]:
    """All scores of every rule that fits the task, in percent.

    Labels, tags and relations are the most frequent ones of the training examples; the head of a
    word is the word to its left or to its right. Numbers and answers in passages have no rule: a
    correlation with a constant is not defined.

    Returns:
        By rule, then by score.
    """
    counts = Counter(label for example in train for label in _labels(example))
    if not counts:
        return {}
    by_rule = _predictions(task, counts, examples)
    return {name: task.score(examples, predictions) for name, predictions in by_rule.items()}


def _predictions(
    task: Task, counts: Counter[str], examples: Sequence[Any]
) -> dict[str, list[Prediction]]:
    """What every rule says, from how often each label, tag or relation occurs in training."""
    label = counts.most_common(1)[0][0]
    if task.kind == "parsing":
        return {
            name: [
                ParsePrediction(example.id, heads(n), (label,) * n)
                for example in examples
                for n in [len(example.words)]
            ]
            for name, heads in NEIGHBOURS.items()
        }
    if task.kind == "tagging":
        return {
            COMMONEST: [
                TagPrediction(example.id, (label,) * len(example.units)) for example in examples
            ]
        }
    shares = tuple(counts[name] / counts.total() for name in task.labels)
    return {COMMONEST: [LabelPrediction(example.id, label, shares) for example in examples]}


def _labels(example: Example) -> Sequence[str]:
    match example:
        case TextExample(label=str() as label) | RelationExample(label=str() as label):
            return (label,)
        case TaggedExample(tags=tuple() as tags):
            return tags
        case ParseExample(relations=tuple() as relations):
            return relations
    return ()
