"""Texts, pairs of texts, translations, and questions about passages as in SQuAD."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import kind
from lingraft.tasks.examples import Answer, SpanExample, TextExample, TranslationExample
from lingraft.tasks.reading import MISSING, FileRow, json_document, jsonl_rows, table_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lingraft.tasks.definition import Definition

HIDDEN = {"-1", "-1.0", ""}
"""Signs of a hidden answer (the Hub's GLUE has -1)."""


def rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read rows of a CSV, TSV, TXT, JSON or JSONL file."""
    return table_rows(path, definition.header, drop_ragged=definition.drop_ragged)


def example(row: FileRow, definition: Definition) -> TextExample:
    """Make the example of a row.

    Raises:
        DataError: a column is missing, or the label or score is none of the task's.
    """
    columns = definition.columns
    paired = definition.kind == "pair" or definition.has_pair
    scored = definition.kind == "regression"
    label = None if scored else label_of(row, definition)
    if label is not None:
        row.check_known("label", [label], definition.labels)
    return TextExample(
        id=row.identifier(columns.id),
        text=row.text(columns.text),
        pair=row.text(columns.pair) if paired else None,
        label=label,
        score=_score(row, definition) if scored else None,
    )


def translation(row: FileRow, definition: Definition) -> TranslationExample:
    """Make the pair of a row, which may have a direction of its own.

    Raises:
        DataError: a column is missing, or a side is empty.
    """
    columns = definition.columns
    text, other = (row.text(names).strip() for names in (columns.text, columns.pair))
    if not text or not other:
        raise row.error("a side is empty; leave such pairs out of the file")
    identifier = row.identifier(columns.id)
    found = [row.find(names) for names in (columns.text_code, columns.pair_code)]
    first, second = ("" if code in (MISSING, None) else str(code) for code in found)
    codes = (first, second) if first or second else None
    return TranslationExample(identifier, text, other, definition.language, codes)


def _answer(row: FileRow, definition: Definition, names: tuple[str, ...]) -> str | None:
    """Return an answer as text; None where it is hidden, which `Task.read` allows or not."""
    may_be_hidden = bool(definition.folders or definition.hidden)
    value = row.find(names) if may_be_hidden else row.value(names)
    if value is None or value is MISSING or value != value:  # NaN is not itself
        return None
    answer = str(value).strip()  # in CSV made by hand, ' yes' is no label beside 'yes'
    is_hidden = may_be_hidden and answer in HIDDEN and answer not in definition.labels
    return None if is_hidden or not answer else answer


def label_of(row: FileRow, definition: Definition) -> str | None:
    """Return the label of a row, whichever it is; None where there is none."""
    value = _answer(row, definition, definition.columns.label)
    return None if value is None else definition.aliases.get(value, value)


def _score(row: FileRow, definition: Definition) -> float | None:
    value = _answer(row, definition, definition.columns.score)
    if value is None:
        return None
    low, high = definition.score_range or (-math.inf, math.inf)
    if not low <= (score := float(value)) <= high or math.isinf(score):
        raise row.error(f"score {value!r} is not a number from {low:g} to {high:g}")
    return score


def span_rows(path: Path, definition: Definition) -> Iterable[FileRow]:
    """Read questions of a SQuAD-like JSON file, or of JSONL with a question a line."""
    return jsonl_rows(path) if kind(path) == ".jsonl" else _questions(path)


def _questions(path: Path) -> Iterator[FileRow]:
    number = 0
    for i, entry in enumerate(json_document(path)["data"], 1):
        for j, paragraph in enumerate(entry["paragraphs"], 1):
            for k, question in enumerate(paragraph["qas"], 1):
                where = f"{path}: data {i}, paragraph {j}, question {k}"
                yield FileRow(where, number, {**question, "context": paragraph["context"]})
                number += 1


def span(row: FileRow, definition: Definition) -> SpanExample:
    """Make the example of a question; plausible answers of unanswerable ones are not answers.

    Raises:
        DataError: an answer is not in the passage where it says it is.
    """
    context = row.text(["context"])
    return SpanExample(
        id=row.text(["guid", "id"]),
        question=row.text(["question"]),
        context=context,
        answers=_spans(row, context, may_hide=bool(definition.folders)),
        question_type=row.values.get("question_type"),
    )


def _spans(row: FileRow, context: str, *, may_hide: bool) -> tuple[Answer, ...] | None:
    """Return the gold answers; None where a benchmark's copy has empty ones (XTREME's)."""
    if row.values.get("is_impossible") is True:
        return ()
    given: Any = row.value(["answers"])
    if isinstance(given, dict):  # the Hub's columns: a list of texts and one of starts
        answers = [Answer(*pair) for pair in zip(given["text"], given["answer_start"], strict=True)]
    else:
        answers = [Answer(answer["text"], answer["answer_start"]) for answer in given]
    if may_hide and answers and not any(answer.text for answer in answers):
        return None
    for answer in answers:
        found = context[answer.start : answer.end] if answer.start >= 0 else ""
        if not answer.text or found != answer.text:
            raise row.error(
                f"answer {answer.text!r:.40} is not at {answer.start} of the passage, which has "
                f"{found!r:.40} there"
            )
    return tuple(answers)
