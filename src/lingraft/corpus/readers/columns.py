"""Readers of tables: JSON lines, CSV, Parquet, and datasets on the Hugging Face Hub.

They have the form of the readers in `lingraft.corpus.readers.documents`.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import itertools
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers import lines
from lingraft.errors import DataError
from lingraft.optional import check_answers, require
from lingraft.recipe.streams import MODEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.readers.layout import Row, TextSource
    from lingraft.corpus.readers.lines import Counts

HUB_PREFIX = "hub:"
WRITTEN = 30_000
"""Tokens that a model writes where nobody says how many."""
NO_TEXT_FIELD, NOT_WHERE = "no text field", "not what corpus.where asks for"
MORE_CELLS = "more cells than the first line"
PARQUET_BATCH_ROWS = 256
FIRST_ROWS = 1_000
"""Number of rows of which one must have the text."""
MISSING = object()
ID = "id"
"""The field that names the document, where there is one."""


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


def model_parts(text: str) -> tuple[str, int]:
    """Return the model that writes a text, and how many tokens.

    Args:
        text: model:NAME[#TOKENS].

    Raises:
        DataError: no model, or no number.
    """
    name, hash_sign, tokens = text.removeprefix(MODEL_PREFIX).partition("#")
    if not name or (hash_sign and not (tokens.isdecimal() and int(tokens))):
        raise DataError(
            f"{text}: name the model, for example model:FacebookAI/roberta-base#100000, and how "
            f"many tokens it writes behind the #, if not {WRITTEN:,}"
        )
    return name, int(tokens or WRITTEN)


def value_of(row: Mapping[str, Any], name: str, missing: object = None) -> Any:
    """Return the field of a row, or of one inside another ('a.b'); else `missing`."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        if not isinstance(value, dict) or key not in value:
            return missing
        value = value[key]
    return value


def read_rows(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Row]:
    """Give the documents of a table: a row a document.

    Raises:
        DataError: the table is broken, has no such field in its rows, or a package is missing.
    """
    seen = good = named = 0
    before = reading.dropped[lines.BROKEN_JSON]
    fields: list[str] = []
    for value in ROWS[source.format](source, section, reading):
        row = value if isinstance(value, dict) else {}
        seen += 1
        fields = fields or list(row)
        text = value_of(row, section.text_column, MISSING)
        named += text is None
        if row and not _meets(row, section):
            good += 1  # another stream's
            reading.drop(NOT_WHERE)
        elif not isinstance(text, str):
            reading.drop(NO_TEXT_FIELD, str(row))
        elif len(text) > lines.MAX_LINE_BYTES:
            reading.drop(lines.LINE_TOO_LONG)
        else:
            good += 1
            yield row.get(ID), text
        if seen == FIRST_ROWS and not (good or named) and source.is_beginning:
            break  # else a part of a file, of which the first one decides
    is_table = seen or reading.dropped[lines.BROKEN_JSON] > before
    if is_table and not good and source.is_beginning and not (named and source.span):
        known = ", ".join(map(str, fields[:20])) or "none: a line must be one JSON object"
        raise DataError(
            f"{source.name}: no text in the field '{section.text_column}'; its fields are {known}; "
            "set corpus.text_column"
        )


def _meets(row: Mapping[str, Any], section: recipe.Corpus) -> bool:
    """Return whether a row has the values that `corpus.where` asks for; booleans as in JSON."""
    found = ((value_of(row, name), value) for name, value in (section.where or {}).items())
    return all(
        value == str(own) or (isinstance(own, bool) and value == str(own).lower())
        for own, value in found
    )


def _json_rows(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Any]:
    """Give the values of a .jsonl file, one a line."""
    if source.is_beginning:  # before its lines, of which an array may be one that is too long
        with lines.reading_errors(source.file), lines.opened(source.file) as stream:
            head = stream.peek(lines.HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
        if head.lstrip().startswith(b"["):
            raise DataError(f"{source.name}: is one array; write one object a line (jq -c '.[]')")
    for line in lines.text_lines(source.file, reading, source.span):
        if not line or line.isspace():
            reading.drop(lines.EMPTY)
            continue
        try:
            row = lines.json_value(line)
        except (ValueError, RecursionError):
            reading.drop(lines.BROKEN_JSON, line)
        else:
            yield row


@contextlib.contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """Open a .parquet file.

    Raises:
        DataError: the file is broken or unreadable, or pyarrow is not installed.
    """
    arrow = require("pyarrow", str(path), "data")
    parquet = require("pyarrow.parquet", str(path), "data")
    try:
        with lines.reading_errors(path), parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise DataError(
            f"{path}: broken Parquet data ({first}); copy or download the file again"
        ) from None


def _parquet_rows(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Any]:
    """Give the rows of a .parquet file, with the columns that are asked for."""
    asked = {section.text_column, ID, *(section.where or ())}
    asked |= {name.partition(".")[0] for name in asked}
    with opened_parquet(source.file) as file:
        names = list(dict.fromkeys(file.schema_arrow.names))
        if not {section.text_column, section.text_column.partition(".")[0]} & set(names):
            yield dict.fromkeys(names)  # which has no text, and tells what there is
            return
        columns = [name for name in names if name in asked]
        for batch in file.iter_batches(PARQUET_BATCH_ROWS, columns=columns):
            yield from batch.to_pylist()


def _csv_rows(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Any]:
    """Give the rows of a .csv file, with the names of the fields in its first line."""
    rest = (f"{line}\n" for line in lines.text_lines(source.file, reading))
    head = next(rest, "")
    csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES))
    lined = itertools.chain([head], rest)
    rows = csv.DictReader(lined, delimiter=lines.delimiter_of(head), strict=True)
    more = good = 0
    try:
        for row in rows:
            if any(row.pop(None, ())):  # cells behind those of the first line
                reading.drop(MORE_CELLS)
                more += 1
            else:
                good += 1
                yield row
    except csv.Error as error:
        raise DataError(
            f"{source.name}: is no CSV in line {rows.line_num:,} ({error}); write it anew, or as "
            "JSON lines"
        ) from None
    if more > good:
        raise DataError(
            f"{source.name}: {more:,} of its {more + good:,} lines have more cells than the first "
            "one; put texts with commas in quotation marks, or write the file anew as JSON lines"
        )


def _hub_rows(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Any]:
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
            "hub:NAME:CONFIG@REVISION#SPLIT and your connection"
        ) from None


ROWS: dict[str, Callable[[TextSource, recipe.Corpus, Counts], Iterator[Any]]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
    "hub": _hub_rows,
}
"""Formats with a row a document, whose fields `corpus.where` can ask for."""
