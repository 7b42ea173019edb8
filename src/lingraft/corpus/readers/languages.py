"""Which languages a table of texts in several has."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers import documents
from lingraft.corpus.readers.columns import opened_parquet
from lingraft.corpus.readers.lines import Reading, json_object, text_lines
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 10_000_000


def values(texts: Sequence[str], field: str) -> Counter[str]:
    """How many rows there are with each value of a field, in the order of their first rows.

    Args:
        texts: JSON lines, Parquet files or directories of them.
        field: its name.

    Raises:
        DataError: a text is no table, or no row has the field.
    """
    counts: Counter[str] = Counter()
    for source in documents.resolve(texts):
        if source.path is None or source.format not in documents.TABLES:
            raise DataError(
                f"{source.name}: --language-field reads JSON lines and Parquet files; give other "
                "texts as LANGUAGE=PATH"
            )
        reader = _parquet if source.format == ".parquet" else _json
        counts.update(str(value) for value in reader(source.path, field) if value is not None)
    if not counts:
        raise DataError(f"--language-field {field}: no row of {', '.join(texts)} has this field")
    summary = ", ".join(f"{value} {count:,}" for value, count in counts.items())
    logger.info("rows by %s: %s", field, summary)
    return counts


def _json(path: Path, field: str) -> Iterator[Any]:
    for line in text_lines(path, MAX_LINE_BYTES, Reading()):
        if (row := json_object(line)) is not None:  # the corpus stage counts those that are none
            yield row.get(field)


def _parquet(path: Path, field: str) -> Iterable[Any]:
    with opened_parquet(path) as file:
        if field in file.schema_arrow.names:
            for batch in file.iter_batches(columns=[field]):
                yield from batch.column(0).to_pylist()
