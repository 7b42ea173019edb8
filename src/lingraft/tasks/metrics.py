"""Scores of predictions against gold, in percent; one line in `METRICS` a family of scores.

Each is a function of how often every example counts (`tasks.weighted`). A plain key is the clean
definition. A key `reference/…` is what the benchmark's own code computes, where that differs (SPEC
B.3–B.8); tables of papers hold the latter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.tasks import span_metrics, tagging_metrics, weighted
from lingraft.tasks.dependency import metrics as parsing_metrics
from lingraft.tasks.predictions import LabelPrediction, ScorePrediction
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.weighted import Array, Score

    Metric = Callable[[Sequence[Example], Sequence[Prediction], Sequence[str]], dict[str, Score]]

NO_RELATION = "no_relation"
SIMILAR = 3.0
"""KLUE-STS: scores from here on mean "similar"."""


def _labels(examples: Sequence[Any], predictions: Sequence[Prediction]) -> Tally:
    units = []
    for example, prediction in zip(examples, predictions, strict=True):
        if not isinstance(prediction, LabelPrediction):
            raise DataError(f"prediction {prediction.id}: has no label; this task needs one")
        units.append([(example.label, prediction.label)])
    return Tally(units)


def _scores(examples: Sequence[Any], predictions: Sequence[Prediction]) -> tuple[Array, Array]:
    said = []
    for prediction in predictions:
        if not isinstance(prediction, ScorePrediction) or not math.isfinite(prediction.score):
            raise DataError(f"prediction {prediction.id}: has no finite score; this task needs one")
        said.append(prediction.score)
    return np.array([example.score for example in examples], dtype=float), np.array(said)


def accuracy(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Share of examples with the right label."""
    return {"accuracy": weighted.mean(_labels(examples, predictions).right_NC.sum(1))}


def macro_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """F1 averaged over the labels that occur in gold or predictions (scikit-learn's)."""
    return {"macro_f1": _labels(examples, predictions).f1("macro")}


def f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """F1 of the second label (1 of MRPC and QQP); 0 if there is none in gold and predictions."""
    return {"f1": _labels(examples, predictions).f1("micro", only=labels[1:2])}


def matthews(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Matthews correlation; 0 where a side has only one label."""
    return {"matthews": _labels(examples, predictions).matthews}


def pearson(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Pearson correlation; 0 where a side is constant (it is not defined there)."""
    gold_N, said_N = _scores(examples, predictions)
    return {"pearson": lambda weights_RN: weighted.correlation(weights_RN, gold_N[None], said_N)}


def spearman(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Spearman rank correlation; 0 where a side is constant."""
    sides = _scores(examples, predictions)

    def score(weights_RN: Array) -> Array:
        return weighted.correlation(
            weights_RN, *(weighted.ranks(weights_RN, side_N) for side_N in sides)
        )

    return {"spearman": score}


def similar_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """F1 of "similar" (a score of 3 and more), gold and predictions cut alike (SPEC B.3)."""
    gold, said = (side_N >= SIMILAR for side_N in _scores(examples, predictions))
    tally = Tally([[pair] for pair in zip(gold.tolist(), said.tolist(), strict=True)])
    return {"f1": tally.f1("micro", only=[True])}


def relation_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Micro-F1 over the relations without `no_relation` (SPEC B.6)."""
    return {"micro_f1": _labels(examples, predictions).f1("micro", without=(NO_RELATION,))}


def auprc(
    examples: Sequence[Any], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Area under precision and recall, averaged over the relations (SPEC B.6).

    The clean mean is over the relations that occur in gold and says how many do not. The reference
    takes all: one without positives has recall 1 throughout and precision 0, then 1, and so an area
    of 0.5, which says nothing about the model.
    """
    _labels(examples, predictions)
    probabilities = [
        prediction.probabilities
        for prediction in predictions
        if isinstance(prediction, LabelPrediction) and len(prediction.probabilities) == len(labels)
    ]
    if len(probabilities) != len(examples):
        raise DataError(
            f"{len(examples) - len(probabilities)} predictions lack {len(labels)} probabilities, "
            "one a label, which the area under precision and recall needs"
        )
    said_NC = np.asarray(probabilities)
    gold_N = np.array([labels.index(example.label) for example in examples])

    def areas(weights_RN: Array) -> tuple[Array, Array]:
        """[R] The sum of the areas of the labels that occur, and how many do."""
        weights_NR = np.ascontiguousarray(weights_RN.T)
        found = [
            weighted.area(weights_NR, said_NC[:, place], gold_N == place)
            for place in np.unique(gold_N)
        ]
        occurs = np.sum([there_R for _, there_R in found], axis=0)
        return np.sum([area_R * there_R for area_R, there_R in found], axis=0), occurs

    def reference(weights_RN: Array) -> Array:
        total_R, occur_R = areas(weights_RN)
        return 100 * (total_R + 0.5 * (len(labels) - occur_R)) / len(labels)

    return {
        "auprc": lambda weights_RN: 100 * weighted.ratio(*areas(weights_RN)),
        "auprc_skipped_labels": lambda weights_RN: len(labels) - areas(weights_RN)[1],
        "reference/auprc": reference,
    }


METRICS: dict[str, Metric] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "similar_f1": similar_f1,
    "relation_f1": relation_f1,
    "auprc": auprc,
    "entities": tagging_metrics.entities,
    "characters": tagging_metrics.characters,
    "tokens": tagging_metrics.tokens,
    "chunks": tagging_metrics.chunks,
    "attachment": parsing_metrics.attachment,
    "klue_answers": span_metrics.klue_answers,
    "squad_answers": span_metrics.squad_answers,
}
SCORES: dict[str, dict[str, tuple[str, ...]]] = {
    "classification": {
        "accuracy": ("accuracy",),
        "macro_f1": ("macro_f1",),
        "f1": ("f1",),
        "matthews": ("matthews",),
    },
    "regression": {"pearson": ("pearson",), "spearman": ("spearman",)},
    "tagging": {
        "entities": ("entity_f1", "entity_macro_f1"),
        "tokens": ("token_accuracy",),
        "chunks": ("chunk_f1",),
    },
    "span": {"squad_answers": ("f1", "exact_match"), "klue_answers": ("rouge_w", "exact_match")},
}
"""Kind of a user's task → metrics it can have → the scores that these give."""
