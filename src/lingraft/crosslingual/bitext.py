"""Sentence pairs in words: two text files side by side, a table, or JSON lines. No torch here."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import Reading, kind, raw_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LONGEST_LINE = 10_000_000
"""Bytes."""
SIDES = (("src", "source"), ("tgt", "trg", "target"))
"""Fields of JSON lines: source and target."""
WHOLE = (".tsv", ".jsonl")
"""Kinds of files that hold both sides."""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, in words."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    where: str
    """File and line, for messages."""


def grouped(paths: Sequence[Path]) -> list[tuple[Path, ...]]:
    """Files as the texts that they are: a .tsv or .jsonl alone, others two by two.

    Raises:
        DataError: a text has no second side.
    """
    found: list[tuple[Path, ...]] = []
    single: Path | None = None
    for path in paths:
        if single is not None:
            found.append((single, path))
            single = None
        elif kind(path) in WHOLE:
            found.append((path,))
        else:
            single = path
    if single is not None:
        raise DataError(
            f"{single}: has no second side; give two text files, source and target, or one .tsv "
            "or .jsonl with both"
        )
    return found


def read(paths: Sequence[Path]) -> Iterator[Pair]:
    """The sentence pairs of one text, words cut at white space.

    Args:
        paths: two files with a sentence a line; or one, `source TAB target` (.tsv) or JSON lines
            with `src` and `tgt`, each a string or a list of words. Also .gz, .xz, .bz2, .zst.

    Raises:
        DataError: a file cannot be read, a sentence is empty, or the sides differ in length.
    """
    if len(paths) == 2:
        return _side_by_side(*paths)
    return _rows(paths[0]) if kind(paths[0]) == ".jsonl" else _columns(paths[0])


def _side_by_side(source: Path, target: Path) -> Iterator[Pair]:
    sides = zip_longest(lines(source), lines(target))
    for number, (left, right) in enumerate(sides, 1):
        if left is None or right is None:
            counts = [sum(1 for _ in lines(path)) for path in (source, target)]
            raise DataError(
                f"{source} has {counts[0]:,} lines and {target} has {counts[1]:,}; line n of one "
                "must translate line n of the other"
            )
        where = (f"{source}: line {number}", f"{target}: line {number}")
        yield _pair(left.split(), right.split(), where)


def _columns(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(lines(path), 1):
        where, cells = f"{path}: line {number}", line.split("\t")
        if len(cells) != 2:
            raise DataError(f"{where}: has {len(cells)} columns; two are wanted, source TAB target")
        yield _pair(cells[0].split(), cells[1].split(), (where, where))


def _rows(path: Path) -> Iterator[Pair]:
    for where, row in json_rows(path):
        yield pair_of(row, where)


def pair_of(row: dict[str, Any], where: str) -> Pair:
    """The sentence pair of a row of JSON lines.

    Raises:
        DataError: a side is missing, empty or no text.
    """
    return _pair(_words(row, SIDES[0], where), _words(row, SIDES[1], where), (where, where))


def _words(row: dict[str, Any], names: Sequence[str], where: str) -> list[str]:
    value = next((row[name] for name in names if name in row), None)
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        if any(not word or any(map(str.isspace, word)) for word in value):
            raise DataError(
                f"{where}: a word of '{names[0]}' is empty or holds a space, so links could not "
                "be written by words; correct it"
            )
        return value
    raise DataError(
        f"{where}: '{names[0]}' must hold a sentence, as a string or a list of words; "
        f"it has {', '.join(map(repr, row)) or 'no fields'}"
    )


def _pair(source: list[str], target: list[str], where: tuple[str, str]) -> Pair:
    for words, place in ((source, where[0]), (target, where[1])):
        if not words:
            raise DataError(
                f"{place}: the sentence is empty, so nothing in it can be aligned; leave the "
                "line out on both sides"
            )
    return Pair(tuple(source), tuple(target), where[0])


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or compressed, one at a time.

    Raises:
        DataError: it cannot be read, or a line is not UTF-8 or longer than `LONGEST_LINE`.
    """
    for number, line in enumerate(raw_lines(path, LONGEST_LINE, Reading()), 1):
        if line is None:
            raise DataError(
                f"{path}: line {number}: is longer than {LONGEST_LINE:,} bytes; a sentence a line "
                "is wanted"
            )
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {number}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
            ) from None


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of JSON lines, each with file and line; blank lines are passed over.

    Raises:
        DataError: a line is not a JSON object.
    """
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            where, row = f"{path}: line {number}", None
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
            if not isinstance(row, dict):
                raise DataError(f"{where}: is no JSON object; write one a line")
            yield where, row
