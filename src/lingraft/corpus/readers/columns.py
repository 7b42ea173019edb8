"""Readers of tables: Parquet files, and datasets on the Hugging Face Hub.

They have the form of the readers in `lingraft.corpus.readers.documents`.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import logging
import re
from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.corpus.readers.lines import (
    BROKEN_JSON,
    BROKEN_UTF8,
    EMPTY,
    LINE_TOO_LONG,
    Reading,
    json_value,
    reading_errors,
    text_lines,
)
from lingraft.errors import DataError
from lingraft.hub import check_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

HUB_PREFIX = "hub:"
NO_TEXT_FIELD, NOT_WHERE = "no text field", "not what corpus.where asks for"
PARQUET_BATCH_ROWS = 256
FIRST_ROWS = 1_000
"""Of which one must have the text."""
AS_LINES = "write one object a line (jq -c '.[]' makes them from an array)"
ARRAY = re.compile(r"\s*\[\s*(\{|$)")
KEPT_FIELDS = ("title", "revision", "url")
"""Fields of a row that stay with the document, where there are any."""
LANGUAGE_FIELDS = ("lang", "language")
"""Fields of a row that name its language, where there are any."""

logger = logging.getLogger(__name__)


def hub_parts(text: str) -> tuple[str, str | None, str | None, str]:
    """Return dataset, configuration, revision and split of a dataset on the Hub.

    Args:
        text: hub:NAME[:CONFIG][@REVISION][#SPLIT]; the revision is a branch, a tag or a commit, the
            split "train" if left out.

    Raises:
        DataError: one of them is empty.
    """
    whole, hash_sign, split = text.removeprefix(HUB_PREFIX).partition("#")
    rest, at, revision = whole.partition("@")
    name, _, config = rest.partition(":")
    if not name or (at and not revision) or (hash_sign and not split):
        raise DataError(
            f"{text}: name the dataset, for example hub:wikimedia/wikipedia:20231101.ko, and a "
            "revision behind an @ and a split behind a #, if any"
        )
    return name, config or None, revision or None, split or "train"


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the field of a row, or of one inside another ('a.b'); None where there is none."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_rows(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """Give the documents of a table: a row a document.

    Raises:
        DataError: the table is broken, has no such field in its rows, or a package is missing.
    """
    seen = good = 0
    fields: list[str] = []
    for value in ROWS[source.format](source, section, reading):
        row = value if isinstance(value, dict) else {}
        seen += 1
        fields = fields or list(row)
        good += row != {} and not _meets(row, section)  # is another stream's
        text = _wanted(row, section, reading)
        if text is not None:
            good += 1
            _tell_languages(row, source, reading)
            facts = {
                name: row[name] for name in KEPT_FIELDS if isinstance(row.get(name), str | int)
            }
            yield value_of(row, section.id_column), text, facts
        if seen == FIRST_ROWS and not good:
            break
    if seen and not good and not (source.span and source.span[0]):  # the first piece decides
        hint = f"its fields are {', '.join(fields[:20])}" if fields else "a line must be an object"
        raise DataError(
            f"{source.name}: no text in the field '{section.text_column}'; {hint}; "
            "set corpus.text_column"
        )


def _meets(row: Mapping[str, Any], section: recipe.Corpus) -> bool:
    """Tell whether a row has the values that `corpus.where` asks for; truth values as in JSON."""
    asked = (section.where or {}).items()
    found = ((str(value_of(row, name)), value_of(row, name), value) for name, value in asked)
    return all(
        value == text or (isinstance(own, bool) and value == text.lower())
        for text, own, value in found
    )


def _wanted(row: Mapping[str, Any], section: recipe.Corpus, reading: Reading) -> str | None:
    """Return the text of a row; None, and counted, if it is missing, too long or broken."""
    text = value_of(row, section.text_column)
    if row and not _meets(row, section):
        reading.drop(NOT_WHERE)
    elif not isinstance(text, str | bytes):
        reading.drop(NO_TEXT_FIELD, str(row))
    elif len(text) > section.max_line_bytes:
        reading.drop(LINE_TOO_LONG)
    else:
        try:
            return text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8, str(_decoded(text)))
    return None


def _tell_languages(row: Mapping[str, Any], source: Source, reading: Reading) -> None:
    """Warn, once, where rows that are read as text of one language name another."""
    for field in LANGUAGE_FIELDS:
        value, seen = row.get(field), reading.languages.setdefault(field, [])
        if len(seen) == 2 or not isinstance(value, str) or value in seen:
            continue
        seen.append(value)
        if len(seen) == 2:
            logger.warning(
                '%s: rows with %s = "%s" and "%s" are read as text of one language; '
                'corpus.where = {%s = "%s"} takes those of one',
                *(source.name, field, *seen, field, seen[0]),
            )


def _json_rows(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Any]:
    """Give the values of a .jsonl file, one a line."""
    assert source.path is not None
    begins = not source.span or source.span[0] == 0
    good = broken = 0
    for line in text_lines(source.path, section.max_line_bytes, reading, source.span):
        if not line or line.isspace():
            reading.drop(EMPTY)
            continue
        if begins and not (good or broken) and ARRAY.match(line):
            raise DataError(f"{source.name}: is one JSON array; {AS_LINES}")
        try:
            row = json_value(line)
        except (ValueError, RecursionError):
            reading.drop(BROKEN_JSON, line)
            broken += 1
        else:
            good += 1
            yield row
    if begins and broken and not good:
        raise DataError(f"{source.name}: none of its {broken:,} lines is JSON; {AS_LINES}")


@contextlib.contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """Open a .parquet file.

    Raises:
        DataError: the file is broken or unreadable, or pyarrow is not installed.
    """
    arrow = require("pyarrow", str(path), "data")
    parquet = require("pyarrow.parquet", str(path), "data")
    try:
        with reading_errors(path), parquet.ParquetFile(path) as file:
            yield file
    except arrow.ArrowException as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{path}: broken Parquet data ({first}); nothing was kept; "
            "copy or download the file again"
        ) from None


def _parquet_rows(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Any]:
    """Give the rows of a .parquet file, with the columns that are asked for.

    Strings are bytes where they may be damaged: Arrow does not check that they are UTF-8.
    """
    assert source.path is not None
    asked = (
        *(section.text_column, section.id_column),
        *(*KEPT_FIELDS, *LANGUAGE_FIELDS, *(section.where or ())),
    )
    with opened_parquet(source.path) as file:
        types = require("pyarrow.types", source.name, "data")
        names = dict.fromkeys(file.schema_arrow.names)
        columns = [
            name for name in names if name in {*asked, *(a.partition(".")[0] for a in asked)}
        ]
        if not {section.text_column, section.text_column.partition(".")[0]} & set(columns):
            yield names  # which has no text, and tells what there is
            return
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=columns):
            values = []
            for column in batch.columns:
                if types.is_dictionary(column.type):
                    column = column.dictionary_decode()
                if types.is_string(column.type) or types.is_large_string(column.type):
                    column = column.cast("large_binary")
                values.append(column.to_pylist())
            for cells in zip(*values, strict=True):
                row = dict(zip(batch.schema.names, cells, strict=True))
                yield {
                    name: value if name == section.text_column else _decoded(value)
                    for name, value in row.items()
                }


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _csv_rows(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Any]:
    """Give the rows of a .csv file, with the names of the fields in its first line.

    The fields are parted by what that line has most of: commas, semicolons or tabs.
    """
    assert source.path is not None
    lines = (f"{line}\n" for line in text_lines(source.path, section.max_line_bytes, reading))
    head = next(lines, "")
    csv.field_size_limit(max(csv.field_size_limit(), section.max_line_bytes))
    rows = csv.DictReader(
        itertools.chain([head], lines), delimiter=max(",;\t", key=head.count), strict=True
    )
    try:
        yield from rows
    except csv.Error as error:
        raise DataError(
            f"{source.name}: is no CSV in line {rows.line_num:,} ({error}); write it anew, or as "
            "JSON lines"
        ) from None


def _hub_rows(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Any]:
    """Give the rows of a dataset on the Hugging Face Hub, or of a directory laid out like one."""
    datasets = require("datasets", source.name, "data")
    name, config, revision, split = hub_parts(source.name)
    check_answers()
    try:
        yield from datasets.load_dataset(
            name, config, split=split, revision=revision, streaming=True
        )
    except Exception as error:  # whatever its file systems, parsers and HTTP client raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{source.name}: the dataset cannot be read ({type(error).__name__}: {first}); check "
            "its name, configuration, revision and split (hub:NAME:CONFIG@REVISION#SPLIT) and "
            "your connection"
        ) from None


ROWS: dict[str, Callable[[Source, recipe.Corpus, Reading], Iterator[Any]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
    "hub": _hub_rows,
}
"""Formats with a row a document, whose fields `corpus.where` can ask for."""
