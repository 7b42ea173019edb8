"""KLUE-RE records: a sentence with a subject and an object (SPEC B.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.tasks.examples import Entity, RelationExample

if TYPE_CHECKING:
    from lingraft.tasks.reading import Row

RELATIONS = (
    "no_relation",
    "org:dissolved",
    "org:founded",
    "org:place_of_headquarters",
    "org:alternate_names",
    "org:member_of",
    "org:members",
    "org:political/religious_affiliation",
    "org:product",
    "org:founded_by",
    "org:top_members/employees",
    "org:number_of_employees/members",
    "per:date_of_birth",
    "per:date_of_death",
    "per:place_of_birth",
    "per:place_of_death",
    "per:place_of_residence",
    "per:origin",
    "per:employee_of",
    "per:schools_attended",
    "per:alternate_names",
    "per:parents",
    "per:children",
    "per:siblings",
    "per:spouse",
    "per:other_family",
    "per:colleagues",
    "per:product",
    "per:religion",
    "per:title",
)
"""The order of `relation_list.json`."""


def example(row: Row) -> RelationExample:
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
    if label not in RELATIONS:
        raise row.error(f"unknown label {label!r}; allowed: {', '.join(RELATIONS)}")
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
