"""Scores of predictions against gold, in percent; one line in `METRICS` a family of scores.

Each is a function of how often every example counts (`tasks.weighted`). A plain key is the clean
definition. A key `reference/…` is what the benchmark's own code computes, where that differs;
tables of papers hold the latter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.tasks import span_metrics, translation_metrics, weighted
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.tasks.examples import ParseExample, ParsePrediction
    from lingraft.tasks.weighted import Array, Score, Scores

    Metric = Callable[[Sequence[Any], Sequence[Any], Sequence[str]], Scores]

COMMON = 15
"""KLUE scores the first 15 relations one by one and all rarer ones as one class."""
OTHERS, WRONG_HEAD = "others", "wrong head"
NO_RELATION = ("no_relation",)
SIMILAR = 3.0
"""KLUE-STS: scores from here on mean "similar"."""


def _tally(examples: Sequence[Any], predictions: Sequence[Any]) -> Tally:
    pairs = zip(examples, predictions, strict=True)
    return Tally([(example.label, prediction.label)] for example, prediction in pairs)


def _of_labels(key: str, score: Callable[[Tally, Sequence[str]], Score]) -> Metric:
    return lambda examples, predictions, labels: {key: score(_tally(examples, predictions), labels)}


def _of_numbers(key: str, score: Callable[[Array, Array], Score]) -> Metric:
    def metric(*sides: Sequence[Any]) -> dict[str, Score]:
        gold_N, said_N = (np.array([one.score for one in side], float) for side in sides[:2])
        return {key: score(gold_N, said_N)}

    return metric


def _similar_f1(gold_N: Array, predictions_N: Array) -> Score:
    """Score F1 of "similar" (a score of 3 and more), gold and predictions cut alike."""
    sides = ((side_N >= SIMILAR).tolist() for side_N in (gold_N, predictions_N))
    return Tally([pair] for pair in zip(*sides, strict=True)).f1("micro", only=[True])


def auprc(examples: Sequence[Any], predictions: Sequence[Any], labels: Sequence[str]) -> Scores:
    """Score the area under precision and recall, averaged over the relations.

    The clean mean is over the relations that occur in gold and says how many do not. The reference
    takes all: one without positives has recall 1 throughout and precision 0, then 1, and so an area
    of 0.5, which says nothing about the model.
    """
    probabilities_NC = np.array([prediction.probabilities for prediction in predictions])
    gold_N = np.array([labels.index(example.label) for example in examples])

    def areas(weights_RN: Array) -> tuple[Array, Array]:
        """Return the sum [R] of the areas of the labels that occur, and how many [R] do."""
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


def attachment(
    examples: Sequence[ParseExample], predictions: Sequence[ParsePrediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Score attachment over all words.

    `uas` and `las` are the field's: the share of words with the right head, and with the right head
    and relation. `uas_macro_f1` and `las_macro_f1` are KLUE's idea done right: macro-F1 over the
    gold classes, which are head positions (sic) and relations, the rare ones as one class, a
    relation under a wrong head being wrong. KLUE's code averages over the classes of gold *and*
    predictions, so the class "wrong head", which gold never has, adds an F1 of 0 as soon as one
    head is wrong; P1's tables have these `reference/…` values.
    """
    common = frozenset(labels[:COMMON])
    heads, relations, right_heads, right = [], [], [], []
    for example, prediction in zip(examples, predictions, strict=True):
        words = right_words(example, prediction)
        right_heads.append([head for head, _ in words])
        right.append([both for _, both in words])
        heads.append(list(zip(example.heads or (), prediction.heads, strict=True)))
        classes = (
            [relation if relation in common else OTHERS for relation in side]
            for side in (example.relations or (), prediction.relations)
        )
        relations.append(
            [
                (gold, relation if head else WRONG_HEAD)
                for gold, relation, head in zip(*classes, right_heads[-1], strict=True)
            ]
        )
    by_head, by_relation = Tally(heads), Tally(relations)
    return {
        "uas": weighted.share(right_heads),
        "las": weighted.share(right),
        "uas_macro_f1": by_head.f1("macro", by_gold=True),
        "las_macro_f1": by_relation.f1("macro", by_gold=True),
        "reference/uas_macro_f1": by_head.f1("macro"),
        "reference/uas_micro_f1": by_head.f1("micro"),
        "reference/las_macro_f1": by_relation.f1("macro"),
        "reference/las_micro_f1": by_relation.f1("micro"),
    }


def right_words(example: ParseExample, prediction: ParsePrediction) -> list[tuple[bool, bool]]:
    """Tell of every word whether its head is right, and whether head and relation are."""
    gold = zip(example.heads or (), example.relations or (), strict=True)
    said = zip(prediction.heads, prediction.relations, strict=True)
    return [(a[0] == b[0], a == b) for a, b in zip(gold, said, strict=True)]


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
    "entities": span_metrics.entities,
    "characters": span_metrics.characters,
    "tokens": span_metrics.tokens,
    "chunks": span_metrics.chunks,
    "attachment": attachment,
    "klue_answers": span_metrics.klue_answers,
    "squad_answers": span_metrics.squad_answers,
    "squad1_answers": span_metrics.squad1_answers,
    **{
        f"mlqa_answers_{language}": span_metrics.mlqa_answers(language)
        for language in span_metrics.MLQA_LANGUAGES
    },
    **{name: translation_metrics.of(name) for name in translation_metrics.SCORERS},
}
_OF_LABELS = ("accuracy", "macro_f1", "f1", "matthews")
SCORES: dict[str, dict[str, tuple[str, ...]]] = {
    "classification": {name: (name,) for name in _OF_LABELS},
    "pair": {name: (name,) for name in _OF_LABELS},
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
