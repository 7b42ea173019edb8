"""Rows of benchmark files in their makers' formats, and of plain JSONL; every error has a place.

Benchmark TSV is read without quoting: a quotation mark is text. (With quoting, rows of KorSTS
silently merge: 5,703 of 5,749 remain.) CSV, which only users' own tasks have, is read with it.
Cells stay text: a label may be called NA, 1e5 or 007.
"""

from __future__ import annotations

import contextlib
import csv
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers.lines import json_value, kind, raw_lines
from lingraft.errors import DataError, LingraftError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


LONGEST_LINE = 1 << 40
"""Bytes: a file of JSON may be one line."""


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


logger = logging.getLogger(__name__)

MISSING = object()


@dataclass(frozen=True, slots=True)
class FileRow:
    """Record of a file, and where it stands there."""

    where: str
    """File and line, or file and element."""
    number: int
    """0-based, among the file's records; the id of records that have none."""
    values: Mapping[str, Any]

    def find(self, names: Sequence[str]) -> Any:
        """Return the value under the first of the names that is there, or MISSING.

        A name with a dot looks inside a nested object: `labels.real-label`.
        """
        for name in names:
            value: Any = self.values.get(name, MISSING)
            if value is MISSING and "." in name:
                outer, _, inner = name.partition(".")
                nested = self.values.get(outer)
                value = nested.get(inner, MISSING) if isinstance(nested, dict) else MISSING
            if value is not MISSING:
                return value
        return MISSING

    def value(self, names: Sequence[str]) -> Any:
        """Return the value under the first of the names that is there.

        Raises:
            DataError: there is none.
        """
        value = self.find(names)
        if value is MISSING:
            here = ", ".join(map(repr, self.values))
            raise self.error(f"no column {' or '.join(map(repr, names))}; it has {here}")
        return value

    def text(self, names: Sequence[str]) -> str:
        """Return a string; numbers are written out.

        Raises:
            DataError: there is none, or it is neither a string nor a number.
        """
        value = self.value(names)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
            raise self.error(f"column {names[0]!r} is {value!r:.60}; it must be text")
        return str(value)

    def identifier(self, names: Sequence[str]) -> str:
        """Return the record's own id, or its number where it has none."""
        value = self.find(names)
        lacks = value is MISSING or value is None or value != value
        return str(self.number if lacks else value)

    def strings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return a list of strings.

        Raises:
            DataError: it is none.
        """
        values = self.value(names)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.error(f"column {names[0]!r} is {values!r:.60}; it must be a list of strings")
        return tuple(values)

    def check_known(self, kind: str, values: Iterable[str], allowed: Collection[str]) -> None:
        """Refuse a label that the task does not have; `kind` says what it is.

        Raises:
            DataError: there is one.
        """
        for value in values:
            if value not in allowed:
                raise self.error(f"unknown {kind} {value!r}; allowed: {', '.join(allowed)}")

    def error(self, problem: str) -> DataError:
        """Return an error that names the place."""
        return DataError(f"{self.where}: {problem}")


@contextlib.contextmanager
def placed(where: str) -> Iterator[None]:
    """Name the place of whatever a file's unexpected content raises, on one line.

    Raises:
        DataError: in place of Python's own errors.
    """
    try:
        yield
    except LingraftError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise DataError(f"{where}: is not as the task's files are ({error!r})") from None


def _parse_json(text: str, where: str) -> Any:
    try:
        return json_value(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: broken JSON: {error}") from None


def jsonl_rows(path: Path) -> Iterator[FileRow]:
    """Read one JSON object a line, a line at a time; empty lines are passed over.

    Raises:
        DataError: a line is not a JSON object.
    """
    number = 0
    for line_number, line in enumerate(lines(path), 1):
        if line.strip():
            where = f"{path}: line {line_number}"
            yield _row(_parse_json(line, where), where, number)
            number += 1


def json_document(path: Path) -> Any:
    """Return the value of a file of one JSON value.

    Raises:
        DataError: it is not JSON.
    """
    return _parse_json("\n".join(lines(path)), str(path))


def json_rows(path: Path) -> Iterator[FileRow]:
    """Read a JSON list of objects, or an object whose `data` is one."""
    document = json_document(path)
    rows = document["data"] if isinstance(document, dict) else document
    for number, values in enumerate(rows):
        yield _row(values, f"{path}: element {number + 1}", number)


def _row(values: Any, where: str, number: int) -> FileRow:
    if not isinstance(values, dict):
        raise DataError(f"{where}: is {values!r:.60}; it must be a JSON object")
    return FileRow(where, number, values)


def table_rows(
    path: Path, headless: Sequence[Sequence[str]] = (), *, drop_ragged: bool = False
) -> Iterator[FileRow]:
    """Read a JSONL, JSON, TSV, TXT (tabs, without quoting) or CSV file, by its suffix.

    Args:
        path: the file.
        headless: the columns' names where the file may lack a header; it has one if its first line
            holds one of these names. Of several lists the one as long as the first line counts.
        drop_ragged: leave out rows with another number of columns than the header (GLUE's QQP has
            some) and say how many, instead of stopping.

    Raises:
        DataError: the suffix is another one, or the file is broken.
    """
    readers: dict[str, Callable[[Path], Any]] = {
        ".jsonl": jsonl_rows, ".json": json_rows, ".tsv": _tabbed, ".txt": _tabbed, ".csv": _quoted,
    }  # fmt: skip
    if kind(path) not in readers:
        raise DataError(f"{path}: unknown kind of file; allowed: {' '.join(readers)}")
    rows = readers[kind(path)](path)
    if kind(path) in (".jsonl", ".json"):
        yield from rows
    else:
        yield from _named_cells(path, list(rows), headless, drop_ragged)


def _tabbed(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of every line that is not empty."""
    for number, line in enumerate(lines(path), 1):
        if line.strip():
            yield number, line.split("\t")


def _quoted(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(1 << 30)  # a cell may hold a document
    reader = csv.reader((f"{line}\n" for line in lines(path)), strict=True)
    try:
        for cells in filter(None, reader):
            yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: broken CSV: {error}") from None


def _named_cells(
    path: Path,
    table: list[tuple[int, list[str]]],
    headless: Sequence[Sequence[str]],
    drop_ragged: bool,
) -> Iterator[FileRow]:
    first = table[0][1] if table else []
    if not headless or set(first) & {name for header in headless for name in header}:
        names: Sequence[str] = first
        table = table[1:]
    else:
        names = next((header for header in headless if len(header) == len(first)), headless[0])
    if twice := {name for name in names if name and names.count(name) > 1}:  # else the later wins
        raise DataError(f"{path}: line 1: column {min(twice)!r} is there twice; rename one")
    good = [(line, cells) for line, cells in table if len(cells) == len(names)]
    if ragged := [line for line, cells in table if len(cells) != len(names)]:
        problem = f"rows with another number of columns than the header's {len(names)}"
        if not drop_ragged:
            raise DataError(f"{path}: line {ragged[0]}: {problem}: {len(ragged):,} in all")
        logger.warning("%s: %s are left out: %d", path, problem, len(ragged))
    for number, (line, cells) in enumerate(good):
        yield FileRow(f"{path}: line {line}", number, dict(zip(names, cells, strict=True)))


def blocks(path: Path, gap: Callable[[str], bool]) -> Iterator[tuple[tuple[int, str], list[str]]]:
    """Read stretches of lines between gaps, such as the words of a sentence, a word a line.

    Args:
        path: the file.
        gap: whether a line is no part of a stretch.

    Yields:
        The number of the stretch's first line and the last line of the gap before it that is not
        empty, else ""; and the lines.
    """
    header, start = "", 0
    stretch: list[str] = []
    for number, line in enumerate([*lines(path), ""], 1):
        if not gap(line):
            start = start if stretch else number
            stretch.append(line)
            continue
        if stretch:
            yield (start, header), stretch
            header, stretch = "", []
        header = line if line.strip() else header
