"""Readers of tables: Parquet files, and datasets on the Hugging Face Hub.

They have the form of the readers in `lingraft.corpus.readers.documents`.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import logging
from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.corpus.readers.lines import (
    BROKEN_UTF8,
    LINE_TOO_LONG,
    Reading,
    reading_errors,
    text_lines,
)
from lingraft.errors import DataError
from lingraft.hub import check_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

HUB_PREFIX = "hub:"
NO_TEXT_FIELD, NOT_WHERE = "no text field", "not what corpus.where asks for"
PARQUET_BATCH_ROWS = 256
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


def meets(row: Mapping[str, Any], section: recipe.Corpus) -> bool:
    """Whether a row has the values that `corpus.where` asks for."""
    return all(
        value in _spelt(value_of(row, field)) for field, value in (section.where or {}).items()
    )


def _spelt(value: Any) -> tuple[str, ...]:
    """How a value may be written: truth values as in JSON too, where they are small."""
    return (str(value), str(value).lower()) if isinstance(value, bool) else (str(value),)


def no_column(source: Source, column: str, columns: Sequence[str]) -> DataError:
    """The error for rows without the field that should hold the text."""
    hint = f"its fields are {', '.join(columns[:20])}" if columns else "a line must be an object"
    return DataError(
        f"{source.name}: no text in the field '{column}'; {hint}; set corpus.text_column"
    )


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


def read_parquet(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A .parquet file: a row a document.

    Raises:
        DataError: the file is broken, has no such field, or pyarrow is not installed.
    """
    assert source.path is not None
    with opened_parquet(source.path) as file:
        arrow = require("pyarrow", source.name, "data")
        columns = _parquet_columns(source, section, file.schema_arrow, arrow)
        beside = [name for name in columns if name != section.text_column]
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=columns):
            texts = _values(batch, section.text_column)
            values = [map(_decoded, _values(batch, name)) for name in beside]
            rows = zip(*values, strict=True) if beside else [()] * len(texts)
            for value, cells in zip(texts, rows, strict=True):
                row = dict(zip(beside, cells, strict=True))
                text = _wanted(value, row, section, reading)
                if text is not None:
                    yield found(text, row, source, section, reading)
    reading.bytes_read += source.path.stat().st_size


def _values(batch: Any, name: str) -> list[Any]:
    """Return a column; strings as bytes, since Arrow does not check that they are UTF-8."""
    arrow = require("pyarrow", name, "data")
    compute = require("pyarrow.compute", name, "data")
    if name in batch.schema.names:
        column = batch.column(name)
    else:
        root, *inside = name.split(".")
        column = compute.struct_field(batch.column(root), inside)
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
        column = column.cast(arrow.large_binary())
    values: list[Any] = column.to_pylist()
    return values


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _wanted(
    text: Any, row: Mapping[str, Any], section: recipe.Corpus, reading: Reading
) -> str | None:
    """The text of a row; None, and counted, if it is not asked for, missing, too long or broken."""
    if not meets(row, section):
        reading.drop(NOT_WHERE)
    elif not isinstance(text, str | bytes):
        reading.drop(NO_TEXT_FIELD, str(row))
    elif len(text) > section.max_line_bytes:
        reading.drop(LINE_TOO_LONG)
    else:
        try:
            return text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError:
            reading.drop(BROKEN_UTF8, _decoded(text))
    return None


def _parquet_columns(source: Source, section: recipe.Corpus, schema: Any, arrow: Any) -> list[str]:
    """Return the columns to read: the text, and of what else is asked for those that there are.

    Raises:
        DataError: there is no text, it is of another type, or what corpus.where asks for is not
            there.
    """
    kinds = {field.name: field.type for field in schema}
    asked = (section.text_column, section.id_column, *KEPT_FIELDS, *(section.where or ()))
    for name in (name for name in asked if name not in kinds and "." in name):
        root, *inside = name.split(".")
        kind = kinds.get(root)
        for key in inside:
            is_there = arrow.types.is_struct(kind) and kind.get_field_index(key) >= 0
            kind = kind.field(key).type if is_there else None
        if kind is not None:
            kinds[name] = kind
    kind = kinds.get(section.text_column)
    if kind is None:
        raise no_column(source, section.text_column, schema.names)
    kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise DataError(
            f"{source.name}: the field '{section.text_column}' holds {kind}, not strings; "
            "set corpus.text_column"
        )
    for field in section.where or ():
        if field not in kinds:
            raise DataError(
                f"{source.name}: has no field '{field}', which corpus.where asks for; its fields "
                f"are {', '.join(schema.names[:20])}"
            )
    return [name for name in dict.fromkeys((*asked, *LANGUAGE_FIELDS)) if name in kinds]


def found(
    text: str, row: Mapping[str, Any], source: Source, section: recipe.Corpus, reading: Reading
) -> Row:
    """Return the document of a row; its language is looked at, since all rows are read as one."""
    _tell_languages(row, source, reading)
    values = ((name, row.get(name)) for name in KEPT_FIELDS)
    facts = {name: value for name, value in values if isinstance(value, str | int)}
    return value_of(row, section.id_column), text, facts


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


def read_csv(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A .csv file: a row a document, with the names of the fields in its first line.

    The fields are parted by what that line has most of: commas, semicolons or tabs.

    Raises:
        DataError: the file is broken, is no CSV or has no such field.
    """
    assert source.path is not None
    lines = (f"{line}\n" for line in text_lines(source.path, section.max_line_bytes, reading))
    head = next(lines, "")
    csv.field_size_limit(max(csv.field_size_limit(), section.max_line_bytes))
    rows = csv.DictReader(
        itertools.chain([head], lines), delimiter=max(",;\t", key=head.count), strict=True
    )
    try:
        fields = list(rows.fieldnames or ())
        if head and section.text_column not in fields:
            raise no_column(source, section.text_column, fields)
        for row in rows:
            text = _wanted(row.get(section.text_column), row, section, reading)
            if text is not None:
                yield found(text, row, source, section, reading)
    except csv.Error as error:
        raise DataError(
            f"{source.name}: is no CSV in line {rows.line_num:,} ({error}); write it anew, or as "
            "JSON lines"
        ) from None


def read_hub(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A dataset on the Hugging Face Hub (or a local directory laid out like one), streamed.

    Raises:
        DataError: the dataset cannot be read, has no such field, or datasets is not installed.
    """
    for number, row in enumerate(_streamed(source)):
        text = value_of(row, section.text_column)
        if not number and text is None and section.text_column not in row:
            raise no_column(source, section.text_column, list(row))
        text = _wanted(text, row, section, reading)
        if text is not None:
            reading.bytes_read += len(text.encode("utf-8", "surrogatepass"))
            yield found(text, row, source, section, reading)


def _streamed(source: Source) -> Iterator[dict[str, Any]]:
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
