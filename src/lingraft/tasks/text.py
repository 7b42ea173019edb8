"""Texts and pairs of texts out of the rows of tables and JSONL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.tasks.examples import TextExample
from lingraft.tasks.reading import MISSING, NO_ANSWERS, table_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lingraft.tasks.definition import Definition
    from lingraft.tasks.reading import Row

HIDDEN = {"-1", "-1.0", ""}
"""What stands for a hidden answer (the Hub's GLUE has -1)."""


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Rows of a CSV, TSV, TXT, JSON or JSONL file."""
    return table_rows(path, definition.header, drop_ragged=definition.drop_ragged)


def example(row: Row, definition: Definition) -> TextExample:
    """The example of a row.

    Raises:
        DataError: a column is missing, or the label or score is none of the task's.
    """
    columns = definition.columns
    paired = definition.kind == "pair" or definition.has_pair
    scored = definition.kind == "regression"
    return TextExample(
        id=row.identifier(columns.id),
        text=row.text(columns.text),
        pair=row.text(columns.pair) if paired else None,
        label=None if scored else _label(row, definition),
        score=_score(row, definition) if scored else None,
    )


def _answer(row: Row, definition: Definition, names: tuple[str, ...]) -> str | None:
    """An answer as text; None where it is hidden, which `Task.read` allows or not."""
    may_be_hidden = bool(definition.folders or definition.hidden)
    value = row.find(names)
    if value is MISSING and not may_be_hidden:
        row.value(names, NO_ANSWERS)
    if value is None or value is MISSING or value != value:  # NaN is not itself
        return None
    if isinstance(value, list | dict):
        raise row.error(f"its answer is {value!r:.60}; it must be one label, or one number")
    answer = str(value).strip()  # in CSV made by hand, ' yes' is no label beside 'yes'
    is_hidden = may_be_hidden and answer in HIDDEN and answer not in definition.labels
    return None if is_hidden or not answer else answer


def _label(row: Row, definition: Definition) -> str | None:
    label = label_of(row, definition)
    if label is not None:
        row.check_known("label", [label], definition.labels)
    return label


def label_of(row: Row, definition: Definition) -> str | None:
    """The label of a row, whichever it is; None where there is none."""
    value = _answer(row, definition, definition.columns.label)
    return None if value is None else definition.aliases.get(value, value)


def _score(row: Row, definition: Definition) -> float | None:
    value = _answer(row, definition, definition.columns.score)
    if value is None:
        return None
    low, high = definition.score_range or (-math.inf, math.inf)
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not low <= score <= high or math.isinf(score):
        allowed = f" from {low:g} to {high:g}" if definition.score_range else ""
        raise row.error(f"score {value!r} is not a number{allowed}")
    return score


def labels_of(row: Row, definition: Definition) -> Iterable[str]:
    """The labels of a row: of words each one's tag.

    Raises:
        DataError: it has none.
    """
    columns, tags = definition.columns, definition.kind == "tagging"
    labels = row.strings(columns.tags) if tags else (label_of(row, definition) or "",)
    if "" in labels:
        unless = " (-1 is none, unless labels names it)" if definition.hidden else ""
        raise row.error(f"has no answer{unless}")
    return labels
