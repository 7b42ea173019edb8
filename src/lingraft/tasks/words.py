"""Words with a tag each: JSONL, or CoNLL."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks.examples import TaggedExample
from lingraft.tasks.reading import MISSING, Row, blocks, jsonl_rows, suffix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from lingraft.tasks.columns import Columns
    from lingraft.tasks.definition import Definition

ENDS = " \t\r"
"""What may stand around a line; other spaces, such as U+00A0, belong to words."""


def rows(path: Path, definition: Definition) -> Iterable[Row]:
    """Sentences of a JSONL file, or of CoNLL: a word a line, its tag last, gaps between sentences.

    Raises:
        DataError: a line has a word and no tag, or the file is CoNLL-U.
    """
    if suffix(path) == ".jsonl":
        return jsonl_rows(path)
    if suffix(path) == ".conllu":
        raise DataError(f'{path}: is CoNLL-U; the task needs format = "universal-dependencies"')
    sentences = _conll(path, definition.columns, may_hide=bool(definition.folders))
    return _without_prefix(sentences, definition) if definition.prefix else sentences


def _without_prefix(rows: Iterable[Row], definition: Definition) -> Iterable[Row]:
    """Words without the language before them, if all words of the file have it."""
    rows, name, prefix = list(rows), definition.columns.words[0], definition.prefix
    if not all(word.startswith(prefix) for row in rows for word in row.values[name]):
        return rows
    return [
        Row(row.where, row.number, {**row.values, name: [
            word.removeprefix(prefix).strip() for word in row.values[name]
        ]})
        for row in rows
    ]  # fmt: skip


def _conll(path: Path, columns: Columns, *, may_hide: bool) -> Iterator[Row]:
    """Columns are separated by tabs, or by spaces in lines without a tab; no line is a comment.

    Sentences of words alone have no tags where a benchmark hides them.
    """

    def gap(line: str) -> bool:
        return not line.strip(ENDS) or line.startswith("-DOCSTART-")

    for number, (_, lines) in enumerate(blocks(path, gap)):
        table = [
            line.split("\t") if "\t" in line else re.split(" +", line.strip(ENDS))
            for _, line in lines
        ]
        if may_hide and all(len(cells) == 1 for cells in table):
            values = {columns.words[0]: [word for (word,) in table]}
            yield Row(f"{path}: line {lines[0][0]}", number, values)
            continue
        words, tags = [], []
        for (line_number, line), cells in zip(lines, table, strict=True):
            if len(cells) < 2:
                raise DataError(
                    f"{path}: line {line_number}: is {line[:40]!r}; it must be word and tag"
                )
            words.append(cells[0])
            tags.append(cells[-1].strip(ENDS))
        values = {columns.words[0]: words, columns.tags[0]: tags}
        yield Row(f"{path}: line {lines[0][0]}", number, values)


def example(row: Row, definition: Definition) -> TaggedExample:
    """The example of a sentence.

    Raises:
        DataError: words and tags differ in number, or a tag is none of the task's.
    """
    columns = definition.columns
    words = row.strings(columns.words)
    if definition.folders and row.find(columns.tags) is MISSING:
        return TaggedExample(row.identifier(columns.id), words, None)
    tags = row.strings(columns.tags)
    if len(words) != len(tags) or not words:
        raise row.error(f"has {len(words)} words and {len(tags)} tags; the numbers must be equal")
    row.check_known("label", tags, definition.labels)
    return TaggedExample(row.identifier(columns.id), words, tags)


def are_entities(labels: Collection[str], tagged: Iterable[Sequence[str]] = ()) -> bool:
    """Whether tags are IOB2: O, B-X, and I-X where there is B-X.

    Args:
        labels: all tags.
        tagged: sentences, in which I-X follows B-X or I-X (in IOB1, B-X parts names that touch).
    """
    begun = {label[2:] for label in labels if re.fullmatch("B-.+", label)}
    rest = (label for label in labels if label != "O" and not label.startswith("B-"))
    return all(label.startswith("I-") and label[2:] in begun for label in rest) and not any(
        tag.startswith("I-") and tag[2:] != before[2:]
        for tags in tagged
        for before, tag in pairwise(("O", *tags))
    )


def known(count: int, room: int) -> bool:
    """Whether a word of so many tokens is read as it is; else the unknown token stands for it."""
    return 0 < count <= room


def pieces(counts: Sequence[int], room: int) -> list[range]:
    """A sentence cut between words so that every piece fits (XTREME's rule).

    Args:
        counts: tokens of each word; one that is not `known` counts as one token.
        room: tokens of a piece, without special ones.

    Returns:
        The words of each piece; all words, in order.
    """
    ranges, start, filled = [], 0, 0
    for word, count in enumerate(counts):
        size = count if known(count, room) else 1
        if filled + size > room and word > start:
            ranges.append(range(start, word))
            start, filled = word, 0
        filled += size
    return [*ranges, range(start, len(counts))]
