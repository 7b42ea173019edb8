"""Sentences and translations that measure: nothing is repaired or left out. No torch here.

A line that is no sentence, or no pair of them, is an error that names its place. Files may be
packed (.gz .xz .zst .bz2) and are read a line at a time.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from lingraft.corpus.readers.lines import EMPTY, raw_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

LONGEST_LINE = 10_000_000
"""Bytes."""
Pair = tuple[str, str]
"""The ids of two sentences that translate each other."""


class Translation(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str
    where: str
    """File and line, for messages."""


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or packed, one at a time.

    Raises:
        DataError: it cannot be read, or a line is not UTF-8 or longer than `LONGEST_LINE`.
    """
    for number, line in enumerate(raw_lines(path, LONGEST_LINE), 1):
        if line is None:
            raise DataError(
                f"{path}: line {number:,}: is longer than {LONGEST_LINE:,} bytes; a sentence a "
                "line is wanted"
            )
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {number:,}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
            ) from None


def translations(paths: Sequence[Path]) -> Iterator[Translation]:
    """Pairs of sentences.

    Args:
        paths: two files, line n of one translating line n of the other; or a table of two columns.

    Raises:
        DataError: a file cannot be read, there is no pair or half of one, or a sentence is empty.
    """
    number = 0
    for number, cells in enumerate(_cells(paths), 1):
        where = f"{paths[0]}: line {number:,}"
        _check_two(cells, where, "two are wanted, a sentence TAB its translation")
        for side, text in enumerate(cells):
            place = f"{paths[-1] if side else paths[0]}: line {number:,}"
            check_filled(text, place if len(paths) == 2 else f"{place}, column {side + 1}")
        yield Translation(cells[0], cells[1], where)
    if not number:
        raise DataError(f"{paths[-1]}: holds no pairs of sentences")


def _cells(paths: Sequence[Path]) -> Iterator[Sequence[str]]:
    if len(paths) == 1:
        yield from (line.split("\t") for line in lines(paths[0]))
        return
    for left, right in zip_longest(*map(lines, paths)):
        if left is None or right is None:
            counts = [sum(1 for _ in lines(path)) for path in paths]
            raise DataError(
                f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}; line n of "
                "one must translate line n of the other"
            )
        yield left, right


def _check_two(cells: Sequence[str], where: str, advice: str) -> None:
    if len(cells) != 2:
        raise DataError(f"{where}: has {len(cells)} column{'s'[: len(cells) != 1]}; {advice}")


def check_filled(
    text: str | Sequence[str], where: str, mend: str = "leave the line out on both sides"
) -> None:
    """Refuse a sentence of nothing or of spaces.

    Raises:
        DataError: it is one.
    """
    if not (text.strip() if isinstance(text, str) else text):
        raise DataError(f"{where}: the sentence is empty; {mend}")


def with_ids(path: Path, *, bare: bool = False) -> dict[str, str]:
    """Sentences by id, `id TAB sentence` a line as in BUCC.

    Args:
        path: the file.
        bare: it may hold sentences alone; these are numbered from 1.

    Raises:
        DataError: the file is broken or empty, a sentence is empty, or an id is there twice.
    """
    cells = [line.split("\t") for line in lines(path)]
    if not cells:
        raise DataError(f"{path}: is {EMPTY}; give a sentence a line, or id TAB sentence")
    if bare and {len(row) for row in cells} == {1}:
        cells = [[str(number), row[0]] for number, row in enumerate(cells, 1)]
    sentences: dict[str, str] = {}
    for number, row in enumerate(cells, 1):
        where = f"{path}: line {number:,}"
        more = ", or sentences alone" if bare else ""
        _check_two(row, where, f"write id TAB sentence on every line{more}")
        check_filled(row[1], where, "take it out")
        if row[0] in sentences:
            raise DataError(f"{where}: the id '{row[0]}' stands there twice")
        sentences[row[0]] = row[1]
    return sentences


def gold_pairs(
    path: Path, source: tuple[Path, Collection[str]], target: tuple[Path, Collection[str]]
) -> frozenset[Pair]:
    """The pairs that are to be found, `source id TAB target id` a line.

    Args:
        path: the file.
        source: the file that the first column names sentences of, and its ids.
        target: of the second column.

    Raises:
        DataError: the file is broken or empty, or names a sentence that is not there.
    """
    pairs = set()
    for number, line in enumerate(lines(path), 1):
        where, cells = f"{path}: line {number:,}", line.split("\t")
        _check_two(cells, where, "write source id TAB target id")
        for name, (file, ids) in zip(cells, (source, target), strict=True):
            if name not in ids:
                raise DataError(
                    f"{where}: the id '{name}' is not in {file}; the gold pairs belong to other "
                    "files, or their columns are the other way round"
                )
        pairs.add((cells[0], cells[1]))
    if not pairs:
        raise DataError(f"{path}: holds no pairs")
    return frozenset(pairs)
