"""The sources of a corpus, cut into parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lingraft.corpus.inputs import entry
from lingraft.corpus.readers import documents  # noqa: TC001 - pydantic reads the annotations
from lingraft.corpus.readers.lines import reading_errors
from lingraft.corpus.readers.wiki.dump import spans as dump_spans
from lingraft.rundir import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lingraft import recipe

PARTS = 64
"""Where nothing else is asked for: enough for some processes to share evenly."""
SMALLEST_PART, LARGEST_PART = 1 << 20, 32 << 20
CUT_BY_LINES = (".txt", ".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Part:
    """Sources, or pieces of one, that are cleaned in one go."""

    sources: tuple[documents.Source, ...]
    bytes: int
    name: str = ""
    """Of its folder: of equal ones what becomes of the part is the same, whatever else is read."""


def named(part: Part, cleaning: str) -> Part:
    """A part with its name.

    Args:
        part: of a plan.
        cleaning: fingerprint of all else that its text depends on.
    """
    sources = [entry(source.name, source.path) | {"span": source.span} for source in part.sources]
    return replace(part, name=fingerprint(cleaning, sources))


def part_size(sources: Sequence[documents.Source]) -> int:
    """Bytes on disk that a part should have: a 64th of all, between 1 and 32 MiB."""
    total = 0
    for source in sources:
        if source.path is not None:
            with reading_errors(source.path):
                total += source.path.stat().st_size
    return min(max(total // PARTS, SMALLEST_PART), LARGEST_PART)


def cut(
    sources: Sequence[documents.Source], section: recipe.Corpus, part_bytes: int
) -> Iterator[Part]:
    """Parts of about `part_bytes`: small files together, large ones cut, in the order of `sources`.

    Cut are multistream bz2 dumps, and uncompressed files with a document a line.
    """
    group: list[documents.Source] = []
    size = 0
    for source in sources:
        pieces = _pieces(source, section, part_bytes)
        if group and (len(pieces) > 1 or size + pieces[0].bytes > part_bytes):
            yield Part(tuple(group), size)
            group, size = [], 0
        if len(pieces) > 1:
            yield from pieces
        else:
            group += pieces[0].sources
            size += pieces[0].bytes
    if group:
        yield Part(tuple(group), size)


def _pieces(source: documents.Source, section: recipe.Corpus, part_bytes: int) -> list[Part]:
    if source.path is None:
        return [Part((source,), 0)]
    path = source.path.absolute()
    with reading_errors(path):
        size = path.stat().st_size
    if size > part_bytes and source.format == ".xml":
        spans = dump_spans(path, part_bytes)
    elif size > part_bytes and _has_a_document_a_line(source, path, section):
        ends = [*range(part_bytes, size, part_bytes), size]
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
    else:
        spans = []
    if len(spans) < 2:
        return [Part((replace(source, path=path),), size)]
    return [Part((replace(source, path=path, span=span),), span[1] - span[0]) for span in spans]


def _has_a_document_a_line(source: documents.Source, path: Path, section: recipe.Corpus) -> bool:
    if path.suffix.lower() not in CUT_BY_LINES:  # compressed, or another format
        return False
    return source.format != ".txt" or section.document == "line"
