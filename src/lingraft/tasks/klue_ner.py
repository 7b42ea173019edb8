"""KLUE-NER files: one character a line with its tag, the space among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.reading import Row, blocks, jsonl_rows, named, suffix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft.tasks.definition import Definition


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Sentences of an official TSV file or of a JSONL conversion.

    Raises:
        DataError: a line is not a character and a tag.
    """
    return jsonl_rows(path) if suffix(path) == ".jsonl" else _sentences(path, definition.labels)


def _sentences(path: Path, labels: Sequence[str]) -> Iterator[Row]:
    """Sentences: `## id <tab> annotated text`, then `character <tab> tag` lines, then a gap.

    A character may itself be `#`, so only a line that starts with two is a comment.
    """

    def gap(line: str) -> bool:
        return line.startswith("##") or not line.strip("\t")

    for number, ((start, header), lines) in enumerate(blocks(path, gap)):
        characters, tags = [], []
        for line_number, line in lines:
            cells = line.split("\t")
            where = f"{path}: line {line_number}"
            if len(cells) != 2 or len(cells[0]) != 1:
                raise DataError(
                    f"{where}: is {line[:40]!r}; it must be one character, a tab and its tag"
                )
            if labels and cells[1] not in labels:
                raise DataError(f"{where}: unknown tag {cells[1]!r}; allowed: {', '.join(labels)}")
            characters.append(cells[0])
            tags.append(cells[1])
        values = {"chars": characters, "tags": tags, **named(header)}
        yield Row(f"{path}: line {start}", number, values)


def example(row: Row, definition: Definition) -> TaggedExample:
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
    row.check_known("tag", tags, definition.labels)
    return TaggedExample(row.identifier(["guid"]), characters, tags, characters=True)
