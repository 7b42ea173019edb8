"""Readers of tables: Parquet files, and datasets on the Hugging Face Hub.

They have the form of the readers in `lingraft.corpus.readers.documents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.extras import require
from lingraft.corpus.readers.lines import (
    BROKEN_UTF8,
    LINE_TOO_LONG,
    Reading,
    reading_errors,
)
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lingraft import recipe
    from lingraft.corpus.readers.documents import Row, Source

HUB_PREFIX = "hub:"
NO_TEXT_FIELD, NOT_WHERE = "no text field", "not what corpus.where asks for"
PARQUET_BATCH_ROWS = 256
KEPT_FIELDS = ("title", "revision", "url")
"""Fields of a row that stay with the document, where there are any."""


def meets(row: Mapping[str, Any], section: recipe.Corpus) -> bool:
    """Whether a row has the values that `corpus.where` asks for."""
    return all(str(row.get(field)) == value for field, value in (section.where or {}).items())


def no_column(source: Source, column: str, columns: Sequence[str]) -> DataError:
    """The error for rows without the field that should hold the text."""
    found = f"its fields are {', '.join(columns[:20])}" if columns else "a line must be an object"
    return DataError(
        f"{source.name}: no text in the field '{column}'; {found}; set corpus.text_column"
    )


def read_parquet(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A .parquet file: a row a document.

    Raises:
        DataError: the file is broken, has no such field, or pyarrow is not installed.
    """
    assert source.path is not None
    arrow = require("pyarrow", source.name, "data")
    parquet = require("pyarrow.parquet", source.name, "data")
    try:
        with reading_errors(source.path), parquet.ParquetFile(source.path) as file:
            columns = _parquet_columns(source, section, file.schema_arrow, arrow)
            for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=columns):
                yield from _parquet_rows(batch, section, reading, arrow)
    except (arrow.ArrowException, arrow.ArrowInvalid) as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{source.name}: broken Parquet data ({first}); nothing was kept; "
            "copy or download the file again"
        ) from None
    reading.bytes_read += source.path.stat().st_size


def _parquet_columns(source: Source, section: recipe.Corpus, schema: Any, arrow: Any) -> list[str]:
    if section.text_column not in schema.names:
        raise no_column(source, section.text_column, schema.names)
    kind = schema.field(section.text_column).type
    if arrow.types.is_dictionary(kind):
        kind = kind.value_type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise DataError(
            f"{source.name}: the field '{section.text_column}' holds {kind}, not strings; "
            "set corpus.text_column"
        )
    for field in section.where or ():
        if field not in schema.names:
            raise DataError(
                f"{source.name}: has no field '{field}', which corpus.where asks for; its fields "
                f"are {', '.join(schema.names[:20])}"
            )
    wanted = (section.text_column, section.id_column, *KEPT_FIELDS, *(section.where or ()))
    return [name for name in dict.fromkeys(wanted) if name in schema.names]


def _parquet_rows(
    batch: Any, section: recipe.Corpus, reading: Reading, arrow: Any
) -> Iterator[Row]:
    texts = batch.column(section.text_column)
    if arrow.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    # As bytes: Arrow does not check that strings are UTF-8.
    texts = texts.cast(arrow.large_binary()).to_pylist()
    named = section.id_column in batch.schema.names
    names = batch.column(section.id_column).to_pylist() if named else [None] * len(texts)
    beside = (*KEPT_FIELDS, *(section.where or ()))
    kept = [name for name in dict.fromkeys(beside) if name in batch.schema.names]
    rows = batch.select(kept).to_pylist() if kept else [{}] * len(texts)
    for name, data, row in zip(names, texts, rows, strict=True):
        if not meets(row, section):
            reading.drop(NOT_WHERE)
        elif data is None:
            reading.drop(NO_TEXT_FIELD)
        elif len(data) > section.max_line_bytes:
            reading.drop(LINE_TOO_LONG)
        else:
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                reading.drop(BROKEN_UTF8)
                continue
            yield name, text, facts(row)


def facts(row: Mapping[str, Any]) -> dict[str, str | int]:
    """What a row says about its document."""
    found = {name: row.get(name) for name in KEPT_FIELDS}
    return {name: value for name, value in found.items() if isinstance(value, str | int)}


def read_hub(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A dataset on the Hugging Face Hub (or a local directory laid out like one), streamed.

    Raises:
        DataError: the dataset cannot be read, has no such field, or datasets is not installed.
    """
    datasets = require("datasets", source.name, "data")
    name, _, config = source.name.removeprefix(HUB_PREFIX).partition(":")
    try:
        rows = iter(
            datasets.load_dataset(name, config or None, split=section.hub_split, streaming=True)
        )
    except Exception as error:
        raise _hub_error(source, error) from None
    first = True
    while True:
        # The library raises whatever its file systems, parsers and HTTP client raise.
        try:
            row = next(rows, None)
        except Exception as error:
            raise _hub_error(source, error) from None
        if row is None:
            return
        if first and section.text_column not in row:
            raise no_column(source, section.text_column, list(row))
        first = False
        text = row.get(section.text_column)
        if not meets(row, section):
            reading.drop(NOT_WHERE)
        elif not isinstance(text, str):
            reading.drop(NO_TEXT_FIELD)
        elif len(text) > section.max_line_bytes:
            reading.drop(LINE_TOO_LONG)
        else:
            reading.bytes_read += len(text.encode("utf-8", "surrogatepass"))
            yield row.get(section.id_column), text, facts(row)


def _hub_error(source: Source, error: Exception) -> DataError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DataError(
        f"{source.name}: the dataset cannot be read ({type(error).__name__}: {first}); "
        "check its name, configuration (hub:NAME:CONFIG), corpus.hub_split and your connection"
    )
