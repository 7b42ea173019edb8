"""KLUE-MRC and SQuAD-like files: passages, questions about them, answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.tasks.examples import Answer, SpanExample
from lingraft.tasks.reading import Row, json_document, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lingraft.tasks.definition import Definition


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Questions of a SQuAD-like JSON file, or of JSONL with a question a line.

    Raises:
        DataError: the file is not nested as SQuAD's are.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _questions(path)


def _questions(path: Path) -> Iterator[Row]:
    document = json_document(path)
    number = 0
    for i, entry in enumerate(_list(document, "data", f"{path}"), 1):
        where = f"{path}: data {i}"
        for j, paragraph in enumerate(_list(entry, "paragraphs", where), 1):
            inside = f"{where}, paragraph {j}"
            questions = _list(paragraph, "qas", inside)
            if "context" not in paragraph:
                raise DataError(f"{inside}: no column 'context'")
            for k, question in enumerate(questions, 1):
                if not isinstance(question, dict):
                    raise DataError(f"{inside}, question {k}: must be a JSON object")
                values = {**question, "context": paragraph["context"]}
                yield Row(f"{inside}, question {k}", number, values)
                number += 1


def _list(value: Any, name: str, where: str) -> list[Any]:
    items = value.get(name) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise DataError(f"{where}: must be a JSON object with a list {name!r}")
    return items


def example(row: Row, definition: Definition) -> SpanExample:
    """The example of a question; plausible answers of unanswerable questions are not answers.

    Raises:
        DataError: an answer is not in the passage where it says it is, or an answerable question
            has none.
    """
    context = row.text(["context"])
    kind = row.values.get("question_type")
    if kind is not None and kind not in (1, 2, 3):
        raise row.error(f"question_type is {kind!r}; it must be 1, 2 or 3")
    return SpanExample(
        id=row.text(["guid", "id"]),
        question=row.text(["question"]),
        context=context,
        answers=_answers(row, context, may_hide=bool(definition.folders)),
        question_type=kind,
    )


def _answers(row: Row, context: str, *, may_hide: bool) -> tuple[Answer, ...] | None:
    """The gold answers; None where a benchmark's copy has empty ones in their place (XTREME's)."""
    impossible = row.values.get("is_impossible")
    if impossible not in (None, True, False):
        raise row.error(f"is_impossible is {impossible!r:.30}; it must be true or false")
    if impossible:
        return ()
    given = row.value(["answers"])
    try:
        if isinstance(given, dict):  # the Hub's columns: a list of texts and one of starts
            pairs = list(zip(given["text"], given["answer_start"], strict=True))
        else:
            pairs = [(answer["text"], answer["answer_start"]) for answer in given]
        if not all(isinstance(text, str) and isinstance(start, int) for text, start in pairs):
            raise TypeError
    except (TypeError, KeyError, ValueError):
        raise row.error(
            "'answers' must be objects with a string 'text' and a number 'answer_start', or an "
            "object with as many of both"
        ) from None
    if not pairs and impossible is False:
        raise row.error("has no answer, but is_impossible is false")
    if may_hide and pairs and not any(text for text, _ in pairs):
        return None
    for text, start in pairs:
        found = context[start : start + len(text)] if start >= 0 else ""
        if not text or found != text:
            raise row.error(
                f"answer {text[:30]!r} is not at {start}: the passage, which has {len(context)} "
                f"characters, has {found[:30]!r} there"
            )
    return tuple(Answer(text, start) for text, start in pairs)
