"""The texts of an evaluation, out of whatever form its files have: every string in them counts."""

from __future__ import annotations

import csv
import json
import logging
from typing import TYPE_CHECKING, Any

from lingraft.corpus.readers import folders
from lingraft.corpus.readers.columns import opened_parquet
from lingraft.corpus.readers.lines import Reading, kind, opened, reading_errors, text_lines
from lingraft.errors import DataError
from lingraft.paths import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from lingraft import recipe

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 100_000_000
MAX_FILE_BYTES = 1 << 30


def files_of(names: Iterable[str | Path]) -> list[Path]:
    """Return the files that names of files and directories stand for, in a fixed order.

    Raises:
        DataError: nothing of that name, an unknown kind of file, a directory without any.
    """
    paths: list[Path] = []
    for name in names:
        path = path_of(name)
        if not path.exists():
            raise DataError(f"{name}: no such file or directory, which corpus.decontaminate names")
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        readable = [file for file in inside if file.is_file() and kind(file) in FORMATS]
        if not readable:
            raise DataError(
                f"{name}: no evaluation that can be read; corpus.decontaminate takes files and "
                f"directories of {' '.join(FORMATS)}"
            )
        paths += readable
    return paths


def tell(names: Iterable[str]) -> None:
    """Warn of the files in folders of evaluations whose texts are not left out.

    Args:
        names: what `files_of` takes.
    """
    for folder in (path_of(name) for name in names):
        files = folders.walk(folder) if folder.is_dir() else []
        others = [one for one in files if kind(one) not in FORMATS and not folders.is_about(one)]
        if others:
            logger.warning(
                "corpus.decontaminate: %s: not read, so that their texts stay: %s; allowed: %s",
                *(folder, folders.kinds(others), " ".join(FORMATS)),
            )


def located(section: recipe.Corpus) -> recipe.Corpus:
    """The settings with absolute paths of evaluations, which mean the same in any folder."""
    paths = tuple(str(path_of(name).absolute()) for name in section.decontaminate)
    return section.model_copy(update={"decontaminate": paths})


def texts_of(names: Iterable[str | Path]) -> Iterator[str]:
    """Every text of the evaluations: cells of tables, strings of JSON, lines of plain text.

    Raises:
        DataError: a file is missing, unreadable, broken or of an unknown kind.
    """
    for path in files_of(names):
        yield from FORMATS[kind(path)](path)


def _lines(path: Path) -> Iterator[str]:
    reading = Reading()
    yield from text_lines(path, MAX_LINE_BYTES, reading)
    if reading.dropped:
        raise DataError(
            f"{path}: {reading.dropped.total():,} of its lines cannot be read "
            f"({', '.join(reading.dropped)}), so that their texts would stay in the corpus; "
            "correct it, for example: iconv -f EUC-KR -t UTF-8"
        )


def _cells(path: Path) -> Iterator[str]:
    csv.field_size_limit(MAX_LINE_BYTES)
    plain = kind(path) == ".tsv"
    quoting: Any = csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
    lines = (f"{line}\n" for line in _lines(path))
    try:
        for row in csv.reader(lines, delimiter="\t" if plain else ",", quoting=quoting):
            yield from row
    except csv.Error as error:
        raise DataError(f"{path}: is no CSV ({error}); correct it, or write a .tsv") from None


def _json(path: Path) -> Iterator[str]:
    """Give the strings of one value, or of one a line."""
    with reading_errors(path), opened(path) as stream:
        data = stream.read(MAX_FILE_BYTES)
    try:
        try:
            yield from _strings(json.loads(data))
        except json.JSONDecodeError:
            for line in filter(bytes.strip, data.splitlines()):
                yield from _strings(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: is no JSON ({error}); name the files of evaluations alone"
        ) from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _parquet(path: Path) -> Iterator[str]:
    with opened_parquet(path) as file:
        try:
            rows = file.read().to_pylist()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: holds text that is not UTF-8 ({error}); write the evaluation anew"
            ) from None
        yield from _strings(rows)


FORMATS: dict[str, Callable[[Path], Iterator[str]]] = {
    ".txt": _lines,
    ".tsv": _cells,
    ".csv": _cells,
    ".json": _json,
    ".jsonl": _json,
    ".parquet": _parquet,
}
