"""Documents out of files, directories and Hub datasets, streamed.

A reader yields `Document`s and counts in a `Reading` what it leaves out. Reading one more format
is one function here and one line in `FORMATS`.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations of `plan.Plan`
from typing import TYPE_CHECKING, TypeAlias

from lingraft.corpus import extras
from lingraft.corpus.readers import folders, layout, markup
from lingraft.corpus.readers.columns import HUB_PREFIX, ROWS, hub_parts, read_rows
from lingraft.corpus.readers.layout import Layout  # noqa: TC001 - as `Path`
from lingraft.corpus.readers.lines import (
    COMPRESSED,
    EMPTY,
    Reading,
    kind,
    opened,
    reading_errors,
    text_lines,
)
from lingraft.corpus.readers.wiki.dump import wiki_dump
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.paths import as_shown, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lingraft import recipe

logger = logging.getLogger(__name__)

ZSTD = ("zstandard", "data")
PAGES, MARKDOWN, CRAWL = ("resiliparse", "web"), ("markdown_it", "web"), ("fastwarc", "web")
PACKAGES = {
    "hub": (("datasets", "data"),), ".parquet": (("pyarrow", "data"),),
    ".xml": (("mwparserfromhell", "wiki"),),
    ".html": (PAGES,), ".htm": (PAGES,), ".md": (MARKDOWN, PAGES), ".markdown": (MARKDOWN, PAGES),
    ".warc": (CRAWL, PAGES), ".wet": (CRAWL, PAGES),
}  # fmt: skip
"""What formats need beside the base install, and the extras that bring it."""
MAX_DOCUMENT_CHARACTERS = 100_000_000
OF_SHARDS: dict[str, object] = {
    "text_column": "text", "id_column": "id", "where": None,
    "max_line_bytes": 10 * MAX_DOCUMENT_CHARACTERS,
}  # fmt: skip
"""How shards of a finished corpus are read, whatever its sources were read by: ids decide what is
held out, and a row is a whole document."""
DUMP_ROOT = b"<mediawiki"
DUMP_HEAD_BYTES = 4_096

Facts: TypeAlias = dict[str, str | int]
Row: TypeAlias = tuple[object, str] | tuple[object, str, Facts]
"""Name of a document or None, its text, and perhaps what else is known of it."""


@dataclass(slots=True)
class Document:
    """One document.

    Attributes:
        id: its name: that of the id column, or else a hash of its text.
        text: as it was read; lines end in any way that `str.splitlines` knows.
        metadata: title, revision and address, where they are known.
    """

    id: str
    text: str
    metadata: Facts = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """One thing to read: a file, a part of a dump, or a Hub dataset (then `path` is None).

    Attributes:
        name: as the user knows it.
        path: the file.
        span: of a part of a file, the byte at which it begins and the one at which the next part
            does; None is the whole. Only what `parts.cut` cuts can have one.
        shard: whether it is one of a finished corpus: its rows have our columns.
        layout: of a .txt file; None where nobody has looked at it.
    """

    name: str
    path: Path | None
    span: tuple[int, int] | None = None
    shard: bool = False
    layout: Layout | None = None

    @property
    def format(self) -> str:
        """The suffix without the compression's, or 'hub'."""
        return _format(self.path) if self.path is not None else "hub"

    @property
    def packages(self) -> tuple[tuple[str, str], ...]:
        """What reads it beside the base install: packages, and the extras that bring them."""
        zstd = self.path is not None and self.path.suffix.lower() == ".zst"
        return (*PACKAGES.get(self.format, ()), *((ZSTD,) if zstd else ()))


def _format(path: Path) -> str:
    suffix = kind(path)
    readable = suffix in FORMATS and not (suffix == ".parquet" and folders.is_packed(path))
    return suffix if readable else ""


def resolve(texts: Iterable[str | Path], *, read: bool = True) -> list[Source]:
    """The files and Hub datasets that the names stand for, directories opened up, in a fixed order.

    Args:
        texts: files, directories (read recursively, sorted; hidden and unknown files are skipped)
            or 'hub:NAME[:CONFIG][@REVISION][#SPLIT]'.
        read: whether they are to be read, and not only told apart from others: a corpus that is
            done needs no packages any more.

    Raises:
        DataError: nothing of that name, an unknown suffix, a directory without text; the packages
            that read it are not installed.
    """
    sources: dict[str, Source] = {}
    for text in texts:
        for source in _resolve_one(str(text)):
            key = str(source.path.resolve()) if source.path is not None else source.name
            if key in sources:
                same = sources[key].name
                logger.warning("%s: is the same file as %s; it is read once", source.name, same)
            sources.setdefault(key, source)
    for source in sources.values() if read else ():
        for module, extra in source.packages:
            extras.check(module, source.name, extra)
    return list(sources.values())


def _resolve_one(name: str) -> list[Source]:
    if name.startswith(HUB_PREFIX):
        hub_parts(name)
        return [Source(name, None)]
    path = path_of(name)
    if path.is_dir():
        if folders.is_half_made(path):
            raise DataError(
                f"{name}: holds a corpus that is not finished; run the data clean that makes "
                "it again, or delete it"
            )
        files, about, others = _inside(path)
        if not files:
            left_out = f" (there are {folders.kinds([*about, *others])})" if about or others else ""
            raise DataError(
                f"{name}: no text in this directory{left_out}; files that are read end in "
                f"{_known()}"
            )
        is_corpus = folders.is_finished(path)
        return [Source(str(file), file, shard=is_corpus) for file in files]
    if not path.is_file():
        raise DataError(
            f"{name}: no such file or directory; "
            f"a dataset on the Hugging Face Hub is written hub:{name}"
        )
    if not _format(path):
        raise DataError(f"{name}: unknown kind of file; allowed: {_known()}")
    return [Source(name, path)]


def laid_out(sources: Sequence[Source], section: recipe.Corpus) -> list[Source]:
    """Return the sources, with the layout of those that are .txt files."""
    paths = [one.path for one in sources if one.path is not None and one.format == ".txt"]
    layouts = layout.guess(paths, section.max_line_bytes, section.document)
    return [replace(one, layout=layouts.get(one.path)) if one.path else one for one in sources]


def guesses(sources: Iterable[Source]) -> list[str]:
    """Say how .txt files are read, a line for each layout."""
    names: dict[str, list[str]] = {}
    for source in sources:
        if source.layout is not None:
            names.setdefault(source.layout.told, []).append(source.name)
    return [
        f"{files[0]}{f' and {len(files) - 1:,} more' if files[1:] else ''}: {told} (a guess; set "
        "corpus.document where it is wrong)"
        for told, files in names.items()
    ]


def tell(texts: Iterable[str | Path]) -> None:
    """Log of each folder which kinds of files are read, and which are not.

    Args:
        texts: what `resolve` takes.
    """
    for folder in (path_of(text) for text in texts):
        if folder.is_dir():
            files, about, others = _inside(folder)
            logger.info("%s: %s are read", folder, folders.kinds(files))
            if about:
                names = ", ".join(str(file.relative_to(folder)) for file in about[:5])
                logger.info(
                    "%s: left out as no text: %s (%d in all; name a file to have it read)",
                    *(folder, names, len(about)),
                )
            if others:
                logger.info("%s: not read: %s", folder, folders.kinds(others))


def _inside(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """What a folder holds: the files that are read, those that tell what these are, and the rest.

    Of a finished corpus its shards alone.
    """
    if folders.is_finished(folder):
        splits = [folder / split for split in SPLITS if (folder / split).is_dir()]
        return [file for split in splits for file in folders.walk(split) if _format(file)], [], []
    texts: list[Path] = []
    about: list[Path] = []
    others: list[Path] = []
    for path in folders.walk(folder):
        group = others if not _is_text(path) else about if folders.is_about(path) else texts
        group.append(path)
    return texts, about, others


def _is_text(path: Path) -> bool:
    """Whether a file of a directory can be read; of the many kinds of XML only dumps are."""
    if not path.is_file():
        return False
    if (form := _format(path)) != ".xml":
        return bool(form)
    with reading_errors(path), opened(path) as stream:
        return DUMP_ROOT in stream.read(DUMP_HEAD_BYTES).replace(b"\0", b"")


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
    if source.shard:
        section = section.model_copy(update=OF_SHARDS)
    if section.where and source.format not in ROWS:
        raise DataError(
            f"{source.name}: has no fields that corpus.where could ask for; it is for "
            f"{' '.join(sorted(ROWS.keys() - {'hub'}))} and Hub datasets"
        )
    reader = read_rows if source.path is None else FORMATS[source.format]
    empty, left_out = True, reading.dropped.total()
    may_be_wrapped = section.split_sentences and source.format in ROWS and not source.shard
    for identifier, text, *more in reader(source, section, reading):
        empty = False
        if not text or text.isspace():
            reading.drop(EMPTY)
            continue
        reading.documents += 1
        # Tables write NaN or nothing for none.
        has_name = identifier not in (None, "") and identifier == identifier
        name = as_shown(str(identifier)) if has_name else content_id(text)
        if may_be_wrapped and text.count("\n") >= layout.FEWEST_WRAPPED:
            text = _unwrapped(text, reading)
        yield Document(name, text, *more)
    has_drops = reading.dropped.total() > left_out
    if empty and not has_drops and source.path is not None and source.path.stat().st_size == 0:
        reading.drop(EMPTY)


def _unwrapped(text: str, reading: Reading) -> str:
    lines = text.splitlines()
    if width := layout.width_of(lines):
        return "\n".join(layout.joined(lines, width, layout.words_of(lines), reading))
    return text


def content_id(text: str) -> str:
    """Name a document by a hash of its text, so that equal texts are held out together."""
    data = text.strip().encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _plain(source: Source, section: recipe.Corpus, reading: Reading) -> Iterator[Row]:
    """A .txt file: a document a line, a block between empty lines, or the whole file."""
    assert source.path is not None
    limit = section.max_line_bytes
    form = source.layout or layout.guess([source.path], limit, section.document)[source.path]
    lines = text_lines(source.path, limit, reading, source.span)
    if form.numbered:
        lines = (layout.NUMBERED.sub("", line, count=1) for line in lines)
    if form.width:
        words = layout.words_of(layout.sample_of(source.path, limit))
        lines = layout.joined(lines, form.width, words, reading)
    if form.document == "line":
        for line in lines:
            yield None, line
        return
    block: list[str] = []
    size = 0
    for line in lines:
        if form.document == "block" and not line.strip():
            if block:
                yield None, "\n".join(block)
            block, size = [], 0
            continue
        block.append(line)
        size += len(line)
        if size > MAX_DOCUMENT_CHARACTERS:
            raise DataError(
                f'{source.name}: corpus.document = "{form.document}" makes a document of more '
                f'than {MAX_DOCUMENT_CHARACTERS:,} characters of it; use "line"'
            )
    if block:
        yield None, "\n".join(block)


FORMATS: dict[str, Callable[[Source, recipe.Corpus, Reading], Iterator[Row]]] = {
    ".txt": _plain,
    **{name: read_rows for name in ROWS if name != "hub"},
    ".xml": wiki_dump,
    ".html": markup.read_html,
    ".htm": markup.read_html,
    ".md": markup.read_markdown,
    ".markdown": markup.read_markdown,
    ".warc": markup.read_crawl,
    ".wet": markup.read_crawl,
}
