"""What a model says that is right about everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks.examples import (
    LabelPrediction,
    ParseExample,
    ParsePrediction,
    RelationExample,
    ScorePrediction,
    SpanExample,
    SpanPrediction,
    TaggedExample,
    TagPrediction,
    TextExample,
    TranslationExample,
    TranslationPrediction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.examples import Example, Prediction


def gold(example: Example, labels: Sequence[str] = ()) -> Prediction:
    """The prediction that is right in every way (probabilities: one for the gold label)."""
    match example:
        case TextExample(score=float() as score):
            return ScorePrediction(example.id, score)
        case TextExample() | RelationExample():
            assert example.label is not None
            sure = tuple(float(label == example.label) for label in labels)
            return LabelPrediction(example.id, example.label, sure)
        case TaggedExample():
            assert example.tags is not None
            return TagPrediction(example.id, example.tags)
        case ParseExample():
            assert example.heads is not None
            assert example.relations is not None
            return ParsePrediction(example.id, example.heads, example.relations)
        case SpanExample():
            return SpanPrediction(example.id, example.answers[0].text if example.answers else "")
        case TranslationExample():
            return TranslationPrediction(example.id, example.translation)
