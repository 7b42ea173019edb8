"""Texts and pairs of texts out of rows, for the tasks whose files differ only in column names."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.tasks.examples import TextExample
from lingraft.tasks.reading import MISSING, jsonl_rows, suffix, tsv_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lingraft.tasks.reading import Row

HIDDEN = {"-1", "-1.0", ""}
"""What stands for a hidden answer (the Hub's GLUE has -1)."""


@dataclass(frozen=True)
class Columns:
    """Names that a column has in the official files, in conversions and on the Hub, in order."""

    text: tuple[str, ...]
    pair: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    score: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    """Without one, or where the column is not there, the row's number is the id."""


@dataclass(frozen=True)
class TextReader:
    """Makes a `TextExample` of a row."""

    columns: Columns
    labels: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of labels."""
    span: tuple[float, float] = (-math.inf, math.inf)
    """Lowest and highest score."""
    hidden: bool = True
    """Whether a row may lack its answer; the official test sets of many tasks do."""

    def __call__(self, row: Row) -> TextExample:
        """The example of a row.

        Raises:
            DataError: a column is missing, or the label or score is none of the task's.
        """
        columns = self.columns
        return TextExample(
            id=row.identifier(columns.id),
            text=row.text(columns.text),
            pair=row.text(columns.pair) if columns.pair else None,
            label=self._label(row) if columns.label else None,
            score=self._score(row) if columns.score else None,
        )

    def _answer(self, row: Row, names: tuple[str, ...]) -> str | None:
        value = row.find(names)
        if value is MISSING:
            if self.hidden:
                return None
            row.value(names)
        if value is None or (self.hidden and str(value) in HIDDEN):
            return None
        return str(value)

    def _label(self, row: Row) -> str | None:
        value = self._answer(row, self.columns.label)
        if value is None:
            return None
        value = self.aliases.get(value, value)
        if value not in self.labels:
            raise row.error(f"unknown label {value!r}; allowed: {', '.join(self.labels)}")
        return value

    def _score(self, row: Row) -> float | None:
        value = self._answer(row, self.columns.score)
        if value is None:
            return None
        low, high = self.span
        try:
            score = float(value)
        except ValueError:
            score = math.nan
        if not low <= score <= high or math.isinf(score):
            raise row.error(f"score {value!r} is not a number from {low:g} to {high:g}")
        return score


def tab_or_jsonl(
    headless: tuple[str, ...] = (), *, drop_ragged: bool = False
) -> Callable[[Path], Iterable[Row]]:
    """A reader of official TSV and of JSONL conversions.

    Args:
        headless: see `tsv_rows`.
        drop_ragged: see `tsv_rows`.
    """

    def rows(path: Path) -> Iterable[Row]:
        if suffix(path) == ".jsonl":
            return jsonl_rows(path)
        return tsv_rows(path, headless, drop_ragged=drop_ragged)

    return rows
