"""Sentences with their translations: their files, and the settings that are known for training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks.examples import TranslationExample
from lingraft.tasks.task import Settings
from lingraft.tasks.text import rows

if TYPE_CHECKING:
    from lingraft.tasks.definition import Definition
    from lingraft.tasks.reading import Row

__all__ = ["HEADLINE", "METRICS", "SETTINGS", "USUAL", "example", "rows"]

METRICS = ("bleu", "chrf", "bleu_tokenised")
"""Where a task names none."""
HEADLINE = ("bleu", "chrf")
USUAL = Settings(
    epochs=5,
    batch=4_096,
    batch_unit="tokens",
    learning_rate=5e-5,
    warmup=0.1,
    max_length=252,
    label_smoothing=0.1,
    source="decided here, for a pretrained translator or encoder–decoder of usual size",
)
SETTINGS = {
    "veco2021": Settings(
        epochs=1,
        steps=100_000,
        batch=131_072,
        batch_unit="tokens",
        learning_rate=1e-4,
        warmup=16_000,
        max_length=252,
        weight_decay=0.01,
        decay_all=True,
        eps=1e-8,
        clip=0.1,
        dropout=0.3,
        attention_dropout=0.1,
        label_smoothing=0.2,
        check_every=5_000,
        average_last=10,
        beams=5,
        source="SPEC A.8 (En-De); the scripts' 64k padded tokens of the longer side are about 131k "
        "of both; 250 pieces and two special tokens",
    ),
    "small": Settings(
        epochs=10,
        batch=4_096,
        batch_unit="tokens",
        learning_rate=7e-4,
        warmup=0.1,
        max_length=130,
        betas=(0.9, 0.98),
        dropout=0.1,
        attention_dropout=0.1,
        label_smoothing=0.1,
        average_last=5,
        source="decided here, for models of some 10 M parameters on a laptop",
    ),
}


def example(row: Row, definition: Definition) -> TranslationExample:
    """The pair of a row.

    Raises:
        DataError: a column is missing, or a side is empty.
    """
    columns = definition.columns
    text, translation = (row.text(column).strip() for column in (columns.text, columns.pair))
    for side, names in ((text, columns.text), (translation, columns.pair)):
        if not side:
            raise row.error(f"column {names[0]!r} is empty; leave such pairs out of the file")
    return TranslationExample(
        row.identifier(columns.id), text, translation, language=definition.language
    )
