"""KLUE-RE records: a sentence with a subject and an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.tasks.examples import Entity, RelationExample
from lingraft.tasks.reading import table_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lingraft.tasks.definition import Definition
    from lingraft.tasks.reading import Row


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Records of a JSON or JSONL file."""
    return table_rows(path)


def example(row: Row, definition: Definition) -> RelationExample:
    """The example of a record; `end_idx` of the files is the entity's last character.

    Raises:
        DataError: an entity is outside the sentence or is not the word that it says, the two
            overlap, or the relation is unknown.
    """
    text = row.text(["sentence"])
    subject, obj = _entity(row, "subject_entity", text), _entity(row, "object_entity", text)
    if subject.start < obj.end and obj.start < subject.end:
        raise row.error(
            f"subject {subject.start}–{subject.end} and object {obj.start}–{obj.end} overlap"
        )
    label = row.text(["label"])
    row.check_known("label", [label], definition.labels)
    return RelationExample(row.text(["guid"]), text, subject, obj, label)


def _entity(row: Row, name: str, text: str) -> Entity:
    value: Any = row.value([name])
    if not isinstance(value, dict) or not {"start_idx", "end_idx"} <= set(value):
        raise row.error(f"column {name!r} must be an object with 'start_idx' and 'end_idx'")
    start, last = row.whole([f"{name}.start_idx"]), row.whole([f"{name}.end_idx"])
    if not 0 <= start <= last < len(text):
        raise row.error(
            f"{name} {start}–{last} is outside the sentence, which has {len(text)} characters"
        )
    word = value.get("word")
    if word is not None and text[start : last + 1] != word:
        raise row.error(
            f"{name} is {word!r}, but the sentence has {text[start : last + 1]!r} there"
        )
    return Entity(start, last + 1, str(value.get("type", "")))
