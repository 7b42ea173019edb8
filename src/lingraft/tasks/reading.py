"""Rows of benchmark files in their makers' formats, and of plain JSONL; every error has a place.

Benchmark TSV is read without quoting: a quotation mark is text. (With quoting, rows of KorSTS
silently merge: 5,703 of 5,749 remain.) CSV, which only users' own tasks have, is read with it.
Cells stay text: a label may be called NA, 1e5 or 007.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import logging
import lzma
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

COMPRESSED = {".gz": gzip.decompress, ".xz": lzma.decompress}
TABLES = (".jsonl", ".json", ".tsv", ".txt", ".csv")
MISSING = object()
NO_ANSWERS = '; of a test set without answers the task says hidden = ["test"]'
"""What a task of the user's own may have forgotten to say."""


def no_examples(where: object, task: str) -> DataError:
    """Return the error of a file or place without an example."""
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

    def value(self, names: Sequence[str], advice: str = "") -> Any:
        """Return the value under the first of the names that is there.

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


def file_text(path: Path) -> str:
    """Return the whole text of a plain, gzip or xz file, line ends made plain, without its mark.

    Raises:
        DataError: it cannot be read, or is not UTF-8 (UTF-16 with a mark, as Excel writes it, is).
    """
    try:
        data = path.read_bytes()
        if path.suffix in COMPRESSED:
            data = COMPRESSED[path.suffix](data)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path}: is cut short or damaged ({error}); get it again") from None
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8"
        ) from None
    return text.replace("\r\n", "\n")


def file_lines(path: Path) -> list[str]:
    """Return lines without ends; only a line feed ends a line (texts hold U+2028 and the like)."""
    return file_text(path).removesuffix("\n").split("\n")


def suffix(path: Path) -> str:
    """Return the suffix without the compression's: `.jsonl` of `dev.jsonl.xz`."""
    name = path.name.lower()
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return "." + name.rpartition(".")[2] if "." in name else ""


def _parse_json(text: str, path: Path, line: int | None = None) -> Any:
    try:
        value = json.loads(text)
        # A tokenizer takes no half of a surrogate pair, which JSON can write.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        at = line or getattr(error, "lineno", None)
        where = f"{path}: line {at}" if at else str(path)
        raise DataError(f"{where}: broken JSON: {getattr(error, 'msg', error)}") from None
    return value


def jsonl_rows(path: Path, lines: Iterable[str] | None = None) -> Iterator[Row]:
    """Read one JSON object a line; empty lines are passed over.

    Args:
        path: the file.
        lines: its lines, where they are not all to be in memory.

    Raises:
        DataError: a line is not a JSON object.
    """
    number = 0
    for line_number, line in enumerate(file_lines(path) if lines is None else lines, 1):
        if line.strip():
            values = _parse_json(line, path, line_number)
            yield _row(values, f"{path}: line {line_number}", number)
            number += 1


def json_document(path: Path) -> Any:
    """Return what a file of one JSON value holds.

    Raises:
        DataError: it is not JSON.
    """
    return _parse_json(file_text(path), path)


def json_rows(path: Path) -> Iterator[Row]:
    """Read a JSON list of objects, or an object whose `data` is one.

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
        raise DataError(f"{where}: is {values!r:.60}; it must be a JSON object")
    return Row(where, number, values)


def table_rows(
    path: Path, headless: Sequence[Sequence[str]] = (), *, drop_ragged: bool = False
) -> Iterator[Row]:
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
    kind = suffix(path)
    if kind not in TABLES:
        raise DataError(
            f"{path}: unknown kind of file; allowed: {' '.join(TABLES)} (also with .gz .xz)"
        )
    if kind in (".jsonl", ".json"):
        return jsonl_rows(path) if kind == ".jsonl" else json_rows(path)
    return _named_cells(path, _cells(path, quoted=kind == ".csv"), headless, drop_ragged)


def _cells(path: Path, *, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of every line that is not empty; CSV may be parted by semicolons."""
    if not quoted:
        for number, line in enumerate(file_lines(path), 1):
            if line.strip():
                yield number, line.split("\t")
        return
    text = file_text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a field may be a whole book
    head = text.partition("\n")[0]
    parted_by = ";" if ";" in head and "," not in head else ","
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=parted_by)
    try:
        for cells in filter(None, reader):
            yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{path}: line {reader.line_num}: broken CSV: {error}") from None


def _named_cells(
    path: Path,
    table: Iterator[tuple[int, list[str]]],
    headless: Sequence[Sequence[str]],
    drop_ragged: bool,
) -> Iterator[Row]:
    lines = list(table)
    first = lines[0][1] if lines else []
    names: Sequence[str] = next((one for one in headless if len(one) == len(first)), first)
    if not headless or set(first) & {name for header in headless for name in header}:
        names, lines = first, lines[1:]
        for name in filter(None, names):
            if names.count(name) > 1:  # else the later one would win
                raise DataError(f"{path}: line 1: column {name!r} is there twice; rename one")
    elif names is first:
        names = headless[0]
    good = [(line, cells) for line, cells in lines if len(cells) == len(names)]
    if len(good) < len(lines) and not drop_ragged:
        line, cells = next(one for one in lines if len(one[1]) != len(names))
        raise DataError(
            f"{path}: line {line}: has {len(cells)} columns, the header {len(names)}"
            + ("" if suffix(path) == ".csv" else "; part them with single tabs, without quoting")
        )
    if len(good) < len(lines):
        ragged = len(lines) - len(good)
        logger.warning("%s: %d rows with a wrong number of columns are left out", path, ragged)
    for number, (line, cells) in enumerate(good):
        yield Row(f"{path}: line {line}", number, dict(zip(names, cells, strict=True)))


def blocks(
    path: Path, gap: Callable[[str], bool]
) -> Iterator[tuple[tuple[int, str], list[tuple[int, str]]]]:
    """Read stretches of lines between gaps, such as the words of a sentence, a word a line.

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
