"""Scores of predictions against gold, in percent; one line in `METRICS` a family of scores.

Each is a function of how often every example counts (`tasks.weighted`). A plain key is the clean
definition. A key `reference/…` is what the benchmark's own code computes, where that differs;
tables of papers hold the latter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.tasks import (
    parsing_metrics,
    span_metrics,
    tagging_metrics,
    translation_metrics,
    weighted,
)
from lingraft.tasks.examples import LabelPrediction, ScorePrediction, of_kind
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import Prediction
    from lingraft.tasks.weighted import Array, Score

    Metric = Callable[[Sequence[Any], Sequence[Prediction], Sequence[str]], dict[str, Score]]

NO_RELATION = ("no_relation",)
SIMILAR = 3.0
"""KLUE-STS: scores from here on mean "similar"."""


def _labels(examples: Sequence[Any], predictions: Sequence[Prediction]) -> Tally:
    label_predictions = of_kind(predictions, LabelPrediction, "label")
    pairs = zip(examples, label_predictions, strict=True)
    return Tally([(example.label, prediction.label)] for example, prediction in pairs)


def _scores(examples: Sequence[Any], predictions: Sequence[Prediction]) -> tuple[Array, Array]:
    scores = []
    for prediction in predictions:
        if not isinstance(prediction, ScorePrediction) or not math.isfinite(prediction.score):
            raise DataError(f"prediction {prediction.id}: has no finite score; this task needs one")
        scores.append(prediction.score)
    return np.array([example.score for example in examples], dtype=float), np.array(scores)


def _of_labels(key: str, score: Callable[[Tally, Sequence[str]], Score]) -> Metric:
    return lambda examples, predictions, labels: {
        key: score(_labels(examples, predictions), labels)
    }


def _of_numbers(key: str, score: Callable[[Array, Array], Score]) -> Metric:
    return lambda examples, predictions, labels: {key: score(*_scores(examples, predictions))}


def _similar_f1(gold_N: Array, predictions_N: Array) -> Score:
    """F1 of "similar" (a score of 3 and more), gold and predictions cut alike."""
    sides = ((side_N >= SIMILAR).tolist() for side_N in (gold_N, predictions_N))
    return Tally([pair] for pair in zip(*sides, strict=True)).f1("micro", only=[True])


def auprc(
    examples: Sequence[Any], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Area under precision and recall, averaged over the relations.

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
    probabilities_NC = np.asarray(probabilities)
    gold_N = np.array([labels.index(example.label) for example in examples])

    def areas(weights_RN: Array) -> tuple[Array, Array]:
        """[R] The sum of the areas of the labels that occur, and how many do."""
        weights_NR = np.ascontiguousarray(weights_RN.T)
        parts = [
            weighted.area(weights_NR, probabilities_NC[:, place], gold_N == place)
            for place in np.unique(gold_N)
        ]
        occurs = np.sum([present_R for _, present_R in parts], axis=0)
        return np.sum([area_R * present_R for area_R, present_R in parts], axis=0), occurs

    def reference(weights_RN: Array) -> Array:
        total_R, occur_R = areas(weights_RN)
        return 100 * (total_R + 0.5 * (len(labels) - occur_R)) / len(labels)

    return {
        "auprc": lambda weights_RN: 100 * weighted.ratio(*areas(weights_RN)),
        "auprc_skipped_labels": lambda weights_RN: len(labels) - areas(weights_RN)[1],
        "reference/auprc": reference,
    }


METRICS: dict[str, Metric] = {
    "accuracy": _of_labels("accuracy", lambda tally, _: weighted.mean(tally.right_NC.sum(1))),
    # averaged over the labels that occur in gold or predictions
    "macro_f1": _of_labels("macro_f1", lambda tally, _: tally.f1("macro")),
    # of the second label (1 of MRPC and QQP); 0 if there is none in gold and predictions
    "f1": _of_labels("f1", lambda tally, labels: tally.f1("micro", only=labels[1:2])),
    "matthews": _of_labels("matthews", lambda tally, _: tally.matthews),
    "pearson": _of_numbers("pearson", weighted.pearson),
    "spearman": _of_numbers("spearman", weighted.spearman),
    "similar_f1": _of_numbers("f1", _similar_f1),
    # without `no_relation`
    "relation_f1": _of_labels("micro_f1", lambda tally, _: tally.f1("micro", without=NO_RELATION)),
    "auprc": auprc,
    "entities": tagging_metrics.entities,
    "characters": tagging_metrics.characters,
    "tokens": tagging_metrics.tokens,
    "chunks": tagging_metrics.chunks,
    "attachment": parsing_metrics.attachment,
    "klue_answers": span_metrics.klue_answers,
    "squad_answers": span_metrics.squad_answers,
    "squad1_answers": span_metrics.squad1_answers,
    **{
        f"mlqa_answers_{language}": span_metrics.mlqa_answers(language)
        for language in span_metrics.MLQA_LANGUAGES
    },
    **{name: translation_metrics.of(name) for name in translation_metrics.SCORERS},
}
SCORES: dict[str, dict[str, tuple[str, ...]]] = {
    "classification": {name: (name,) for name in ("accuracy", "macro_f1", "f1", "matthews")},
    "regression": {name: (name,) for name in ("pearson", "spearman")},
    "tagging": {
        "entities": ("entity_f1", "entity_macro_f1"),
        "tokens": ("token_accuracy",),
        "chunks": ("chunk_f1",),
    },
    "span": {"squad_answers": ("f1", "exact_match"), "klue_answers": ("rouge_w", "exact_match")},
    "translation": {name: (name,) for name in translation_metrics.SCORERS},
}
"""Kind of a user's task → metrics it can have → the scores that these give."""
CHARACTERS = {"characters": ("character_macro_f1", "character_macro_f1_no_o")}
"""The same of tags of characters, beside those of tagging."""
