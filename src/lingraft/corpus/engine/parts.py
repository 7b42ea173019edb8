"""Pass 1: a part is read and cleaned, and what duplicates are found by is put aside.

A part's folder holds

| file | what |
|---|---|
| `documents.jsonl` | id, metadata, the sentences that passed every filter, and their places |
| `hashes.npy` | uint64, of each of these sentences |
| `sizes.npy` | int64, where documents are kept whole: characters of each of these sentences |
| `tallies.npy` | int32 [documents, reasons], sentences of each document by `clean.REASONS` |
| `bands.npy` | uint64 [documents, bands], where near-duplicates are looked for |
| `split.npy` | float64, of each document, its place in the order of the split |
| `positions.npy` | float64, where a number of sentences is asked for: place in its order |
| `counts.json` | documents, bytes, what was dropped |

and appears under its name when it is whole.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.cleaning import clean, dedup, near_duplicates
from lingraft.corpus.cleaning.notices import Notices
from lingraft.corpus.cleaning.steps import SentenceFilter, Tally
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.split import position
from lingraft.errors import writing
from lingraft.rundir import write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import TextIOWrapper
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft import recipe
    from lingraft.corpus.engine.cutting import Part
    from lingraft.corpus.readers.documents import Document
    from lingraft.log import Ticker

BATCH_SENTENCES = 16_384
PROGRESS_EVERY_DOCUMENTS = 256


@dataclass
class Progress:
    """What is counted before documents are cut into sentences.

    Attributes:
        reading: what the readers count.
        tally: what the steps on documents count.
        sources: name, bytes and documents of each source.
        ticker: is told how much has been read.
    """

    reading: Reading = field(default_factory=Reading)
    tally: Tally = field(default_factory=Tally)
    sources: list[dict[str, Any]] = field(default_factory=list)
    ticker: Ticker | None = None


def documents(part: Part, section: recipe.Corpus, progress: Progress) -> Iterator[Document]:
    """The documents of a part.

    Raises:
        DataError: a source cannot be read or is cut short.
    """
    reading, ticker = progress.reading, progress.ticker
    done = ticker.count if ticker is not None else 0.0
    for source in part.sources:
        documents_before, bytes_before = reading.documents, reading.bytes_read
        for document in readers.read(source, section, reading):
            if ticker is not None and reading.documents % PROGRESS_EVERY_DOCUMENTS == 0:
                ticker.update(done + reading.bytes_read / 1e6)
            yield document
        size = reading.bytes_read - bytes_before
        if source.span is not None:  # reading runs ahead, past the end of the part
            size = source.span[1] - source.span[0]
        progress.sources.append(
            {"name": source.name, "bytes": size, "documents": reading.documents - documents_before}
        )


AGAIN = "make room, then run the same command again"
writing_errors = functools.partial(writing, mend=AGAIN, inside=True)


@contextlib.contextmanager
def fresh_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` that gets its name at the end, and is deleted if there is no end.

    It is deleted too where another task has made the same meanwhile: a cluster may start one twice.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with writing_errors(path):
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
    try:
        yield partial
        with writing_errors(path):
            shutil.rmtree(partial) if path.exists() else partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write(
    clean_documents: Iterable[Document], judge: SentenceFilter, progress: Progress, folder: Path
) -> None:
    """Cut documents into sentences, judge these, and write the part's folder.

    Args:
        clean_documents: documents, in order.
        judge: cuts and judges.
        progress: what was counted on the way here.
        folder: does not exist yet.

    Raises:
        DataError: a source cannot be read, or the folder cannot be written.
    """
    with fresh_folder(folder) as partial:
        writer = PartWriter(partial, judge)
        with contextlib.closing(writer):
            for document in clean_documents:
                with writing_errors(folder):
                    writer.add(document)
            with writing_errors(folder):
                writer.finish(progress)


class PartWriter:
    """Writes the files of a part.

    Args:
        folder: an empty one.
        judge: cuts and judges.
    """

    def __init__(self, folder: Path, judge: SentenceFilter) -> None:
        self.folder = folder
        self.section = judge.section
        self.judge = judge
        self.languages_before = judge.mix
        self.tally, self.notices = Tally(), Notices()
        self.hashes: list[NDArray[np.uint64]] = []
        self.sizes: array[int] = array("q")
        self.tallies: list[NDArray[np.int32]] = []
        self.places: array[float] = array("d")
        self.positions: array[float] = array("d")
        self.bands: list[NDArray[np.uint64]] = []
        self.waiting: list[tuple[Document, list[str]]] = []
        self.sentences_waiting = 0
        with writing_errors(folder):
            self.file: TextIOWrapper = (folder / "documents.jsonl").open("w", encoding="utf-8")

    def add(self, document: Document) -> None:
        """Take one document."""
        self.notices.read(document.text)
        if self.section.near_duplicates:
            self.bands.append(near_duplicates.band_keys(document.text))
        pieces = self.judge.split(document.text)
        self.waiting.append((document, pieces))
        self.sentences_waiting += len(pieces)
        if self.sentences_waiting >= BATCH_SENTENCES:
            self._flush()

    def close(self) -> None:
        """Close the text; what a full disk refuses shows up here at the latest."""
        with writing_errors(self.folder):
            self.file.close()

    def _flush(self) -> None:
        batch = [sentence for _, pieces in self.waiting for sentence in pieces]
        lengths = [len(pieces) for _, pieces in self.waiting]
        owners = np.repeat(np.arange(len(lengths)), lengths)
        codes = self.judge.codes(batch, owners)
        for index in np.flatnonzero(codes).tolist():
            self.tally.show(clean.REASONS[codes[index]], batch[index])
        shape = len(lengths), len(clean.REASONS)
        table = np.bincount(owners * shape[1] + codes, minlength=shape[0] * shape[1])
        self.tallies.append(table.reshape(shape).astype(np.int32))
        self.hashes.append(dedup.hashes(batch[i] for i in np.flatnonzero(codes == 0).tolist()))
        of_codes = (
            (batch[index] for index in np.flatnonzero(codes == clean.REASONS.index(reason)))
            for reason in (clean.KEPT, clean.WRONG_SCRIPT)
        )
        self.notices.sort(*of_codes)
        start = 0
        for document, pieces in self.waiting:
            indices = np.flatnonzero(codes[start : start + len(pieces)] == 0).tolist()
            start += len(pieces)
            self.places.append(position(document.id, self.section.split_seed))
            if indices:
                sentences = [pieces[index] for index in indices]
                self.sizes.extend(map(len, sentences))
                row = {"id": document.id, "metadata": document.metadata, "sentences": sentences}
                self.file.write(json.dumps(row | {"places": indices}, ensure_ascii=False) + "\n")
                self._place(document.id, indices)
        self.waiting, self.sentences_waiting = [], 0

    def _place(self, name: str, indices: list[int]) -> None:
        if self.section.max_train_sentences is not None:
            seed = self.section.split_seed
            whole = self.section.whole_documents
            names = (name if whole else f"{name}#{index}" for index in indices)
            self.positions.extend(position(each, seed, "subset") for each in names)

    def finish(self, progress: Progress) -> None:
        """Write what is left, the arrays and the counts."""
        self._flush()
        reasons = len(clean.REASONS)
        none = np.zeros((0, reasons), np.int32)
        np.save(self.folder / "tallies.npy", np.concatenate([none, *self.tallies]))
        nothing = np.zeros(0, np.uint64)
        np.save(self.folder / "hashes.npy", np.concatenate([nothing, *self.hashes]))
        np.save(self.folder / "split.npy", np.array(self.places, np.float64))
        if self.section.whole_documents:
            np.save(self.folder / "sizes.npy", np.array(self.sizes, np.int64))
        if self.section.near_duplicates:
            keys = np.array(self.bands, np.uint64).reshape(-1, near_duplicates.BANDS)
            np.save(self.folder / "bands.npy", keys)
        if self.section.max_train_sentences is not None:
            np.save(self.folder / "positions.npy", np.array(self.positions, np.float64))
        self.tally.add(progress.tally)
        counts = {
            "documents": progress.reading.documents,
            "sources": progress.sources,
            "dropped": progress.tally.dropped + progress.reading.dropped,
            "changed": progress.tally.changed,
            "samples": self.tally.samples,
            "notices": vars(self.notices),
            "languages": Counter(self.judge.mix) - Counter(self.languages_before),
        }
        write_json(self.folder / "counts.json", counts)
