"""What the corpus stage will read, for its fingerprint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import reading_errors

if TYPE_CHECKING:
    from lingraft import recipe


FORMAT = 3
"""Part of the fingerprint of a corpus; raise it when the same text and settings give another."""


def inputs(section: recipe.Corpus) -> list[dict[str, Any]]:
    """What the stage will read, for its fingerprint.

    Returns:
        For each file its name, size in bytes and time of change in ns; for each Hub dataset its
        name. The files of evaluations come last.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    entries: list[dict[str, Any]] = []
    sources = documents.resolve(section.text)
    sources += [documents.Source(str(p), p) for p in evaluations.files_of(section.decontaminate)]
    for source in sources:
        if source.path is None:
            entries.append({"name": source.name})
            continue
        with reading_errors(source.path):
            stat = source.path.stat()
        entries.append({"name": source.name, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns})
    return entries
