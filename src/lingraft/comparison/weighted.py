"""Scores as functions of how often each example counts, so that thousands of draws take seconds.

A draw with replacement gives every example a whole number of copies; a part of the test set gives
it 0 or 1. The scores are those of `tasks.metrics`, which is checked wherever one is made.

Shape letters: R draws, N examples, C classes (labels, tags, relations, heads), U distinct values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lingraft.comparison import statistics
from lingraft.errors import DataError
from lingraft.tasks import metrics
from lingraft.tasks.dependency import metrics as parsing_metrics
from lingraft.tasks.tagging_metrics import chunk_spans, entity_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from lingraft.tasks import Task
    from lingraft.tasks.examples import Example, ParseExample, TaggedExample
    from lingraft.tasks.predictions import ParsePrediction, Prediction, TagPrediction

    Array = np.ndarray[Any, Any]
    Score = Callable[[Array], Array]
    """[R, N] weights → [R] scores in percent."""
    Said = tuple[Sequence[Any], Sequence[Any], Sequence[str]]
    """Examples, predictions in the same order, labels."""
    Pairs = Iterable[tuple[Hashable, Hashable]]
    """Gold and predicted class of the units of one example."""

TOLERANCE = 0.01
"""Points by which a score made anew may differ from the saved one."""
WRONG_HEAD = "wrong head"


@dataclass(frozen=True)
class Counts:
    """Units by class: rightly predicted, in gold, and predicted."""

    right_NC: Array
    gold_NC: Array
    said_NC: Array

    def totals(self, weights_RN: Array) -> tuple[Array, Array, Array]:
        """[R, C] Each of the three, summed over the examples."""
        return weights_RN @ self.right_NC, weights_RN @ self.gold_NC, weights_RN @ self.said_NC


def counts(units: Iterable[Pairs]) -> tuple[Counts, list[Hashable]]:
    """Count the units of every example, and name the classes.

    Args:
        units: for every example the gold and predicted class of each unit; None is no class.
    """
    rows = [list(pairs) for pairs in units]
    names: dict[Hashable, int] = {}
    for pairs in rows:
        for pair in pairs:
            for name in pair:
                if name is not None:
                    names.setdefault(name, len(names))
    right, gold, said = (np.zeros((len(rows), len(names))) for _ in range(3))
    for index, pairs in enumerate(rows):
        for true, guess in pairs:
            if true is not None:
                gold[index, names[true]] += 1
            if guess is not None:
                said[index, names[guess]] += 1
            if true is not None and true == guess:
                right[index, names[true]] += 1
    return Counts(right, gold, said), list(names)


def _f1(
    units: Iterable[Pairs],
    average: Literal["macro", "micro"],
    *,
    leave_out: Sequence[Hashable] = (),
    only: Sequence[Hashable] | None = None,
    by_gold: bool = False,
) -> Score:
    """F1 of classes.

    Args:
        units: as for `counts`.
        average: 'macro' is over the classes that occur in gold or predictions.
        leave_out: classes that do not count.
        only: the classes that count; None: all.
        by_gold: macro over the classes that occur in gold.
    """
    found, names = counts(units)
    kept = [
        index
        for index, name in enumerate(names)
        if name not in leave_out and (only is None or name in only)
    ]

    def score(weights_RN: Array) -> Array:
        right_RC, gold_RC, said_RC = (one[:, kept] for one in found.totals(weights_RN))
        if average == "micro":
            return 100 * statistics.ratio(2 * right_RC.sum(1), (gold_RC + said_RC).sum(1))
        there_RC = (gold_RC if by_gold else gold_RC + said_RC) > 0
        f1_RC = statistics.ratio(2 * right_RC, gold_RC + said_RC)
        return 100 * statistics.ratio((f1_RC * there_RC).sum(1), there_RC.sum(1))

    return score


# -- labels


def _labels(said: Said) -> list[list[tuple[str, str]]]:
    examples, predictions, _ = said
    return [[(e.label, p.label)] for e, p in zip(examples, predictions, strict=True)]


def _accuracy(said: Said) -> Score:
    return _mean([float(gold == guess) for [(gold, guess)] in _labels(said)])


def _mean(values: Sequence[float]) -> Score:
    values_N = np.asarray(values)
    return lambda weights_RN: 100 * (weights_RN @ values_N) / weights_RN.sum(1)


def _share(right: Sequence[Sequence[bool]]) -> Score:
    """The share of units, of all examples together, that are right."""
    right_N, units_N = np.array([sum(one) for one in right]), np.array([len(one) for one in right])
    return lambda weights_RN: 100 * statistics.ratio(weights_RN @ right_N, weights_RN @ units_N)


def _matthews(said: Said) -> Score:
    """Gorodkin 2004, from the totals of the labels."""
    found, _ = counts(_labels(said))

    def score(weights_RN: Array) -> Array:
        right_RC, gold_RC, said_RC = found.totals(weights_RN)
        n_R = weights_RN.sum(1)
        above = right_RC.sum(1) * n_R - (gold_RC * said_RC).sum(1)
        below = (n_R**2 - (gold_RC**2).sum(1)) * (n_R**2 - (said_RC**2).sum(1))
        return 100 * statistics.ratio(above, np.sqrt(np.maximum(below, 0)))

    return score


def _similar(said: Said) -> Score:
    def units() -> Iterable[Pairs]:
        for example, prediction in zip(said[0], said[1], strict=True):
            cut = (one.score >= metrics.SIMILAR for one in (example, prediction))
            gold, guess = (True if similar else None for similar in cut)
            yield [(gold, guess)]

    return _f1(units(), "micro")


def _areas(said: Said) -> Score:
    """Area under precision and recall, averaged over the labels that occur in gold."""
    examples, predictions, labels = said
    said_NC = np.asarray([prediction.probabilities for prediction in predictions])
    gold = np.asarray([labels.index(example.label) for example in examples])

    def score(weights_RN: Array) -> Array:
        there = [index for index in range(len(labels)) if (gold == index).any()]
        weights_NR = np.ascontiguousarray(weights_RN.T)
        columns = [statistics.area(weights_NR, said_NC[:, one], gold == one) for one in there]
        areas_RC = np.stack([area for area, _ in columns], axis=1)
        occurs_RC = np.stack([occurs for _, occurs in columns], axis=1)
        return 100 * statistics.ratio((areas_RC * occurs_RC).sum(1), occurs_RC.sum(1))

    return score


# -- numbers


def _numbers(said: Said) -> tuple[Array, Array]:
    return tuple(np.asarray([one.score for one in side], dtype=float) for side in said[:2])  # type: ignore[return-value]


def _pearson(said: Said) -> Score:
    gold_N, said_N = _numbers(said)
    return lambda weights_RN: statistics.correlation(weights_RN, gold_N[None], said_N[None])


def _spearman(said: Said) -> Score:
    gold_N, said_N = _numbers(said)
    return lambda weights_RN: statistics.correlation(
        weights_RN, statistics.ranks(weights_RN, gold_N), statistics.ranks(weights_RN, said_N)
    )


# -- tags


def shown_tags(example: TaggedExample, prediction: TagPrediction) -> tuple[list[str], list[str]]:
    """Gold and predicted tags of the units that are not spaces."""
    assert example.tags is not None
    shown = [index for index, unit in enumerate(example.units) if not unit.isspace()]
    return [example.tags[i] for i in shown], [prediction.tags[i] for i in shown]


def _tags(said: Said) -> Iterable[tuple[list[str], list[str]]]:
    return (shown_tags(e, p) for e, p in zip(said[0], said[1], strict=True))


def _spans(said: Said, find: Callable[[Sequence[str]], Iterable[Any]]) -> Iterable[Pairs]:
    """Spans as units: their class is the type; one that only one side has stands alone."""
    for gold, guess in _tags(said):
        true, found = set(find(gold)), set(find(guess))
        yield [
            *((span[0], span[0]) for span in true & found),
            *((span[0], None) for span in true - found),
            *((None, span[0]) for span in found - true),
        ]


def _characters(said: Said) -> Iterable[Pairs]:
    return (list(zip(gold, guess, strict=True)) for gold, guess in _tags(said))


def _right_tags(said: Said) -> Score:
    return _share([[a == b for a, b in pairs] for pairs in _characters(said)])


# -- trees


def _heads(said: Said) -> Iterable[Pairs]:
    for example, prediction in zip(said[0], said[1], strict=True):
        yield list(zip(example.heads, prediction.heads, strict=True))


def _relations(said: Said) -> Iterable[Pairs]:
    """KLUE's classes: the rare relations are one, and one under a wrong head is wrong."""
    common = set(said[2][: parsing_metrics.COMMON])

    def merged(relation: str) -> str:
        return relation if relation in common else "others"

    for example, prediction in zip(said[0], said[1], strict=True):
        yield [
            (merged(true), merged(guess) if head == said_head else WRONG_HEAD)
            for true, guess, head, said_head in zip(
                example.relations,
                prediction.relations,
                example.heads,
                prediction.heads,
                strict=True,
            )
        ]


def right_words(example: ParseExample, prediction: ParsePrediction) -> list[tuple[bool, bool]]:
    """Of every word, whether its head is right, and whether head and relation are."""
    assert example.heads is not None
    assert example.relations is not None
    heads = [a == b for a, b in zip(example.heads, prediction.heads, strict=True)]
    relations = [a == b for a, b in zip(example.relations, prediction.relations, strict=True)]
    return [(head, head and relation) for head, relation in zip(heads, relations, strict=True)]


def _attached(said: Said, which: int) -> Score:
    pairs = zip(said[0], said[1], strict=True)
    return _share([[word[which] for word in right_words(e, p)] for e, p in pairs])


FORMS: dict[tuple[str, str], Callable[[Said], Score]] = {
    ("accuracy", "accuracy"): _accuracy,
    ("macro_f1", "macro_f1"): lambda said: _f1(_labels(said), "macro"),
    ("f1", "f1"): lambda said: _f1(_labels(said), "micro", only=said[2][1:2]),
    ("matthews", "matthews"): _matthews,
    ("pearson", "pearson"): _pearson,
    ("spearman", "spearman"): _spearman,
    ("similar_f1", "f1"): _similar,
    ("relation_f1", "micro_f1"): lambda said: _f1(
        _labels(said), "micro", leave_out=(metrics.NO_RELATION,)
    ),
    ("auprc", "auprc"): _areas,
    ("entities", "entity_f1"): lambda said: _f1(_spans(said, entity_spans), "micro"),
    ("entities", "entity_macro_f1"): lambda said: _f1(_spans(said, entity_spans), "macro"),
    ("characters", "character_macro_f1"): lambda said: _f1(
        _characters(said), "macro", by_gold=True
    ),
    ("characters", "character_macro_f1_no_o"): lambda said: _f1(
        _characters(said), "macro", leave_out=("O",), by_gold=True
    ),
    ("tokens", "token_accuracy"): _right_tags,
    ("chunks", "chunk_f1"): lambda said: _f1(_spans(said, chunk_spans), "micro"),
    ("attachment", "uas"): lambda said: _attached(said, 0),
    ("attachment", "las"): lambda said: _attached(said, 1),
    ("attachment", "uas_macro_f1"): lambda said: _f1(_heads(said), "macro", by_gold=True),
    ("attachment", "las_macro_f1"): lambda said: _f1(_relations(said), "macro", by_gold=True),
    ("attachment", "reference/uas_macro_f1"): lambda said: _f1(_heads(said), "macro"),
    ("attachment", "reference/las_macro_f1"): lambda said: _f1(_relations(said), "macro"),
}
"""(Metric, score) → how it is made; the scores that are means over examples need no line."""
MEANS = ("klue_answers", "squad_answers")


def weighted(
    task: Task,
    key: str,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    saved: float | None = None,
) -> Score:
    """One score of a task as a function of weights.

    Args:
        task: has the score among its metrics'.
        key: of the score.
        examples: of the test set.
        predictions: in the same order.
        saved: the score of the whole test set, which the function must give.

    Raises:
        DataError: the predictions do not give the saved score.
    """
    score = _form(task, key, (examples, predictions, task.labels))
    if saved is not None:
        whole = float(score(np.ones((1, len(examples))))[0])
        if abs(whole - saved) > TOLERANCE:
            raise DataError(
                f"{task.name}: the saved predictions give {key} {whole:.2f}, scores.json says "
                f"{saved:.2f}; delete the folder and fine-tune this seed again"
            )
    return score


def _form(task: Task, key: str, said: Said) -> Score:
    for name in task.metrics:
        if (name, key) in FORMS:
            return FORMS[name, key](said)
    for name in task.metrics:
        if name in MEANS:
            measure = metrics.METRICS[name]
            return _mean(
                [
                    measure([example], [prediction], said[2])[key] / 100
                    for example, prediction in zip(said[0], said[1], strict=True)
                ]
            )
    return _repeated(task, key, said)


def _repeated(task: Task, key: str, said: Said) -> Score:
    """Any score, by making every copy: slow, for scores that no table shows by itself."""

    def score(weights_RN: Array) -> Array:
        values = []
        for weights_N in weights_RN:
            chosen = np.repeat(np.arange(len(weights_N)), weights_N.astype(int)).tolist()
            some = ([said[0][i] for i in chosen], [said[1][i] for i in chosen])
            values.append(task.score_aligned(*some)[key])
        return np.asarray(values)

    return score
