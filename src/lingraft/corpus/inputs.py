"""What a corpus is made from, for its fingerprint."""

from __future__ import annotations

import contextlib
import logging
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.readers import documents, layout
from lingraft.corpus.readers.folders import FINISHED, is_finished
from lingraft.corpus.readers.layout import Layout
from lingraft.corpus.readers.lines import COMPRESSED, Reading, kind, reading_errors, without_holes
from lingraft.errors import DataError
from lingraft.paths import not_utf8, path_of
from lingraft.recipe import Corpus
from lingraft.rundir import FORMAT, digest, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lingraft import recipe

logger = logging.getLogger(__name__)

HELD = (
    *("valid", "test", "split_seed", "split_sentences", "deduplicate", "scripts"),
    "whole_documents",
    *("min_characters", "max_characters", "min_letter_share", "min_script_share"),
)
"""Settings of a finished corpus that hold where it is cleaned again, and would not by themselves:
what it was freed of stays away, and how its sources were read is no matter any more."""
UNPACKED = {".parquet": 2.0} | dict.fromkeys(COMPRESSED, 4.0)
"""Bytes of text in one that is stored, by the end of a name. Of documentation and prose in five
languages a byte held 1.6 to 2.3 in Parquet, 2.7 to 4.2 in .gz and .zst, 3.0 to 5.6 in .xz, .bz2."""


def texts(names: Sequence[str]) -> list[str]:
    """Digests of the files that a recipe names as text; of Hub data sets the names.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    sources = documents.resolve(names, read=False)
    return [s.name if s.path is None else file_digest(s.path) for s in sources]


def lines_of(names: Sequence[str]) -> Iterator[str]:
    """The lines of the files that a recipe names as text, nothing cleaned.

    Raises:
        DataError: a file is missing, of an unknown kind or broken.
    """
    section = Corpus(text=tuple(names), document="line")
    for source in documents.resolve(names):
        for document in documents.read(source, section, Reading()):
            yield from without_holes(document.text).splitlines()


def as_finished(section: recipe.Corpus) -> recipe.Corpus:
    """The settings with those of the finished corpora in the text, where they are the defaults.

    So what these hold out stays held out.

    Raises:
        DataError: the corpora do not agree.
    """
    finished = _finished(section)
    default = Corpus(text=section.text)
    changes: dict[str, Any] = {}
    for key in HELD:
        values = {getattr(one, key) for one in finished.values()} or {getattr(default, key)}
        if getattr(section, key) != getattr(default, key) or values <= {getattr(default, key)}:
            continue
        if len(values) > 1:
            raise DataError(
                f"{', '.join(map(str, finished))}: were made with different corpus.{key}; set it, "
                "or give each a stream of its own"
            )
        changes[key] = values.pop()
    if changes:
        settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
        logger.info("%s: hold for all text: %s", ", ".join(map(str, finished)), settings)
    return section.model_copy(update=changes)


def is_cut(section: recipe.Corpus) -> bool:
    """Whether the lines of a corpus are sentences, by the settings that `as_finished` gives it."""
    made = {one.split_sentences for one in _finished(section).values()}
    return section.split_sentences and made != {False}


def _finished(section: recipe.Corpus) -> dict[Path, recipe.Corpus]:
    """The finished corpora in the text, and the settings that they were made with."""
    folders = [folder for name in section.text if is_finished(folder := path_of(name))]
    records = [read_json(folder / FINISHED)["corpus"] for folder in folders]
    return dict(zip(folders, map(Corpus.model_validate, records), strict=True))


def form(*sections: recipe.Corpus) -> list[int]:
    """Of what is made of these corpora, part of its fingerprint: see `FORMAT`."""
    identifies = any(section.identify_language for section in sections)
    kinds: set[str] = set()
    is_laid_out = False
    for section in sections:
        paths = [path_of(name) for name in section.text]
        files = [file for one in paths for file in (one.rglob("*") if one.is_dir() else [one])]
        kinds |= set(map(kind, files))
        plain = Layout(section.document or "line")
        texts = sorted(file for file in files if kind(file) == ".txt" and file.is_file())
        guesses = layout.guess(texts, section.max_line_bytes, section.document)
        is_laid_out |= bool(set(guesses.values()) - {plain})
    return [
        FORMAT["corpus"],
        *([FORMAT["language"]] if identifies else []),
        *([FORMAT["wiki"]] if ".xml" in kinds else []),
        *([-FORMAT["layout"]] if is_laid_out else []),
    ]


def contents(section: recipe.Corpus) -> list[str]:
    """What the corpus stage reads, by content: its text, then the files of evaluations.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    return [*texts(section.text), *digests(section.decontaminate)]


def digests(names: Sequence[str]) -> list[str]:
    """Of files of evaluations.

    Raises:
        DataError: one is missing or of an unknown kind.
    """
    return [file_digest(path) for path in evaluations.files_of(names)]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content.

    Raises:
        DataError: it cannot be read, or its name is not UTF-8.
    """
    with _named(path):
        return digest(path)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Refuse a name whose bytes stand as halves of surrogate pairs, which no JSON file can hold."""
    if problem := not_utf8(str(path)):
        raise DataError(problem)
    with reading_errors(path):
        yield


def inputs(names: Sequence[str]) -> list[dict[str, Any]]:
    """What a job of many processes reads, by size and time: it may be terabytes.

    Returns:
        For each file its name, size in bytes and time of change in ns; for each Hub dataset its
        name.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    sources = documents.resolve(names, read=False)
    return [entry(source.name, source.path) for source in sources]


def unpacked_bytes(entries: Sequence[dict[str, Any]]) -> float:
    """About how many bytes of text files hold, of which `inputs` gives the sizes."""
    return sum(
        (one.get("bytes") or 0) * UNPACKED.get(PurePath(one["name"]).suffix.lower(), 1.0)
        for one in entries
    )


def entry(name: str, path: Path | None) -> dict[str, Any]:
    """Name, size in bytes and time of change of a file; of a Hub dataset the name.

    Raises:
        DataError: it cannot be read, or its name is not UTF-8.
    """
    if path is None:
        return {"name": name}
    with _named(path):
        stat = path.stat()
    return {"name": name, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
