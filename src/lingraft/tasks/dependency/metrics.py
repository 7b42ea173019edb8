"""Scores of dependency trees (SPEC B.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import ParseExample
from lingraft.tasks.extras import sklearn_metrics
from lingraft.tasks.predictions import ParsePrediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction

COMMON = 15
"""KLUE scores the first 15 relations one by one and all rarer ones as one class."""
OTHERS, WRONG_HEAD = -3, -2


def attachment(
    examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]
) -> dict[str, float]:
    """Attachment scores over all words.

    `uas` and `las` are the field's: the share of words with the right head, and with the right head
    and relation. `uas_macro_f1` and `las_macro_f1` are KLUE's idea done right: macro-F1 over the
    gold classes, which are head positions (sic) and relations, the rare ones as one class, a
    relation under a wrong head being wrong. KLUE's code averages over the classes of gold *and*
    predictions, so the class "wrong head", which gold never has, adds an F1 of 0 as soon as one
    head is wrong; P1's tables have these `reference/…` values.
    """
    heads: list[int] = []
    types: list[int] = []
    said_heads: list[int] = []
    said_types: list[int] = []
    number = {label: index for index, label in enumerate(labels)}
    for example, prediction in zip(examples, predictions, strict=True):
        assert isinstance(example, ParseExample)
        assert example.heads is not None
        assert example.relations is not None
        _check(example, prediction, number)
        assert isinstance(prediction, ParsePrediction)
        heads += example.heads
        said_heads += prediction.heads
        types += [number[label] for label in example.relations]
        said_types += [number[label] for label in prediction.relations]
    return _scores(heads, types, said_heads, said_types)


def _check(example: ParseExample, prediction: Prediction, number: dict[str, int]) -> None:
    if not isinstance(prediction, ParsePrediction) or not (
        len(prediction.heads) == len(prediction.relations) == len(example.words)
    ):
        raise DataError(
            f"prediction {prediction.id}: must have {len(example.words)} heads and relations, "
            "one a word"
        )
    for label in prediction.relations:
        if label not in number:
            raise DataError(f"prediction {prediction.id}: unknown relation {label!r}")


def _scores(
    heads: list[int], types: list[int], said_heads: list[int], said_types: list[int]
) -> dict[str, float]:
    f1 = sklearn_metrics().f1_score
    held = [head == said for head, said in zip(heads, said_heads, strict=True)]
    right = [ok and one == other for ok, one, other in zip(held, types, said_types, strict=True)]
    merged = [OTHERS if kind >= COMMON else kind for kind in types]
    said_merged = [
        (OTHERS if kind >= COMMON else kind) if ok else WRONG_HEAD
        for ok, kind in zip(held, said_types, strict=True)
    ]

    def macro(gold: list[int], said: list[int], classes: list[int] | None) -> float:
        return 100 * float(f1(gold, said, average="macro", labels=classes, zero_division=0))

    uas = 100 * sum(held) / len(held)
    same = sum(one == other for one, other in zip(merged, said_merged, strict=True))
    return {
        "uas": uas,
        "las": 100 * sum(right) / len(right),
        "uas_macro_f1": macro(heads, said_heads, sorted(set(heads))),
        "las_macro_f1": macro(merged, said_merged, sorted(set(merged))),
        "reference/uas_macro_f1": macro(heads, said_heads, None),
        "reference/uas_micro_f1": uas,
        "reference/las_macro_f1": macro(merged, said_merged, None),
        "reference/las_micro_f1": 100 * same / len(merged),
    }
