"""Where models go wrong, from saved predictions (Language Chameleon, tables 8–10)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import RelationExample, TaggedExample, TextExample
from lingraft.tasks.predictions import LabelPrediction, TagPrediction
from lingraft.tasks.tagging_metrics import entity_counts, entity_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

LENGTHS = (16, 32, 64, 128, 256)
"""Upper ends of the classes of length, in characters; the last class has none."""


@dataclass(frozen=True)
class Confusion:
    """How often a gold label was taken for another (or itself)."""

    gold: str
    said: str
    count: int
    share: float
    """Of the examples with this gold label."""


@dataclass(frozen=True)
class Judged:
    """An example with what the model said and how sure it was."""

    id: str
    text: str
    pair: str | None
    gold: str
    said: str
    gold_probability: float
    entropy: float
    """Of the probabilities, in bits."""


@dataclass(frozen=True)
class Group:
    """A part of the examples (or entities), and how many of it are right."""

    name: str
    count: int
    right: int

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100 * self.right / self.count


@dataclass(frozen=True)
class EntityGroup:
    """Entities of one type: found, in gold, and predicted."""

    name: str
    right: int
    gold: int
    said: int

    @property
    def f1(self) -> float:
        """In percent."""
        return 100 * 2 * self.right / (self.gold + self.said)


def _pairs(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> list[tuple[TextExample | RelationExample, str, LabelPrediction]]:
    pairs = []
    for example, prediction in zip(examples, predictions, strict=True):
        if (
            not isinstance(example, TextExample | RelationExample)
            or not isinstance(prediction, LabelPrediction)
            or example.label is None
        ):
            raise DataError(f"example {example.id}: has no label; confusions are of labels")
        pairs.append((example, example.label, prediction))
    return pairs


def confusions(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> list[Confusion]:
    """All cells of the table, gold labels and what they were taken for in the order of `labels`.

    Args:
        examples: with labels.
        predictions: in the same order.
        labels: of the task.
    """
    cells = Counter((gold, said.label) for _, gold, said in _pairs(examples, predictions))
    totals = Counter(gold for _, gold, _ in _pairs(examples, predictions))
    return [
        Confusion(gold, said, cells[gold, said], cells[gold, said] / totals[gold])
        for gold in labels
        if totals[gold]
        for said in labels
    ]


def most_confused(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    limit: int = 10,
) -> list[Confusion]:
    """Pairs of different labels, the most frequent confusion first."""
    wrong = [
        cell
        for cell in confusions(examples, predictions, labels)
        if cell.gold != cell.said and cell.count
    ]
    return sorted(wrong, key=lambda cell: -cell.count)[:limit]


def judged(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> list[Judged]:
    """Every example with the probability of its gold label.

    Raises:
        DataError: a prediction has no probabilities.
    """
    found = []
    for example, gold, said in _pairs(examples, predictions):
        if len(said.probabilities) != len(labels):
            raise DataError(
                f"prediction {said.id}: has {len(said.probabilities)} probabilities for "
                f"{len(labels)} labels; evaluate the model again to save them"
            )
        found.append(
            Judged(
                id=example.id,
                text=example.text,
                pair=example.pair if isinstance(example, TextExample) else None,
                gold=gold,
                said=said.label,
                gold_probability=said.probabilities[labels.index(gold)],
                entropy=-sum(p * math.log2(p) for p in said.probabilities if p > 0),
            )
        )
    return found


def most_uncertain(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    limit: int = 10,
) -> list[Judged]:
    """Examples whose probabilities are most evenly spread, right or wrong."""
    return sorted(judged(examples, predictions, labels), key=lambda one: -one.entropy)[:limit]


def most_surprising(
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    labels: Sequence[str],
    limit: int = 10,
) -> list[Judged]:
    """Mistakes whose gold label the model found least likely: confident errors, or wrong gold."""
    wrong = [one for one in judged(examples, predictions, labels) if one.said != one.gold]
    return sorted(wrong, key=lambda one: one.gold_probability)[:limit]


def breakdown(
    examples: Sequence[Example],
    right: Sequence[bool],
    name: Callable[[Example], str],
    order: Iterable[str] = (),
) -> list[Group]:
    """Accuracy by any property of the examples.

    Args:
        examples: of the test set.
        right: whether each was answered rightly.
        name: the group of an example.
        order: names in the order wanted; the rest follow sorted.
    """
    groups: defaultdict[str, list[bool]] = defaultdict(list)
    for example, ok in zip(examples, right, strict=True):
        groups[name(example)].append(ok)
    wanted = [one for one in order if one in groups]
    names = [*wanted, *sorted(set(groups) - set(wanted))]
    return [Group(one, len(groups[one]), sum(groups[one])) for one in names]


def length_class(length: int) -> str:
    """The class of a length in characters, such as "17–32"."""
    low = 1
    for high in LENGTHS:
        if length <= high:
            return f"{low}–{high}"
        low = high + 1
    return f"over {LENGTHS[-1]}"


def by_length(examples: Sequence[Example], right: Sequence[bool]) -> list[Group]:
    """Accuracy by the length of text and pair together."""

    def name(example: Example) -> str:
        pair = example.pair if isinstance(example, TextExample) else None
        return length_class(len(example.text) + len(pair or ""))

    order = [*(length_class(high) for high in LENGTHS), length_class(LENGTHS[-1] + 1)]
    return breakdown(examples, right, name, order)


def _tags(
    examples: Sequence[Example], predictions: Sequence[Prediction]
) -> list[tuple[list[str], list[str]]]:
    found = []
    for example, prediction in zip(examples, predictions, strict=True):
        if (
            not isinstance(example, TaggedExample)
            or not isinstance(prediction, TagPrediction)
            or example.tags is None
        ):
            raise DataError(f"example {example.id}: has no tags; entities are of tags")
        shown = [index for index, unit in enumerate(example.units) if not unit.isspace()]
        found.append(([example.tags[i] for i in shown], [prediction.tags[i] for i in shown]))
    return found


def by_entity(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[EntityGroup]:
    """Entities found, in gold and predicted, by type."""
    pairs = _tags(examples, predictions)
    counts = entity_counts([gold for gold, _ in pairs], [said for _, said in pairs])
    return [EntityGroup(kind, *numbers) for kind, numbers in counts.items()]


def by_entity_length(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Group]:
    """Share of the gold entities that were found, by their length in units without spaces."""
    groups: defaultdict[int, list[bool]] = defaultdict(list)
    for gold, said in _tags(examples, predictions):
        guess = entity_spans(said)
        for span in entity_spans(gold):
            groups[span[2] - span[1] + 1].append(span in guess)
    return [Group(str(size), len(found), sum(found)) for size, found in sorted(groups.items())]
