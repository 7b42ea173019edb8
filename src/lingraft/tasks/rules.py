"""Scores that need no model: what a fixed rule reaches, to read a model's scores against."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from lingraft.tasks.dependency.trees import neighbour_heads
from lingraft.tasks.examples import ParseExample, RelationExample, TaggedExample, TextExample
from lingraft.tasks.predictions import LabelPrediction, ParsePrediction, TagPrediction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lingraft.tasks.dependency.trees import Side
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task

    Rule = Callable[[Example], Prediction]

COMMONEST = "most frequent label"
NEIGHBOURS: tuple[Side, ...] = ("left", "right")


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
    said = {name: [rule(one) for one in examples] for name, rule in _rules(task, train)}
    return {name: task.score(examples, predictions) for name, predictions in said.items()}


def _rules(task: Task, train: Sequence[Example]) -> Iterator[tuple[str, Rule]]:
    counts = Counter(label for example in train for label in _labels(example))
    if not counts:
        return
    label = counts.most_common(1)[0][0]
    if task.kind == "parsing":
        for side in NEIGHBOURS:
            yield f"{side} neighbour", partial(_neighbours, side=side, relation=label)
    elif task.kind == "tagging":
        yield COMMONEST, partial(_tags, tag=label)
    else:
        shares = tuple(counts[one] / counts.total() for one in task.labels)
        yield COMMONEST, partial(_label, label=label, shares=shares)


def _labels(example: Example) -> Sequence[str]:
    match example:
        case TextExample(label=str() as label) | RelationExample(label=str() as label):
            return (label,)
        case TaggedExample(tags=tuple() as tags):
            return tags
        case ParseExample(relations=tuple() as relations):
            return relations
    return ()


def _label(example: Example, label: str, shares: tuple[float, ...]) -> Prediction:
    return LabelPrediction(example.id, label, shares)


def _tags(example: Example, tag: str) -> Prediction:
    assert isinstance(example, TaggedExample)
    return TagPrediction(example.id, (tag,) * len(example.units))


def _neighbours(example: Example, side: Side, relation: str) -> Prediction:
    assert isinstance(example, ParseExample)
    n_words = len(example.words)
    return ParsePrediction(example.id, neighbour_heads(n_words, side), (relation,) * n_words)
