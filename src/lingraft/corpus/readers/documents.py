"""Documents out of files, directories and Hub datasets, streamed.

A reader yields `Document`s and counts in a `Reading` what it leaves out. Reading one more format
is one function here and one line in `FORMATS`.

Find the files of text in a folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lingraft import optional
from lingraft.corpus.readers import layout, markup
from lingraft.corpus.readers.columns import (
    HUB_PREFIX,
    ROWS,
    hub_parts,
    model_parts,
    read_rows,
)
from lingraft.corpus.readers.layout import Row, TextSource
from lingraft.corpus.readers.lines import (
    COMPRESSED,
    EMPTY,
    Counts,
    kind,
    reading_errors,
    text_lines,
)
from lingraft.corpus.readers.wiki.dump import wiki_dump
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.files import as_shown, path_of
from lingraft.recipe.streams import MODEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lingraft import recipe
    from lingraft.corpus.readers.layout import TextLayout


logger = logging.getLogger(__name__)

PAGES, CRAWL = ("resiliparse", "web"), ("fastwarc", "web")
PACKAGES = {
    "hub": ("datasets", "data"), ".parquet": ("pyarrow", "data"),
    ".xml": ("mwparserfromhell", "wiki"),
    ".html": PAGES, ".htm": PAGES, ".warc": CRAWL, ".wet": CRAWL,
}  # fmt: skip
"""Package that a format needs beside the base install, and the extra that brings it."""
MAX_DOCUMENT_CHARACTERS = 100_000_000


class Document(NamedTuple):
    """Document as it was read."""

    id: str
    """Its name: that of the field "id", or else a hash of its text."""
    text: str
    """As it was read; lines end in any way that `str.splitlines` knows."""


def _format(path: Path) -> str:
    suffix = kind(path)
    readable = suffix in FORMATS and (suffix != ".parquet" or path.suffix.lower() == suffix)
    return suffix if readable else ""


def resolve(texts: Iterable[str | Path]) -> list[TextSource]:
    """Return the files and Hub datasets that the names stand for, each once, in a fixed order.

    Args:
        texts: files, directories (read recursively, sorted; hidden and unknown files are skipped)
            or 'hub:NAME[:CONFIG][@REVISION][#SPLIT]', or 'model:NAME[#TOKENS]'.

    Raises:
        DataError: nothing of that name, an unknown suffix, a directory without text, or a package
            that reads it is not installed.
    """
    sources: dict[str, TextSource] = {}
    for text in texts:
        for source in _resolve_one(str(text)):
            place = source.name if source.path is None else str(source.path.resolve())
            sources.setdefault(place, source)
            if source.format in PACKAGES:
                optional.check(PACKAGES[source.format][0], source.name, PACKAGES[source.format][1])
    return list(sources.values())


def _resolve_one(name: str) -> list[TextSource]:
    if name.startswith(HUB_PREFIX):
        hub_parts(name)
        return [TextSource(name, None)]
    if name.startswith(MODEL_PREFIX):
        model_parts(name)
        return [TextSource(name, None)]
    path = path_of(name)
    if path.is_dir():
        files, others = _inside(path)
        if not files:
            raise DataError(
                f"{name}: no text in this directory (there are {kinds(others) or 'none'}, "
                "beside runs and unfinished corpora of lingraft); files that are read end in "
                f"{_known()}"
            )
        return [TextSource(str(file), file) for file in files]
    if not path.is_file():
        raise DataError(
            f"{name}: no such file or directory; "
            f"a dataset on the Hugging Face Hub is written hub:{name}"
        )
    if not _format(path):
        raise DataError(f"{name}: unknown kind of file; allowed: {_known()}")
    return [TextSource(name, path)]


def laid_out(sources: Sequence[TextSource], section: recipe.Corpus) -> list[TextSource]:
    """Return the sources, with the layout of those that are .txt files."""
    paths = [one.path for one in sources if one.path is not None and one.format == ".txt"]
    layouts = layout.guess(paths, section.document)
    return [replace(one, layout=layouts.get(one.path)) if one.path else one for one in sources]


def guesses(sources: Iterable[TextSource]) -> list[str]:
    """Say how .txt files are read, a line for each layout."""
    names: dict[TextLayout, list[str]] = {}
    for source in sources:
        if source.layout is not None:
            names.setdefault(source.layout, []).append(source.name)
    return [
        f"{files[0]}{f' and {len(files) - 1:,} more' if files[1:] else ''}: {form.told} (a guess; "
        "set corpus.document where it is wrong)"
        for form, files in names.items()
    ]


def tell(texts: Iterable[str | Path]) -> None:
    """Log of each folder which kinds of files are read, and which are not."""
    for folder in filter(Path.is_dir, map(path_of, texts)):
        files, others = map(kinds, _inside(folder))
        logger.info("%s: %s are read; not read: %s", folder, files, others or "none")


def _inside(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files in a folder that are read, of a finished corpus its shards, and the rest."""
    if is_finished(folder):
        return [file for split in SPLITS for file in sorted((folder / split).glob("*.jsonl"))], []
    groups: tuple[list[Path], list[Path]] = [], []
    for path in walk(folder):
        groups[not _format(path) or is_about(path)].append(path)
    return groups


def _known() -> str:
    return f"{' '.join(FORMATS)} (all but .parquet also with {' '.join(COMPRESSED)})"


def read(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Document]:
    """Give the documents of one source.

    Args:
        source: one of `resolve`'s.
        section: columns, limits, and what a document of a text file is.
        reading: counts documents, and what is left out and why.

    Raises:
        DataError: the source cannot be read, is cut short, or holds no text where it should.
    """
    if source.format == "model":
        raise DataError(
            f"{source.name}: models write only what `lingraft adapt` replays; give files"
        )
    if section.where and source.format not in ROWS:
        raise DataError(f"{source.name}: has no fields that corpus.where could ask for")
    reader = read_rows if source.path is None else FORMATS[source.format]
    may_be_wrapped = section.split_sentences and source.format in ROWS
    for identifier, text in reader(source, section, reading):
        if not text or text.isspace():
            reading.drop(EMPTY)
            continue
        reading.documents += 1
        # Tables write NaN or nothing for none.
        has_name = identifier not in (None, "") and identifier == identifier
        name = as_shown(str(identifier)) if has_name else content_id(text)
        if may_be_wrapped and text.count("\n") >= layout.FEWEST_WRAPPED:
            text = _unwrapped(text, reading)
        yield Document(name, text)


def _unwrapped(text: str, reading: Counts) -> str:
    lines = text.splitlines()
    wrapped = layout.width_of(lines)
    if wrapped[0]:
        return "\n".join(layout.joined(lines, wrapped, layout.words_of(lines), reading))
    return text


def content_id(text: str) -> str:
    """Name a document by a hash of its text, so that equal texts are held out together."""
    data = text.strip().encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _plain(source: TextSource, section: recipe.Corpus, reading: Counts) -> Iterator[Row]:
    """Give the documents of a .txt file: its lines, blocks between empty lines, or the whole."""
    form = source.layout or layout.guess([source.file], section.document)[source.file]
    lines = text_lines(source.file, reading, source.span)
    if form.numbered:
        lines = (layout.NUMBERED.sub("", line, count=1) for line in lines)
    if form.width:
        words = layout.words_of(layout.sample_of(source.file))
        lines = layout.joined(lines, (form.width, form.in_columns), words, reading)
    if form.document == "line":
        yield from ((None, line) for line in lines)
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


FORMATS: dict[str, Callable[[TextSource, recipe.Corpus, Counts], Iterator[Row]]] = {
    ".txt": _plain,
    **{name: read_rows for name in ROWS if name != "hub"},
    ".xml": wiki_dump,
    ".html": markup.read_html,
    ".htm": markup.read_html,
    ".warc": markup.read_crawl,
    ".wet": markup.read_crawl,
}


ABOUT = re.compile(
    r"((?i:readme|licen[cs]e|changelog|copying|notice)|SOURCES?)([._-].*)?\.(?i:txt|html?)"
)
"""Names of files that say what the others are; `source.txt` may be text of a source language."""
FINISHED = "corpus.json"
"""Marks the folder of a corpus that `lingraft data clean` made; its shards lie in folders below."""
FINISHED_HEAD = b'{\n "fingerprint": "'


def is_finished(folder: Path) -> bool:
    """Return whether `lingraft data clean` made a folder; a text may be called corpus.json too."""
    path = folder / FINISHED
    if not path.is_file():
        return False
    with reading_errors(path), path.open("rb") as file:
        return file.read(len(FINISHED_HEAD)) == FINISHED_HEAD


def walk(folder: Path) -> list[Path]:
    """Return all files in a folder and below, sorted, but for hidden ones.

    What lingraft made (a run, a corpus) holds text that is held out, so it is left out.

    Raises:
        DataError: a folder cannot be read.
    """

    def stop(error: OSError) -> None:
        raise error

    paths: list[Path] = []
    with reading_errors(folder):
        for parent, folders, files in os.walk(folder, onerror=stop):
            if ".lock" in files or is_finished(Path(parent)):
                folders.clear()
                continue
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths += [Path(parent, name) for name in files if not name.startswith(".")]
    return sorted(filter(Path.is_file, paths))  # no broken link, no pipe


def is_about(path: Path) -> bool:
    """Return whether a file says what the others of its folder are."""
    packed = path.suffix.lower() in COMPRESSED
    return ABOUT.fullmatch(path.stem if packed else path.name) is not None


def ending(path: Path) -> str:
    """Return how a file's name ends, with the suffix of its compression: '.jsonl.gz'."""
    return "".join(path.suffixes[-2 if path.suffix.lower() in COMPRESSED else -1 :])


def kinds(paths: Iterable[Path]) -> str:
    """Say how many files there are of each kind: '3 .csv, 1 Makefile'."""
    counts = Counter(ending(path) or path.name for path in paths)
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common(8))
