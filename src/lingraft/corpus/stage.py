"""The corpus stage: raw text in; clean, distinct sentences out, one a line, in three splits.

For each split there is `SPLIT.txt` (UTF-8, a sentence a line, those of a document together and in
order) and `SPLIT.documents.npy` (int64: the line, counted from 0, at which each document starts).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus import clean, dedup, evaluations, finished, readers, sentences
from lingraft.corpus.cleaning import SentenceFilter, Tally, document_steps
from lingraft.corpus.finished import NOT_IN_SUBSET
from lingraft.corpus.lines import EMPTY, Reading, reading_errors
from lingraft.corpus.near_duplicates import NEAR_DUPLICATE, NearDuplicates
from lingraft.corpus.split import SPLITS, Split, position, split_of
from lingraft.corpus.split_file import SplitFile, cut
from lingraft.errors import DataError
from lingraft.log import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft import recipe

logger = logging.getLogger(__name__)

BATCH_SENTENCES = 16_384
BATCH_DOCUMENTS = 256
WRONG_SCRIPT_LIMIT = 0.95
PROGRESS_EVERY_DOCUMENTS = 256


def inputs(section: recipe.Corpus) -> list[dict[str, Any]]:
    """What the stage will read, for its fingerprint.

    Returns:
        For each file its name, size in bytes and time of change in ns; for each Hub dataset its
        name. The files of evaluations come last.

    Raises:
        DataError: a file is missing or of an unknown kind, or a directory holds no text.
    """
    entries: list[dict[str, Any]] = []
    sources = readers.resolve(section.text)
    sources += [readers.Source(str(p), p) for p in evaluations.files_of(section.decontaminate)]
    for source in sources:
        if source.path is None:
            entries.append({"name": source.name})
            continue
        with reading_errors(source.path):
            stat = source.path.stat()
        entries.append({"name": source.name, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns})
    return entries


def read_clean(paths: Iterable[str | Path], section: recipe.Corpus, language: str) -> Iterator[str]:
    """Normalised sentences of any text, neither filtered nor de-duplicated.

    Args:
        paths: files, directories or 'hub:NAME'.
        section: columns, limits and sentence splitting; its own `text` is not read.
        language: BCP 47 code.

    Raises:
        RecipeError: the language code is not valid.
        DataError: a file cannot be read.
    """
    split = sentences.splitter(language, split_sentences=section.split_sentences)
    reading = Reading()
    for source in readers.resolve(paths):
        for document in readers.read(source, section, reading):
            yield from split(document.text)
    for reason, count in reading.dropped.items():
        if reason != EMPTY:
            logger.warning("%s documents left out: %s", f"{count:,}", reason)


def prepare(section: recipe.Corpus, language: str, out: Path) -> dict[str, Any]:
    """Read, clean, filter, de-duplicate and split the corpus.

    The same inputs give the same bytes. Adding text moves no document to another split. A corpus
    that `lingraft corpus` made with the same settings is taken as it is.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        out: an existing folder; gets SPLIT.txt and SPLIT.documents.npy.

    Returns:
        Plain data: language, scripts, sources (name, bytes, documents), documents, sentences_in,
        dropped, changed and subset (counts by reason), splits (documents, sentences, characters).

    Raises:
        RecipeError: the language or a script is not valid.
        DataError: something cannot be read or written, the text is in another script, or a split
            is empty.
    """
    made = finished.corpus_of(section, language)
    if made is not None:
        return finished.adopt(made, section, out)
    funnel = Funnel(section, language)
    sources = readers.resolve(section.text)
    try:
        with contextlib.ExitStack() as stack:
            files = {name: SplitFile(out / f"{name}.txt") for name in SPLITS}
            for file in files.values():
                stack.callback(file.close)
            read = _fill(sources, funnel, files)
        counts = {name: file.save() for name, file in files.items()}
        subset: dict[str, int] = {}
        if section.sentences is not None:
            before = counts["train"]["sentences"]
            counts["train"] = cut(files["train"], funnel.positions, section.sentences)
            subset[NOT_IN_SUBSET] = before - counts["train"]["sentences"]
    except OSError as error:
        raise DataError(
            f"{error.filename or out}: cannot be written: {error.strerror or error}; "
            "make room or choose another place; nothing was kept"
        ) from None
    result = {
        "language": language,
        "scripts": list(funnel.filter.scripts),
        "sources": read,
        "documents": funnel.reading.documents,
        "sentences_in": funnel.sentences_in,
        "dropped": dict(sorted((funnel.tally.dropped + funnel.reading.dropped).items())),
        "changed": dict(sorted(funnel.tally.changed.items())),
        "subset": subset,
        "splits": counts,
    }
    log_result(result)
    check_result(result, section)
    return result


@dataclass
class Batch:
    """Documents that wait to be filtered together, since numpy counts in bulk much faster."""

    sentences: list[str] = field(default_factory=list)
    documents: list[tuple[str, int]] = field(default_factory=list)

    def add(self, document_id: str, document: list[str]) -> None:
        """Append a document's sentences."""
        self.sentences += document
        self.documents.append((document_id, len(document)))


class Funnel:
    """What comes in, what is dropped and why, what goes on into the splits.

    Attributes:
        filter: judges sentences.
        reading: counts of the readers.
        tally: sentences (and documents that repeat themselves or others) left out, by reason.
        sentences_in: sentences before any filter.
        positions: for each training sentence its place in [0, 1) in the order of nested subsets;
            empty when all are wanted.
    """

    def __init__(self, section: recipe.Corpus, language: str) -> None:
        self.section = section
        self.filter = SentenceFilter(section, language)
        self.reading = Reading()
        self.tally = Tally()
        self.steps = list(document_steps(section, self.tally).values())
        self.sentences_in = 0
        self.positions: array[float] = array("d")
        self.seen = dedup.Seen()
        self.near = NearDuplicates() if section.near_duplicates else None

    def documents(self, source: readers.Source) -> Iterator[readers.Document]:
        """The documents of a source that go on to be cut into sentences."""
        documents = readers.read(source, self.section, self.reading)
        for step in self.steps:
            documents = step(documents)
        if self.near is None:
            return documents
        return _without_near_duplicates(documents, self.near, self.tally)

    def pour(self, batch: Batch, files: dict[Split, SplitFile]) -> None:
        """Filter a batch and write what is kept."""
        codes = self._codes(batch.sentences)
        for code, count in enumerate(np.bincount(codes, minlength=len(clean.REASONS)).tolist()):
            if code and count:
                self.tally.dropped[clean.REASONS[code]] += count
        self.sentences_in += len(codes)
        kept = (codes == 0).tolist()
        start = 0
        for document_id, length in batch.documents:
            indices = [index for index in range(length) if kept[start + index]]
            side = split_of(
                document_id, self.section.split_seed, self.section.valid, self.section.test
            )
            files[side].write([batch.sentences[start + index] for index in indices])
            if side == "train" and self.section.sentences is not None:
                self.positions.extend(self._position(document_id, index) for index in indices)
            start += length

    def _codes(self, batch: list[str]) -> NDArray[np.int8]:
        codes = self.filter.codes(batch)
        if self.section.deduplicate:
            kept = np.flatnonzero(codes == 0)
            fresh = self.seen.fresh(dedup.hashes(batch[index] for index in kept))
            codes[kept[~fresh]] = clean.REASONS.index(clean.DUPLICATE)
        return codes

    def _position(self, document_id: str, index: int) -> float:
        return position(f"{document_id}#{index}", self.section.split_seed, "subset")


def _without_near_duplicates(
    documents: Iterator[readers.Document], near: NearDuplicates, tally: Tally
) -> Iterator[readers.Document]:
    while batch := list(itertools.islice(documents, BATCH_DOCUMENTS)):
        fresh = near.fresh([document.text for document in batch])
        for document, kept in zip(batch, fresh.tolist(), strict=True):
            if kept:
                yield document
            else:
                tally.drop(NEAR_DUPLICATE, document.text)


def _fill(
    sources: Sequence[readers.Source],
    funnel: Funnel,
    files: dict[Split, SplitFile],
) -> list[dict[str, Any]]:
    """Pour every source through the funnel; name, bytes and documents of each."""
    sizes = [source.path.stat().st_size if source.path else 0 for source in sources]
    on_disk = all(source.path is not None for source in sources)
    reading, batch, read = funnel.reading, Batch(), []
    with progress("corpus", sum(sizes) / 1e6 if on_disk else None, "MB") as ticker:
        for source in sources:
            documents_before, bytes_before = reading.documents, reading.bytes_read
            for document in funnel.documents(source):
                pieces = funnel.filter.split(document.text)
                if not pieces:
                    reading.dropped[EMPTY] += 1
                    continue
                batch.add(document.id, pieces)
                if len(batch.sentences) >= BATCH_SENTENCES:
                    funnel.pour(batch, files)
                    batch = Batch()
                if reading.documents % PROGRESS_EVERY_DOCUMENTS == 0:
                    ticker.update(reading.bytes_read / 1e6)
            ticker.update(reading.bytes_read / 1e6)
            read.append(
                {
                    "name": source.name,
                    "bytes": reading.bytes_read - bytes_before,
                    "documents": reading.documents - documents_before,
                }
            )
    funnel.pour(batch, files)
    return read


def log_result(result: dict[str, Any]) -> None:
    """Tell the whole way from documents to splits, one line a fact."""
    logger.info(
        "corpus: %s documents and %s sentences from %s",
        f"{result['documents']:,}",
        f"{result['sentences_in']:,}",
        ", ".join(source["name"] for source in result["sources"][:5])
        + (", …" if len(result["sources"]) > 5 else ""),
    )
    for reason, count in (result["dropped"] | result["subset"]).items():
        logger.info("corpus: %s left out: %s", f"{count:,}", reason)
    for name, counts in result["splits"].items():
        logger.info(
            "corpus: %s: %s sentences of %s documents, %s characters",
            name,
            *(f"{counts[key]:,}" for key in ("sentences", "documents", "characters")),
        )


def check_result(result: dict[str, Any], section: recipe.Corpus) -> None:
    """Refuse a corpus that cannot be trained on.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in result["dropped"].items())
    counts = (
        f"{result['documents']:,} documents, {result['sentences_in']:,} sentences; "
        f"dropped: {dropped or 'none'}"
    )
    wrong = result["dropped"].get(clean.WRONG_SCRIPT, 0)
    if wrong > WRONG_SCRIPT_LIMIT * max(result["sentences_in"], 1):
        raise DataError(
            f"corpus: {wrong:,} of {result['sentences_in']:,} sentences are not in "
            f"{'/'.join(result['scripts'])}, the script of language '{result['language']}' "
            f"({counts}); check language and corpus.text, or set corpus.scripts"
        )
    asked = {"train": 1.0, "valid": section.valid, "test": section.test}
    for name in SPLITS:
        if asked[name] > 0 and not result["splits"][name]["sentences"]:
            raise DataError(f"corpus: no {name} sentence is left ({counts}); {_advice(name)}")


def _advice(name: Split) -> str:
    if name == "train":
        return "check corpus.text and the filters in [corpus]"
    return (
        f"give more documents, raise corpus.{name}, "
        'or cut files into more documents (corpus.document = "line")'
    )
