"""Name what a corpus is made from, for its fingerprint."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import decontamination
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import COMPRESSED, Counts, reading_errors, without_holes
from lingraft.errors import DataError
from lingraft.files import not_utf8
from lingraft.recipe import Corpus
from lingraft.rundir import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


UNPACKED = {".parquet": 2.0} | dict.fromkeys(COMPRESSED, 4.0)
"""Bytes of text in one that is stored, by the end of a name. Of documentation and prose in five
languages a byte held 1.6 to 2.3 in Parquet, 2.7 to 4.2 in .gz, 3.0 to 5.6 in .xz, .bz2."""


def texts(names: Sequence[str]) -> list[str]:
    """Return digests of the files that a recipe names as text; of Hub data sets the names.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    sources = documents.resolve(names)
    return [s.name if s.path is None else file_digest(s.path) for s in sources]


def lines_of(names: Sequence[str]) -> Iterator[str]:
    """Give the lines of the files that a recipe names as text, nothing cleaned.

    Raises:
        DataError: a file is missing, of an unknown kind or broken.
    """
    section = Corpus(text=tuple(names), document="line")
    for source in documents.resolve(names):
        for document in documents.read(source, section, Counts()):
            yield from without_holes(document.text).splitlines()


def digests(names: Sequence[str]) -> list[str]:
    """Return digests of files of evaluations."""
    return [file_digest(path) for path in decontamination.files_of(names)]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        DataError: it cannot be read, or its name is not UTF-8.
    """
    entry(str(path), path)
    with reading_errors(path):
        return digest(path)


def inputs(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the `entry` of each file and Hub dataset that the names stand for.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    return [entry(source.name, source.path) for source in documents.resolve(names)]


def unpacked_bytes(entries: Sequence[dict[str, Any]]) -> float:
    """Estimate how many bytes of text files hold, of which `inputs` gives the sizes."""
    return sum(
        (one.get("bytes") or 0) * UNPACKED.get(PurePath(one["name"]).suffix.lower(), 1.0)
        for one in entries
    )


def entry(name: str, path: Path | None) -> dict[str, Any]:
    """Return name, size in bytes and time of change of a file; of a Hub dataset the name.

    Raises:
        DataError: it cannot be read, or its name is not UTF-8, so that no JSON file can hold it.
    """
    if path is None:
        return {"name": name}
    if problem := not_utf8(str(path)):
        raise DataError(problem)
    with reading_errors(path):
        stat = path.stat()
    return {"name": name, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
