"""Sentences and translations that measure: nothing is repaired or left out. No torch here.

A line that is no sentence, or no pair of them, is an error that names its place. Files may be
packed (.gz .xz .bz2 .zst) and are read a line at a time.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lingraft.corpus.readers.lines import raw_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

LONGEST_LINE = 1 << 40
"""Bytes: a file of JSON may be one line."""
Pair = tuple[str, str]
"""Ids of two sentences that translate each other."""


class Translation(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    where: str
    """File and line, for messages."""


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or packed, one at a time.

    Raises:
        DataError: it cannot be read, or a line is not UTF-8.
    """
    for number, line in enumerate(raw_lines(path, LONGEST_LINE), 1):
        try:
            yield (line or b"").decode()
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {number:,}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
            ) from None


def translations(paths: Sequence[Path]) -> Iterator[Translation]:
    """Yield pairs of sentences.

    Args:
        paths: two files, line n of one translating line n of the other; or a table of two columns.

    Raises:
        DataError: a file cannot be read, there is no pair or half of one, or a sentence is empty.
    """
    rows = (line.split("\t") for line in lines(paths[0]))
    number = 0
    for number, cells in enumerate(rows if len(paths) == 1 else zip_longest(*map(lines, paths)), 1):
        if None in cells:
            counts = [sum(1 for _ in lines(path)) for path in paths]
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}; line n of "
                "one must translate line n of the other"
            )
        where = f"{paths[0]}: line {number:,}"
        _check_two(cells, where, "a sentence TAB its translation")
        for path, text in zip((paths[0], paths[-1]), cells, strict=True):
            check_filled(text, f"{path}: line {number:,}")
        yield Translation(cells[0], cells[1], where)
    if not number:
        raise DataError(f"{paths[-1]}: holds no pairs of sentences")


def _check_two(cells: Sequence[str], where: str, wanted: str) -> None:
    if len(cells) != 2:
        raise DataError(f"{where}: has {len(cells)} columns; two are wanted, {wanted}")


def check_filled(text: str | Sequence[str], where: str) -> None:
    """Refuse a sentence of nothing or of spaces.

    Raises:
        DataError: it is one.
    """
    if not (text.strip() if isinstance(text, str) else text):
        raise DataError(f"{where}: the sentence is empty; leave the line out on both sides")


def with_ids(path: Path, *, bare: bool = False) -> dict[str, str]:
    """Return sentences by id, `id TAB sentence` a line as in BUCC.

    Args:
        path: the file.
        bare: it may hold sentences alone; these are numbered from 1.

    Raises:
        DataError: the file is broken or empty, a sentence is empty, or an id is there twice.
    """
    cells = [line.split("\t") for line in lines(path)]
    if bare and {len(row) for row in cells} == {1}:
        cells = [[str(number), row[0]] for number, row in enumerate(cells, 1)]
    sentences: dict[str, str] = {}
    for number, row in enumerate(cells, 1):
        where = f"{path}: line {number:,}"
        _check_two(row, where, "id TAB sentence")
        check_filled(row[1], where)
        if row[0] in sentences:
            raise DataError(f"{where}: the id '{row[0]}' stands there twice")
        sentences[row[0]] = row[1]
    if not sentences:
        raise DataError(f"{path}: is empty; give a sentence a line, or id TAB sentence")
    return sentences


def gold_pairs(path: Path, source: Collection[str], target: Collection[str]) -> frozenset[Pair]:
    """Return the pairs that are to be found, `source id TAB target id` a line.

    Args:
        path: the file.
        source: ids that the first column may name.
        target: ids that the second column may name.

    Raises:
        DataError: the file is broken or empty, or names a sentence that is not there.
    """
    pairs = set()
    for number, line in enumerate(lines(path), 1):
        where, cells = f"{path}: line {number:,}", line.split("\t")
        _check_two(cells, where, "source id TAB target id")
        if cells[0] not in source or cells[1] not in target:
            raise DataError(f"{where}: no sentences have the ids '{cells[0]}' and '{cells[1]}'")
        pairs.add((cells[0], cells[1]))
    if not pairs:
        raise DataError(f"{path}: holds no pairs")
    return frozenset(pairs)
