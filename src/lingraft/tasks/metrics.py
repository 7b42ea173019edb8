"""Scores of predictions against gold, in percent; one line in `METRICS` a family of scores.

A plain key is the clean definition. A key `reference/…` is what the benchmark's own code computes,
where that differs (SPEC B.3–B.8); tables of papers hold the latter.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks import span_metrics, tagging_metrics
from lingraft.tasks.dependency import metrics as parsing_metrics
from lingraft.tasks.extras import sklearn_metrics, stats
from lingraft.tasks.predictions import LabelPrediction, ScorePrediction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

    Metric = Callable[[Sequence[Example], Sequence[Prediction], Sequence[str]], dict[str, float]]

NO_RELATION = "no_relation"
SIMILAR = 3.0
"""KLUE-STS: scores from here on mean "similar"."""


def _labels(
    examples: Sequence[Any], predictions: Sequence[Prediction]
) -> tuple[list[str], list[str]]:
    said = []
    for prediction in predictions:
        if not isinstance(prediction, LabelPrediction):
            raise DataError(f"prediction {prediction.id}: has no label; this task needs one")
        said.append(prediction.label)
    return [example.label for example in examples], said


def _scores(
    examples: Sequence[Any], predictions: Sequence[Prediction]
) -> tuple[list[float], list[float]]:
    said = []
    for prediction in predictions:
        if not isinstance(prediction, ScorePrediction) or not math.isfinite(prediction.score):
            raise DataError(f"prediction {prediction.id}: has no finite score; this task needs one")
        said.append(prediction.score)
    return [example.score for example in examples], said


def accuracy(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Share of examples with the right label."""
    gold, said = _labels(examples, predictions)
    return {"accuracy": 100 * sum(map(str.__eq__, gold, said)) / len(gold)}


def macro_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """F1 averaged over the labels that occur in gold or predictions (scikit-learn's)."""
    gold, said = _labels(examples, predictions)
    return {"macro_f1": 100 * float(sklearn_metrics().f1_score(gold, said, average="macro"))}


def f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """F1 of the second label (1 of MRPC and QQP); 0 if there is none in gold and predictions."""
    gold, said = _labels(examples, predictions)
    value = sklearn_metrics().f1_score(gold, said, pos_label=labels[1], zero_division=0)
    return {"f1": 100 * float(value)}


def matthews(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Matthews correlation; 0 where a side has only one label."""
    gold, said = _labels(examples, predictions)
    return {"matthews": 100 * float(sklearn_metrics().matthews_corrcoef(gold, said))}


def pearson(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Pearson correlation; 0 where a side is constant (it is not defined there)."""
    return {"pearson": _correlation("pearsonr", *_scores(examples, predictions))}


def spearman(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Spearman rank correlation; 0 where a side is constant."""
    return {"spearman": _correlation("spearmanr", *_scores(examples, predictions))}


def _correlation(name: str, gold: list[float], said: list[float]) -> float:
    if len(set(gold)) < 2 or len(set(said)) < 2:
        return 0.0
    with warnings.catch_warnings():  # nearly constant scores, early in training
        warnings.simplefilter("ignore")
        value = float(getattr(stats(), name)(gold, said).statistic)
    return 100 * value if math.isfinite(value) else 0.0


def similar_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """F1 of "similar" (a score of 3 and more), gold and predictions cut alike (SPEC B.3)."""
    gold, said = _scores(examples, predictions)
    value = sklearn_metrics().f1_score(
        [score >= SIMILAR for score in gold],
        [score >= SIMILAR for score in said],
        zero_division=0,
    )
    return {"f1": 100 * float(value)}


def relation_f1(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Micro-F1 over the relations without `no_relation` (SPEC B.6)."""
    gold, said = _labels(examples, predictions)
    counted = [label for label in labels if label != NO_RELATION]
    value = sklearn_metrics().f1_score(gold, said, labels=counted, average="micro", zero_division=0)
    return {"micro_f1": 100 * float(value)}


def auprc(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Area under precision and recall, averaged over the relations (SPEC B.6).

    The clean mean is over the relations that occur in gold and says how many do not. The reference
    takes all: one without positives has recall 1 throughout and so an area of its own (0.5 at
    most thresholds), which says nothing about the model.
    """
    import numpy as np

    gold, _ = _labels(examples, predictions)
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
    table_NC = np.asarray(probabilities)
    areas, present = [], []
    for index, label in enumerate(labels):
        positive_N = np.array([one == label for one in gold])
        with warnings.catch_warnings():  # a class without positives: wanted, see above
            warnings.simplefilter("ignore")
            precision, recall, _ = sklearn_metrics().precision_recall_curve(
                positive_N, table_NC[:, index]
            )
        areas.append(float(sklearn_metrics().auc(recall, precision)))
        present.append(bool(positive_N.any()))
    with_positives = [area for area, there in zip(areas, present, strict=True) if there]
    return {
        "auprc": 100 * sum(with_positives) / len(with_positives),
        "auprc_skipped_labels": float(len(labels) - len(with_positives)),
        "reference/auprc": 100 * sum(areas) / len(areas),
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
