"""Examples that models get wrong or are unsure of, with their texts, averaged over the seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.tasks.dependency.metrics import right_words
from lingraft.tasks.examples import SpanExample, TextExample
from lingraft.tasks.tagging_metrics import entity_spans, shown_tags
from lingraft.tasks.words import are_entities

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.comparison.collect import Answers, Part
    from lingraft.tasks.examples import Example


@dataclass(frozen=True)
class Sample:
    """One example as a model sees it."""

    id: str
    text: str
    gold: str
    said: str
    value: float
    """What the list is ordered by."""


@dataclass(frozen=True)
class Samples:
    """A list of examples of one model."""

    name: str
    title: str
    value: str
    """What `Sample.value` is."""
    samples: tuple[Sample, ...]


def samples(part: Part, seeds: Sequence[Answers], limit: int) -> list[Samples]:
    """The lists that a kind of task has: most uncertain and most surprising, or the worst.

    Args:
        part: the task, with its examples.
        seeds: what one model said with each seed.
        limit: examples in each list.
    """
    match part.task.kind:
        case "classification" | "pair" | "relation":
            return _labels(part, seeds, limit)
        case "regression":
            return [_residuals(seeds, limit)]
        case "tagging" if not are_entities(part.task.labels):
            return [_worst(seeds, limit, "tags wrong", _wrong_tags, _tags)]
        case "tagging":
            return [_worst(seeds, limit, "entities wrong", _wrong_entities, _entities)]
        case "parsing":
            return [_worst(seeds, limit, "words wrong", _wrong_words, _arcs)]
        case "span":
            return [_worst(seeds, limit, "points lost", _lost(part), _answer)]
        case "translation":
            return [_worst(seeds, limit, "points lost", _lost(part), _translations)]


def _labels(part: Part, seeds: Sequence[Answers], limit: int) -> list[Samples]:
    """From the mean of the seeds' probabilities; none where they were not saved."""
    labels = part.task.labels
    tables = [[prediction.probabilities for _, prediction in answers.pairs] for answers in seeds]
    if any(len(row) != len(labels) for table in tables for row in table):
        return []
    surprising, uncertain = [], []
    for (example, _), row in zip(seeds[0].pairs, np.mean(tables, axis=0).tolist(), strict=True):
        fields = (example.id, _text(example), example.label, labels[row.index(max(row))])
        entropy = -sum(p * math.log2(p) for p in row if p > 0)
        uncertain.append(Sample(*fields, entropy))
        if fields[2] != fields[3]:
            surprising.append(Sample(*fields, row[labels.index(example.label)]))
    surprising.sort(key=lambda sample: sample.value)
    uncertain.sort(key=lambda sample: -sample.value)
    title, value = "Most surprising mistakes", "probability of gold"
    return [
        Samples("surprising", title, value, tuple(surprising[:limit])),
        Samples("uncertain", "Most uncertain", "entropy (bits)", tuple(uncertain[:limit])),
    ]


def _text(example: Example) -> str:
    if isinstance(example, SpanExample):
        return example.question
    if isinstance(example, TextExample) and example.pair is not None:
        return f"{example.text} ‖ {example.pair}"
    return example.text


def _residuals(seeds: Sequence[Answers], limit: int) -> Samples:
    ranked = []
    for (example, _), *predictions in zip(
        seeds[0].pairs, *(answers.predictions for answers in seeds), strict=True
    ):
        mean = fmean(prediction.score for prediction in predictions)
        fields = (f"{example.score:.2f}", f"{mean:.2f}", mean - example.score)
        ranked.append(Sample(example.id, _text(example), *fields))
    ranked.sort(key=lambda sample: -abs(sample.value))
    return Samples("surprising", "Furthest from gold", "said less gold", tuple(ranked[:limit]))


def _worst(
    seeds: Sequence[Answers],
    limit: int,
    value: str,
    wrong: Callable[[Any, Any], float],
    show: Callable[[Any, Any], tuple[str, str]],
) -> Samples:
    """Examples with most wrong, on the mean over the seeds; shown as the first seed has them."""
    counts_SN = [[wrong(*pair) for pair in answers.pairs] for answers in seeds]
    means = [fmean(of_seeds) for of_seeds in zip(*counts_SN, strict=True)]
    ranked = []
    for index in sorted(range(len(means)), key=lambda place: -means[place])[:limit]:
        example, prediction = seeds[0].pairs[index]
        ranked.append(Sample(example.id, _text(example), *show(example, prediction), means[index]))
    return Samples("worst", f"Most {value}", value, tuple(ranked))


def _wrong_entities(example: Any, prediction: Any) -> float:
    gold, guess = map(entity_spans, shown_tags(example, prediction))
    return len(gold ^ guess)


def _entities(example: Any, prediction: Any) -> tuple[str, str]:
    units = [unit for unit in example.units if not unit.isspace()]
    joint = "" if example.characters else " "

    def shown(tags: list[str]) -> str:
        spans = sorted(entity_spans(tags), key=lambda span: span[1])
        return ", ".join(
            f"{joint.join(units[begin : end + 1])} ({kind})" for kind, begin, end in spans
        )

    gold, guess = shown_tags(example, prediction)
    return shown(gold), shown(guess)


def _wrong_tags(example: Any, prediction: Any) -> float:
    gold, guess = shown_tags(example, prediction)
    return sum(map(str.__ne__, gold, guess))


def _tags(example: Any, prediction: Any) -> tuple[str, str]:
    units = [unit for unit in example.units if not unit.isspace()]
    gold, guess = shown_tags(example, prediction)
    wrong = [i for i, pair in enumerate(zip(gold, guess, strict=True)) if pair[0] != pair[1]]

    def shown(tags: list[str]) -> str:
        return ", ".join(f"{units[i]} ({tags[i]})" for i in wrong)

    return shown(gold), shown(guess)


def _wrong_words(example: Any, prediction: Any) -> float:
    return sum(not right for _, right in right_words(example, prediction))


def _arcs(example: Any, prediction: Any) -> tuple[str, str]:
    wrong = [i for i, (_, right) in enumerate(right_words(example, prediction)) if not right]
    names = ("root", *example.words)

    def shown(heads: Sequence[int], relations: Sequence[str]) -> str:
        return ", ".join(f"{example.words[i]} → {names[heads[i]]} ({relations[i]})" for i in wrong)

    return shown(example.heads, example.relations), shown(prediction.heads, prediction.relations)


def _lost(part: Part) -> Callable[[Any, Any], float]:
    """What an answer lacks of the last headline score (ROUGE-W, F1, chrF++), in percent."""

    def lost(example: Any, prediction: Any) -> float:
        scores = part.task.score_functions([example], [prediction])
        return 100 - float(scores[part.keys[-1]](np.ones((1, 1)))[0])

    return lost


def _translations(example: Any, prediction: Any) -> tuple[str, str]:
    return example.translation, prediction.translation


def _answer(example: Any, prediction: Any) -> tuple[str, str]:
    gold = " / ".join(answer.text for answer in example.answers or ()) or "(does not say)"
    return gold, prediction.text or "(does not say)"
