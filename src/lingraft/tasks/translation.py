"""Sentences with their translations: their files, and the settings that are known for training."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import TYPE_CHECKING

from lingraft.tasks.examples import TranslationExample, with_tuples
from lingraft.tasks.settings import Settings
from lingraft.tasks.translation_metrics import cuts_words, has_spaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.tasks.definition import Definition
    from lingraft.tasks.reading import Row

HEADLINE = ("bleu", "chrf")
_TABLES = tomllib.loads(
    resources.files("lingraft.tasks").joinpath("catalogue/translation.toml").read_text("utf-8")
)
USUAL = Settings(**_TABLES["usual"])
SETTINGS = {
    name: Settings.model_construct(**with_tuples(table))  # whole numbers stay so in fingerprints
    for name, table in _TABLES["papers"].items()
}
"""Of papers, by name."""


def metrics_of(language: str) -> tuple[str, ...]:
    """Name the metrics of a task that names none; Moses cuts no words where there are no spaces."""
    return (*HEADLINE, "bleu_tokenised") if has_spaces(language) else HEADLINE


def chooses(scores: Sequence[str], language: str) -> str:
    """Name the score that chooses checkpoints: the first, but not BLEU of what are no words."""
    makeshift = scores[0] == "bleu" and "chrf" in scores and not cuts_words(language)
    return "chrf" if makeshift else scores[0]


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
