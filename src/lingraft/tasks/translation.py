"""Sentences with their translations: their files, and the settings that are known for training."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import TYPE_CHECKING

from lingraft.tasks.examples import TranslationExample, with_tuples
from lingraft.tasks.settings import Settings
from lingraft.tasks.text import rows

if TYPE_CHECKING:
    from lingraft.tasks.definition import Definition
    from lingraft.tasks.reading import Row

__all__ = ["HEADLINE", "METRICS", "SETTINGS", "USUAL", "example", "rows"]

METRICS = ("bleu", "chrf", "bleu_tokenised")
"""Where a task names none."""
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
