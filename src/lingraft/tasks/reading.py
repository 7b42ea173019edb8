"""Rows of benchmark files in their makers' formats, and of plain JSONL; every error has a place.

Benchmark TSV is read without quoting: a quotation mark is text. (With quoting, rows of KorSTS
silently merge: 5,703 of 5,749 remain.) CSV, which only users' own tasks have, is read with it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import lzma
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

COMPRESSED = {".gz": gzip.decompress, ".xz": lzma.decompress}
MISSING = object()
NO_ANSWERS = '; of a test set without answers the task says hidden = ["test"]'
"""What a task of the user's own may have forgotten to say."""


def no_examples(where: object, task: str) -> DataError:
    """The error of a file or place without an example."""
    return DataError(f"{where}: holds no examples for {task}; is it the right file?")


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file, and where it stands there."""

    where: str
    """File and line, or file and element."""
    number: int
    """0-based, among the file's records; the id of records that have none."""
    values: Mapping[str, Any]

    def find(self, names: Sequence[str]) -> Any:
        """The value under the first of the names that is there, or MISSING.

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

    def value(self, names: Sequence[str], advice: str = "") -> Any:
        """The value under the first of the names that is there.

        Args:
            names: of the column.
            advice: what the error ends in.

        Raises:
            DataError: there is none.
        """
        value = self.find(names)
        if value is MISSING:
            raise self.error(
                f"no column {' or '.join(map(repr, names))}; "
                f"it has {', '.join(map(repr, self.values)) or 'none'}{advice}"
            )
        return value

    def text(self, names: Sequence[str]) -> str:
        """A string; numbers are written out.

        Raises:
            DataError: there is none, or it is neither a string nor a number.
        """
        value = self.value(names)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
            raise self.error(f"column {names[0]!r} is {_short(value)}; it must be text")
        return str(value)

    def identifier(self, names: Sequence[str]) -> str:
        """The record's own id, or its number where it has none."""
        value = self.find(names)
        lacks = value is MISSING or value is None or value != value
        return str(self.number if lacks else value)

    def whole(self, names: Sequence[str]) -> int:
        """A whole number, or a string that writes one.

        Raises:
            DataError: it is not.
        """
        value = self.value(names)
        try:
            if isinstance(value, bool | float):
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise self.error(
                f"column {names[0]!r} is {_short(value)}; it must be a whole number"
            ) from None

    def list(self, names: Sequence[str]) -> list[Any]:
        """A list.

        Raises:
            DataError: it is not.
        """
        value = self.value(names)
        if not isinstance(value, list):
            raise self.error(f"column {names[0]!r} is {_short(value)}; it must be a list")
        return value

    def strings(self, names: Sequence[str]) -> tuple[str, ...]:
        """A list of strings.

        Raises:
            DataError: it is not.
        """
        values = self.list(names)
        for value in values:
            if not isinstance(value, str):
                raise self.error(f"column {names[0]!r} holds {_short(value)}; it must hold strings")
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
        """An error that names the place."""
        return DataError(f"{self.where}: {problem}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def file_text(path: Path) -> str:
    """The whole text of a plain, gzip or xz file, line ends made plain, without a byte-order mark.

    Raises:
        DataError: it cannot be read, or is not UTF-8.
    """
    try:
        data = path.read_bytes()
        if path.suffix in COMPRESSED:
            data = COMPRESSED[path.suffix](data)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: is cut short or damaged ({error}); get it again") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
        ) from None
    return text.replace("\r\n", "\n")


def file_lines(path: Path) -> list[str]:
    """Lines without their ends; only a line feed ends a line (texts hold U+2028 and the like)."""
    lines = file_text(path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def suffix(path: Path) -> str:
    """The suffix without the compression's: `.jsonl` of `dev.jsonl.xz`."""
    name = path.name.lower()
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return "." + name.rpartition(".")[2] if "." in name else ""


def _parse_json(text: str, path: Path, line: int | None = None) -> Any:
    where = f"{path}: line {line}" if line is not None else str(path)
    try:
        value = json.loads(text)
        # A tokenizer takes no half of a surrogate pair, which JSON can write.
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        at = error.lineno if line is None else line
        raise DataError(
            f"{path}: line {at}: broken JSON: {error.msg} at column {error.colno}"
        ) from None
    except UnicodeEncodeError as error:
        half = str(error.object)[error.start]
        raise DataError(
            f"{where}: holds {half!r}, half of a surrogate pair and no character; "
            "write the character or leave it out"
        ) from None
    except RecursionError:
        raise DataError(f"{where}: is nested too deep; write plain records") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise DataError(f"{where}: holds a number of thousands of digits; correct it") from None
    return value


def jsonl_rows(path: Path, lines: Iterable[str] | None = None) -> Iterator[Row]:
    """One JSON object a line; empty lines are passed over.

    Args:
        path: the file.
        lines: its lines, where they are not all to be in memory.

    Raises:
        DataError: a line is not a JSON object.
    """
    number = 0
    for line_number, line in enumerate(file_lines(path) if lines is None else lines, 1):
        if not line.strip():
            continue
        yield _row(_parse_json(line, path, line_number), f"{path}: line {line_number}", number)
        number += 1


def json_document(path: Path) -> Any:
    """What a file of one JSON value holds.

    Raises:
        DataError: it is not JSON.
    """
    return _parse_json(file_text(path), path)


def json_rows(path: Path) -> Iterator[Row]:
    """A JSON list of objects, or an object whose `data` is one.

    Raises:
        DataError: it is something else.
    """
    document = json_document(path)
    if isinstance(document, dict):
        document = document.get("data")
    if not isinstance(document, list):
        raise DataError(f"{path}: must be a JSON list of objects, or an object with a list 'data'")
    for number, values in enumerate(document):
        yield _row(values, f"{path}: element {number + 1}", number)


def _row(values: Any, where: str, number: int) -> Row:
    if not isinstance(values, dict):
        raise DataError(f"{where}: is {_short(values)}; it must be a JSON object")
    return Row(where, number, values)


def tsv_rows(
    path: Path, headless: Sequence[Sequence[str]] = (), *, drop_ragged: bool = False
) -> Iterator[Row]:
    """Rows of a table separated by tabs, without quoting.

    Args:
        path: the file.
        headless: the columns' names where the file may lack a header; it has one if its first line
            holds one of these names. Of several lists the one as long as the first line counts.
        drop_ragged: leave out rows with another number of columns than the header (GLUE's QQP has
            some) and say how many, instead of stopping.

    Raises:
        DataError: a row has too many or too few columns.
    """
    lines = file_lines(path)
    first = lines[0].split("\t") if lines else []
    start = 0
    names = next(
        (header for header in headless if len(header) == len(first)), next(iter(headless), ())
    )
    if first and (not headless or set(first) & {name for header in headless for name in header}):
        names, start = first, 1
        _check_distinct(path, first)
    number = dropped = 0
    for line_number, line in enumerate(lines[start:], start + 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(names):
            if drop_ragged:
                dropped += 1
                continue
            raise DataError(
                f"{path}: line {line_number}: has {len(cells)} columns, "
                f"the header {len(names)}; separate them with single tabs, without quoting"
            )
        yield Row(f"{path}: line {line_number}", number, dict(zip(names, cells, strict=True)))
        number += 1
    if dropped:
        logger.warning("%s: %d rows with a wrong number of columns are left out", path, dropped)


def blocks(
    path: Path, gap: Callable[[str], bool]
) -> Iterator[tuple[tuple[int, str], list[tuple[int, str]]]]:
    """Stretches of lines between gaps, such as the words of a sentence, a word a line.

    Args:
        path: the file.
        gap: whether a line is no part of a stretch.

    Yields:
        The last line of the gap before it that is not empty, with its number (else the number of
        the stretch's first line and ""), and the lines with theirs.
    """
    header: tuple[int, str] | None = None
    lines: list[tuple[int, str]] = []
    for number, line in enumerate([*file_lines(path), ""], 1):
        if not gap(line):
            lines.append((number, line))
            continue
        if lines:
            yield header or (lines[0][0], ""), lines
            header, lines = None, []
        if line.strip():
            header = (number, line)


def named(header: str) -> dict[str, str]:
    """The column guid that KLUE's `## id <tab> text` stands for; nothing where that has no id."""
    guid, *text = header.removeprefix("##").split("\t")
    return {"guid": guid.strip()} if len(text) == 1 and guid.strip() else {}


def _check_distinct(path: Path, names: Sequence[str]) -> None:
    """Refuse a header of which the later one of two columns would win; unnamed ones pass."""
    for name in filter(None, names):
        if names.count(name) > 1:
            raise DataError(f"{path}: line 1: column {name!r} is there twice; rename one")


def csv_rows(path: Path) -> Iterator[Row]:
    """Rows of a CSV file with a header and the usual quoting.

    Raises:
        DataError: a row has too many or too few columns.
    """
    text = file_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a field may be a whole book
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(reader, [])
        _check_distinct(path, names)
        for number, cells in enumerate(cell for cell in reader if cell):
            where = f"{path}: line {reader.line_num}"
            if len(cells) != len(names):
                raise DataError(f"{where}: has {len(cells)} columns, the header {len(names)}")
            yield Row(where, number, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: broken CSV: {error}") from None


def table_rows(
    path: Path, headless: Sequence[Sequence[str]] = (), *, drop_ragged: bool = False
) -> Iterator[Row]:
    """Rows of a JSONL, JSON, TSV, TXT (tabs) or CSV file, by its suffix.

    Args:
        path: the file.
        headless: see `tsv_rows`.
        drop_ragged: see `tsv_rows`.

    Raises:
        DataError: the suffix is another one, or the file is broken.
    """
    tabs = partial(tsv_rows, headless=headless, drop_ragged=drop_ragged)
    readers: dict[str, Callable[[Path], Iterator[Row]]] = {
        ".jsonl": jsonl_rows,
        ".json": json_rows,
        ".tsv": tabs,
        ".txt": tabs,
        ".csv": csv_rows,
    }
    if suffix(path) not in readers:
        raise DataError(
            f"{path}: unknown kind of file; allowed: {' '.join(readers)} (also with .gz .xz)"
        )
    return readers[suffix(path)](path)
