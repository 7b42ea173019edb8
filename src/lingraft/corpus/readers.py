"""Documents out of files, directories and Hub datasets, streamed.

A reader yields `Document`s and counts in a `Reading` what it leaves out. Reading one more format
is one function here and one line in `FORMATS`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.corpus.lines import (
    BROKEN_UTF8,
    COMPRESSED,
    EMPTY,
    LINE_TOO_LONG,
    Reading,
    reading_errors,
    require,
    text_lines,
)
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lingraft import recipe

logger = logging.getLogger(__name__)

HUB_PREFIX = "hub:"
BROKEN_JSON = "broken JSON"
NO_TEXT_FIELD = "no text field"
MAX_DOCUMENT_CHARACTERS = 100_000_000
PARQUET_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    Attributes:
        id: its name: that of the id column, or else a hash of its text.
        text: as it was read; lines end in any way that `str.splitlines` knows.
    """

    id: str
    text: str


@dataclass(frozen=True)
class Source:
    """One thing to read: a file, or a Hub dataset (then `path` is None).

    Attributes:
        name: as the user knows it.
        path: the file.
    """

    name: str
    path: Path | None

    @property
    def format(self) -> str:
        """The suffix without the compression's, or 'hub'."""
        return _format(self.path) if self.path is not None else "hub"


def _format(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSED:
        inner = suffixes[0] if len(suffixes) == 2 else ""
        return inner if inner in FORMATS and inner != ".parquet" else ""
    return suffixes[-1] if suffixes and suffixes[-1] in FORMATS else ""


def resolve(texts: Iterable[str | Path]) -> list[Source]:
    """The files and Hub datasets that the names stand for, directories opened up, in a fixed order.

    Args:
        texts: files, directories (read recursively, sorted; hidden and unknown files are skipped)
            or 'hub:NAME[:CONFIG]'.

    Raises:
        DataError: nothing of that name, an unknown suffix, a directory without text.
    """
    sources: dict[str, Source] = {}
    for text in texts:
        for source in _resolve_one(str(text)):
            key = str(source.path.resolve()) if source.path is not None else source.name
            if key in sources:
                logger.warning("%s: is named twice; it is read once", source.name)
            sources.setdefault(key, source)
    return list(sources.values())


def _resolve_one(name: str) -> list[Source]:
    if name.startswith(HUB_PREFIX):
        if not name.removeprefix(HUB_PREFIX):
            raise DataError(
                f"{name}: name the dataset, for example hub:wikimedia/wikipedia:20231101.ko"
            )
        return [Source(name, None)]
    path = Path(name).expanduser()
    if path.is_dir():
        files = [file for file in _walk(path) if _format(file)]
        if not files:
            raise DataError(
                f"{name}: no text in this directory; files that are read end in {_known()}"
            )
        return [Source(str(file), file) for file in files]
    if not path.exists():
        raise DataError(
            f"{name}: no such file or directory; "
            f"a dataset on the Hugging Face Hub is written hub:{name}"
        )
    if not path.is_file():
        raise DataError(f"{name}: is not a regular file; give a file, a directory or hub:NAME")
    if not _format(path):
        raise DataError(f"{name}: unknown kind of file; allowed: {_known()}")
    return [Source(name, path)]


def _walk(folder: Path) -> list[Path]:
    def stop(error: OSError) -> None:
        raise DataError(f"{error.filename}: cannot be read: {error.strerror}")

    found = []
    for parent, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent) / name for name in files if not name.startswith(".")]
    return sorted(path for path in found if path.is_file())


def _known() -> str:
    return f"{' '.join(FORMATS)} (all but .parquet also with {' '.join(COMPRESSED)})"


def read(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Document]:
    """The documents of one source.

    Args:
        source: one of `resolve`'s.
        section: columns, limits, and what a document of a text file is.
        reading: counts documents, what is left out and why, and bytes.

    Raises:
        DataError: the source cannot be read, is cut short, or holds no text where it should.
    """
    reader = _hub if source.path is None else FORMATS[source.format]
    empty = True
    for identifier, text in reader(source, section, reading):
        empty = False
        if not text or text.isspace():
            reading.drop(EMPTY)
            continue
        reading.documents += 1
        yield Document(_clean_id(identifier) if identifier is not None else content_id(text), text)
    if empty and source.path is not None and source.path.stat().st_size == 0:
        reading.drop(EMPTY)


def content_id(text: str) -> str:
    """Name a document by a hash of its text, so that equal texts are held out together."""
    data = text.strip().encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _clean_id(identifier: object) -> str:
    return str(identifier).encode("utf-8", "replace").decode("utf-8")


def _plain(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """A .txt file: a document a line, a block between empty lines, or the whole file."""
    assert source.path is not None
    lines = text_lines(source.path, section.max_line_bytes, reading)
    if section.document == "line":
        for line in lines:
            yield None, line
        return
    held: list[str] = []
    size = 0
    for line in lines:
        if section.document == "block" and not line.strip():
            if held:
                yield None, "\n".join(held)
            held, size = [], 0
            continue
        held.append(line)
        size += len(line)
        if size > MAX_DOCUMENT_CHARACTERS:
            raise DataError(
                f'{source.name}: corpus.document = "{section.document}" makes a document of more '
                f'than {MAX_DOCUMENT_CHARACTERS:,} characters of it; use "line"'
            )
    if held:
        yield None, "\n".join(held)


def _json_lines(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """A .jsonl file: an object a line."""
    assert source.path is not None
    objects = good = broken = 0
    keys: list[str] = []
    for line in text_lines(source.path, section.max_line_bytes, reading):
        if not line or line.isspace():
            reading.drop(EMPTY)
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            reading.drop(BROKEN_JSON)
            broken += 1
            continue
        objects += 1
        text = row.get(section.text_column) if isinstance(row, dict) else None
        if not isinstance(text, str):
            keys = keys or (list(row) if isinstance(row, dict) else [])
            reading.drop(NO_TEXT_FIELD)
            continue
        good += 1
        yield row.get(section.id_column), text
    if broken and not objects:
        raise DataError(
            f"{source.name}: none of its {broken:,} lines is JSON; write one object a line "
            "(jq -c '.[]' makes them from an array)"
        )
    if objects and not good:
        raise _no_column(source, section.text_column, keys)


def _no_column(source: Source, column: str, columns: Sequence[str]) -> DataError:
    found = f"its fields are {', '.join(columns[:20])}" if columns else "a line must be an object"
    return DataError(
        f"{source.name}: no text in the field '{column}'; {found}; set corpus.text_column"
    )


def _parquet(
    source: Source, section: recipe.Corpus, reading: Reading
) -> Iterator[tuple[object, str]]:
    """A .parquet file: a row a document."""
    assert source.path is not None
    arrow = require("pyarrow", source.name)
    parquet = require("pyarrow.parquet", source.name)
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
        raise _no_column(source, section.text_column, schema.names)
    kind = schema.field(section.text_column).type
    if arrow.types.is_dictionary(kind):
        kind = kind.value_type
    if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
        raise DataError(
            f"{source.name}: the field '{section.text_column}' holds {kind}, not strings; "
            "set corpus.text_column"
        )
    return [name for name in (section.text_column, section.id_column) if name in schema.names]


def _parquet_rows(
    batch: Any, section: recipe.Corpus, reading: Reading, arrow: Any
) -> Iterator[tuple[object, str]]:
    texts = batch.column(section.text_column)
    if arrow.types.is_dictionary(texts.type):
        texts = texts.dictionary_decode()
    # As bytes: Arrow does not check that strings are UTF-8.
    texts = texts.cast(arrow.large_binary()).to_pylist()
    named = section.id_column in batch.schema.names
    names = batch.column(section.id_column).to_pylist() if named else [None] * len(texts)
    for name, data in zip(names, texts, strict=True):
        if data is None:
            reading.drop(NO_TEXT_FIELD)
        elif len(data) > section.max_line_bytes:
            reading.drop(LINE_TOO_LONG)
        else:
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                reading.drop(BROKEN_UTF8)
                continue
            yield name, text


def _hub(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[tuple[object, str]]:
    """A dataset on the Hugging Face Hub (or a local directory laid out like one), streamed."""
    datasets = require("datasets", source.name)
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
            raise _no_column(source, section.text_column, list(row))
        first = False
        text = row.get(section.text_column)
        if not isinstance(text, str):
            reading.drop(NO_TEXT_FIELD)
        elif len(text) > section.max_line_bytes:
            reading.drop(LINE_TOO_LONG)
        else:
            reading.bytes_read += len(text.encode("utf-8", "surrogatepass"))
            yield row.get(section.id_column), text


def _hub_error(source: Source, error: Exception) -> DataError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DataError(
        f"{source.name}: the dataset cannot be read ({type(error).__name__}: {first}); "
        "check its name, configuration (hub:NAME:CONFIG), corpus.hub_split and your connection"
    )


FORMATS: dict[str, Callable[[Source, recipe.Corpus, Reading], Iterator[tuple[object, str]]]] = {
    ".txt": _plain,
    ".jsonl": _json_lines,
    ".json": _json_lines,
    ".parquet": _parquet,
}
