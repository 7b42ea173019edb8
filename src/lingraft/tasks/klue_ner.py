"""KLUE-NER files: one character a line with its tag, the space among them (SPEC B.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.reading import Row, file_lines, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

TAGS = (
    *(f"{prefix}-{kind}" for kind in ("PS", "LC", "OG", "DT", "TI", "QT") for prefix in "BI"),
    "O",
)
"""In the order of the reference's outputs."""


def rows(path: Path) -> Iterable[Row]:
    """Sentences of an official TSV file or of a JSONL conversion.

    Raises:
        DataError: a line is not a character and a tag.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _blocks(path)


def _blocks(path: Path) -> Iterator[Row]:
    """Sentences: `## id <tab> annotated text`, then `character <tab> tag` lines, then a gap.

    A character may itself be `#`, so only a line that starts with two is a comment.
    """
    number = 0
    guid = ""
    start = 1
    characters: list[str] = []
    tags: list[str] = []
    for line_number, line in enumerate([*file_lines(path), ""], 1):
        row = Row(f"{path}: line {line_number}", number, {})
        cells = line.split("\t")
        if line.startswith("##") or not line.strip("\t"):
            if characters:
                yield Row(
                    f"{path}: line {start}",
                    number,
                    {"guid": guid or str(number), "chars": characters, "tags": tags},
                )
                number += 1
                characters, tags, guid = [], [], ""
            if line.startswith("##") and len(cells) == 2:
                guid, start = cells[0].removeprefix("##").strip(), line_number
            continue
        if len(cells) != 2 or len(cells[0]) != 1:
            raise row.error(f"is {line[:40]!r}; it must be one character, a tab and its tag")
        if cells[1] not in TAGS:
            raise row.error(f"unknown tag {cells[1]!r}; allowed: {', '.join(TAGS)}")
        characters.append(cells[0])
        tags.append(cells[1])


def example(row: Row) -> TaggedExample:
    """The example of a sentence.

    Raises:
        DataError: characters and tags do not match, or a tag is none of KLUE's.
    """
    characters, tags = row.strings(["chars"]), row.strings(["tags"])
    if len(characters) != len(tags):
        raise row.error(f"has {len(characters)} characters and {len(tags)} tags")
    if not characters:
        raise row.error("has no characters")
    for character in characters:
        if len(character) != 1:
            raise row.error(f"{character!r} is not one character")
    for tag in tags:
        if tag not in TAGS:
            raise row.error(f"unknown tag {tag!r}; allowed: {', '.join(TAGS)}")
    return TaggedExample(row.identifier(["guid"]), characters, tags, characters=True)
