"""Scores of dependency trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks import weighted
from lingraft.tasks.examples import ParsePrediction
from lingraft.tasks.weighted import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import ParseExample, Prediction
    from lingraft.tasks.weighted import Score

COMMON = 15
"""KLUE scores the first 15 relations one by one and all rarer ones as one class."""
OTHERS, WRONG_HEAD = "others", "wrong head"


def attachment(
    examples: Sequence[ParseExample], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, Score]:
    """Attachment scores over all words.

    `uas` and `las` are the field's: the share of words with the right head, and with the right head
    and relation. `uas_macro_f1` and `las_macro_f1` are KLUE's idea done right: macro-F1 over the
    gold classes, which are head positions (sic) and relations, the rare ones as one class, a
    relation under a wrong head being wrong. KLUE's code averages over the classes of gold *and*
    predictions, so the class "wrong head", which gold never has, adds an F1 of 0 as soon as one
    head is wrong; P1's tables have these `reference/…` values.
    """
    known_labels, common = frozenset(labels), frozenset(labels[:COMMON])
    heads, relations, right_heads, right = [], [], [], []
    for example, prediction in zip(examples, predictions, strict=True):
        _check(example, prediction, known_labels)
        assert isinstance(prediction, ParsePrediction)
        words = right_words(example, prediction)
        right_heads.append([head for head, _ in words])
        right.append([both for _, both in words])
        heads.append(list(zip(example.heads or (), prediction.heads, strict=True)))
        classes = [
            [relation if relation in common else OTHERS for relation in side]
            for side in (example.relations or (), prediction.relations)
        ]
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
    """Of every word, whether its head is right, and whether head and relation are."""
    assert example.heads is not None
    assert example.relations is not None
    heads = [a == b for a, b in zip(example.heads, prediction.heads, strict=True)]
    relations = [a == b for a, b in zip(example.relations, prediction.relations, strict=True)]
    return [(head, head and relation) for head, relation in zip(heads, relations, strict=True)]


def _check(example: ParseExample, prediction: Prediction, known_labels: frozenset[str]) -> None:
    if not isinstance(prediction, ParsePrediction) or not (
        len(prediction.heads) == len(prediction.relations) == len(example.words)
    ):
        raise DataError(
            f"prediction {prediction.id}: must have {len(example.words)} heads and relations, "
            "one a word"
        )
    for label in prediction.relations:
        if label not in known_labels:
            raise DataError(f"prediction {prediction.id}: unknown relation {label!r}")
