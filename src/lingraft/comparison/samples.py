"""Examples that models get wrong or are unsure of, with their texts, averaged over the seeds."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.comparison.breakdowns import answer_score
from lingraft.comparison.weighted import right_words, shown_tags
from lingraft.tasks import mistakes
from lingraft.tasks.examples import SpanExample, TaggedExample, TextExample
from lingraft.tasks.predictions import LabelPrediction
from lingraft.tasks.tagging_metrics import entity_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.comparison.collect import Part
    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

    Seeds = Sequence[Sequence[Prediction]]
    """Predictions by seed, each in the order of the examples."""


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


def samples(part: Part, seeds: Seeds, limit: int) -> list[Samples]:
    """The lists that a kind of task has: most uncertain and most surprising, or the worst.

    Args:
        part: the task, with its examples.
        seeds: predictions of one model by seed.
        limit: examples in each list.
    """
    match part.task.kind:
        case "classification" | "pair" | "relation":
            return _labels(part, seeds, limit)
        case "regression":
            return [_residuals(part, seeds, limit)]
        case "tagging":
            return [_worst(part, seeds, limit, "entities wrong", _wrong_entities, _entities)]
        case "parsing":
            return [_worst(part, seeds, limit, "words wrong", _wrong_words, _arcs)]
        case "span":
            return [_worst(part, seeds, limit, "points lost", _lost(part), _answer)]


def _labels(part: Part, seeds: Seeds, limit: int) -> list[Samples]:
    """From the mean of the seeds' probabilities; none where they were not saved."""
    said = _mean_probabilities(part, seeds)
    if not said:
        return []
    uncertain = mistakes.most_uncertain(part.examples, said, part.task.labels, limit)
    surprising = mistakes.most_surprising(part.examples, said, part.task.labels, limit)
    return [
        Samples(
            "surprising",
            "Most surprising mistakes",
            "probability of gold",
            tuple(_judged(one, one.gold_probability) for one in surprising),
        ),
        Samples(
            "uncertain",
            "Most uncertain",
            "entropy (bits)",
            tuple(_judged(one, one.entropy) for one in uncertain),
        ),
    ]


def _mean_probabilities(part: Part, seeds: Seeds) -> list[LabelPrediction]:
    labels = part.task.labels
    tables = []
    for predictions in seeds:
        rows = [one.probabilities for one in predictions if isinstance(one, LabelPrediction)]
        if len(rows) != len(part.examples) or any(len(row) != len(labels) for row in rows):
            return []
        tables.append(np.asarray(rows))
    mean_NC = np.mean(tables, axis=0)
    return [
        LabelPrediction(example.id, labels[int(row.argmax())], tuple(row.tolist()))
        for example, row in zip(part.examples, mean_NC, strict=True)
    ]


def _judged(one: mistakes.Judged, value: float) -> Sample:
    return Sample(one.id, _text(one.text, one.pair), one.gold, one.said, value)


def _text(text: str, pair: str | None) -> str:
    return text if pair is None else f"{text} ‖ {pair}"


def _residuals(part: Part, seeds: Sequence[Sequence[Any]], limit: int) -> Samples:
    found = []
    for index, example in enumerate(part.examples):
        assert isinstance(example, TextExample)
        assert example.score is not None
        said = fmean(predictions[index].score for predictions in seeds)
        text = _text(example.text, example.pair)
        apart = said - example.score
        found.append(Sample(example.id, text, f"{example.score:.2f}", f"{said:.2f}", apart))
    found.sort(key=lambda one: -abs(one.value))
    return Samples("surprising", "Furthest from gold", "said less gold", tuple(found[:limit]))


def _worst(
    part: Part,
    seeds: Seeds,
    limit: int,
    value: str,
    wrong: Callable[[Any, Any], float],
    show: Callable[[Any, Any], tuple[str, str]],
) -> Samples:
    """Examples with most wrong, on the mean over the seeds; shown as the first seed has them."""
    rows = []
    for index, example in enumerate(part.examples):
        mean = fmean(wrong(example, predictions[index]) for predictions in seeds)
        rows.append((mean, index))
    rows.sort(key=lambda row: (-row[0], row[1]))
    found = []
    for mean, index in rows[:limit]:
        example = part.examples[index]
        gold, said = show(example, seeds[0][index])
        found.append(Sample(example.id, _asked(example), gold, said, mean))
    return Samples("worst", f"Most {value}", value, tuple(found))


def _asked(example: Example) -> str:
    return example.question if isinstance(example, SpanExample) else example.text


def _wrong_entities(example: TaggedExample, said: Any) -> float:
    gold, guess = (entity_spans(tags) for tags in shown_tags(example, said))
    return float(len(gold ^ guess))


def _entities(example: TaggedExample, said: Any) -> tuple[str, str]:
    units = [unit for unit in example.units if not unit.isspace()]
    joint = "" if example.characters else " "

    def shown(tags: list[str]) -> str:
        found = sorted(entity_spans(tags), key=lambda one: one[1])
        return ", ".join(
            f"{joint.join(units[begin : end + 1])} ({kind})" for kind, begin, end in found
        )

    gold, guess = shown_tags(example, said)
    return shown(gold), shown(guess)


def _wrong_words(example: Any, said: Any) -> float:
    return float(sum(not right for _, right in right_words(example, said)))


def _arcs(example: Any, said: Any) -> tuple[str, str]:
    wrong = [i for i, (_, right) in enumerate(right_words(example, said)) if not right]

    def shown(heads: Sequence[int], relations: Sequence[str]) -> str:
        names = ("root", *example.words)
        return ", ".join(f"{example.words[i]} → {names[heads[i]]} ({relations[i]})" for i in wrong)

    return shown(example.heads, example.relations), shown(said.heads, said.relations)


def _lost(part: Part) -> Callable[[Any, Any], float]:
    return lambda example, said: 100 - answer_score(part, example, said)


def _answer(example: SpanExample, said: Any) -> tuple[str, str]:
    gold = " / ".join(answer.text for answer in example.answers or ()) or "(does not say)"
    return gold, said.text or "(does not say)"
