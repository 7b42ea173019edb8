"""Steps of datatrove: a part is read, cleaned, cut, judged, stored; then what is kept is written.

A part is three files: `NAME.jsonl` (id, metadata, the sentences that passed every filter, their
places), `NAME.documents.npy` and `NAME.sentences.npy` (by which `decisions` finds duplicates); and
`NAME.json`, its counts, which mark it as done.
"""

from __future__ import annotations

import contextlib
import functools
import json
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from datatrove.pipeline.base import PipelineStep

from lingraft.corpus.cleaning import clean, dedup, near_duplicates, personal, scripts
from lingraft.corpus.cleaning.notices import Notices
from lingraft.corpus.cleaning.steps import SentenceFilter, Tally, add, cleaned
from lingraft.corpus.engine.decisions import (
    DOCUMENTS,
    SENTENCE_REASONS,
    SENTENCE_TYPE,
    SENTENCES,
    Decider,
    Stored,
    document_type,
    read_bounds,
    stored,
)
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.readers.lines import EMPTY, Reading
from lingraft.corpus.result import PLACES
from lingraft.corpus.split import SPLITS, position
from lingraft.errors import writing
from lingraft.rundir import replacing, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from numpy.typing import NDArray

    from lingraft.corpus.engine.plan import Folder, Plan
    from lingraft.corpus.readers.documents import Document
    from lingraft.corpus.split import Split

BATCH_SENTENCES = 16_384
TOP_DOMAINS = 1_000
AGAIN = "make room, then run the same command again"
writing_errors = functools.partial(writing, mend=AGAIN, inside=True)


class Step(PipelineStep):
    """A step of a job. It reads the plan from the folder, so it can be sent to another machine.

    Args:
        folder: of the job.
        counts: shared by the steps of a pipeline.
    """

    type = "lingraft"

    def __init__(self, folder: Folder, counts: dict[str, Any]) -> None:
        self.name = type(self).__name__
        super().__init__()
        self.folder, self.counts = folder, counts

    @property
    def plan(self) -> Plan:
        return self.folder.plan()


class Read(Step):
    """Reads the documents of a part."""

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        self.counts.clear()
        reading, sources = Reading(), {}
        for source in self.plan.parts[rank].sources:
            before, size = reading.documents, 0
            for document in readers.read(source, self.plan.section, reading):
                size += len(document.text.encode("utf-8", "surrogatepass"))
                yield document
            if source.path is not None:
                start, end = source.span or (0, source.path.stat().st_size)
                size = end - start
            sources[source.name] = {"bytes": size, "documents": reading.documents - before}
        counts = {"documents": reading.documents, "dropped": reading.dropped, "sources": sources}
        counts["changed"] = reading.changed
        hide = self.plan.section.mask_personal_data
        samples = {
            reason: [personal.mask(text)[0] if hide else text for text in texts]
            for reason, texts in reading.samples.items()
        }
        add(self.counts, counts | {"samples": samples})


class Clean(Step):
    """Repairs, masks and drops whole documents."""

    def run(
        self, data: Iterable[Document], rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        tally = Tally()
        yield from cleaned(data, self.plan.section, tally)
        add(self.counts, vars(tally))


class Batch(NamedTuple):
    """Documents, cut into sentences of which each is judged."""

    documents: list[Document]
    pieces: list[list[str]]
    owners: NDArray[np.int64]
    """For each sentence the index of its document."""
    codes: NDArray[np.int8]
    """For each sentence the index in `clean.REASONS` of why it is left out."""


class Judge(Step):
    """Cuts documents into sentences and judges these, some thousands at a time."""

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
        judge = _judge(self.folder, self.plan.fingerprint)
        before, notices, tally = judge.mix, Notices(), Tally()
        for documents, pieces in _batches(data, judge):
            sentences = [sentence for own in pieces for sentence in own]
            owners = np.repeat(np.arange(len(pieces)), list(map(len, pieces)))
            codes = judge.codes(sentences, owners)
            for index in np.flatnonzero(codes).tolist():
                tally.show(clean.REASONS[codes[index]], sentences[index])
            of_codes = (
                [sentences[n] for n in np.flatnonzero(codes == clean.REASONS.index(reason))]
                for reason in (clean.KEPT, clean.WRONG_SCRIPT)
            )
            notices.sort(*of_codes)
            yield Batch(documents, pieces, owners, codes)
        languages = Counter(judge.mix) - Counter(before)
        counts = {"samples": tally.samples, "notices": vars(notices), "languages": languages}
        add(self.counts, counts)


@functools.lru_cache(maxsize=1)
def _judge(folder: Folder, fingerprint: str) -> SentenceFilter:
    """One for all parts that a process cleans, since it may hold the texts of evaluations."""
    return SentenceFilter(folder.plan().section, folder.plan().language)


def _batches(
    documents: Iterable[Document], judge: SentenceFilter
) -> Iterator[tuple[list[Document], list[list[str]]]]:
    batch: list[Document] = []
    pieces: list[list[str]] = []
    size = 0
    for document in documents:
        batch.append(document)
        pieces.append(judge.split(document.text))
        size += len(pieces[-1])
        if size >= BATCH_SENTENCES:
            yield batch, pieces
            batch, pieces, size = [], [], 0
    if batch:
        yield batch, pieces


class Store(Step):
    """Stores what the filters leave, and what duplicates are found by."""

    def run(self, data: Iterable[Batch], rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        done = self.folder.part(rank, ".json")
        if done.is_file():
            return
        kinds = {DOCUMENTS: document_type(self.plan.section), SENTENCES: SENTENCE_TYPE}
        arrays = {kind: [np.zeros(0, dtype)] for kind, dtype in kinds.items()}
        with writing_errors(self.folder.out):
            rows = self.folder.part(rank, ".jsonl")
            with replacing(rows) as partial, partial.open("w", encoding="utf-8") as file:
                for batch in data:
                    arrays[DOCUMENTS].append(self._documents(batch, kinds[DOCUMENTS]))
                    arrays[SENTENCES].append(self._sentences(batch, file))
            for kind, pieces in arrays.items():
                np.save(self.folder.part(rank, f".{kind}.npy"), np.concatenate(pieces))
            write_json(done, self.counts)
        yield from ()

    def _documents(self, batch: Batch, dtype: np.dtype[Any]) -> NDArray[Any]:
        section, reasons = self.plan.section, len(clean.REASONS)
        found = np.zeros(len(batch.documents), dtype)
        found["place"] = [position(one.id, section.split_seed) for one in batch.documents]
        cells = batch.owners * reasons + batch.codes
        found["tally"] = np.bincount(cells, minlength=found["tally"].size).reshape(-1, reasons)
        if section.near_duplicates:
            found["bands"] = [near_duplicates.band_keys(one.text) for one in batch.documents]
        return found

    def _sentences(self, batch: Batch, file: TextIO) -> NDArray[Any]:
        """Write the documents that have sentences left; what is found of these."""
        section, start = self.plan.section, 0
        kept: list[str] = []
        positions = array("d")
        for document, pieces in zip(batch.documents, batch.pieces, strict=True):
            places = np.flatnonzero(batch.codes[start : start + len(pieces)] == 0).tolist()
            start += len(pieces)
            if not places:
                continue
            sentences = [pieces[place] for place in places]
            kept += sentences
            row = {"id": document.id, "metadata": document.metadata, "sentences": sentences}
            file.write(json.dumps(row | {"places": places}, ensure_ascii=False) + "\n")
            if section.max_train_sentences is not None:
                names = subset_names(document.id, places, whole=section.whole_documents)
                positions.extend(position(name, section.split_seed, "subset") for name in names)
        found = np.zeros(len(kept), SENTENCE_TYPE)
        found["hash"], found["size"] = dedup.hashes(kept), list(map(len, kept))
        found["position"] = positions or 0.0
        return found


def subset_names(name: str, places: Iterable[int], *, whole: bool) -> Iterator[str]:
    """Name what the order of a subset goes by: a sentence, or its document where it is whole."""
    return (name if whole else f"{name}#{place}" for place in places)


class Decide(Step):
    """Decides over all parts what is held out and what occurred before."""

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        with writing_errors(self.folder.out):
            Decider(self.folder).decide()
        yield from ()


@functools.lru_cache(maxsize=1)
def _parts(folder: Folder, fingerprint: str) -> list[Stored]:
    """One list for all parts that a process writes, since every part is looked into for it."""
    return list(stored(folder))


class Kept(Step):
    """Gives the documents of a part with the sentences that stay; the rest is counted."""

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[dict[str, Any]]:
        self.counts.clear()
        part = _parts(self.folder, self.plan.fingerprint)[rank]
        near, codes = (
            np.load(self.folder.decision(kind), "r")[part.places[kind]]
            for kind in (DOCUMENTS, SENTENCES)
        )
        tallies, tally, start = part.column(DOCUMENTS, "tally"), Tally(), 0
        self._count(tallies, ~near)
        numbers = np.flatnonzero(tallies[:, 0]).tolist()
        with self.folder.part(rank, ".jsonl").open(encoding="utf-8") as lines:
            for line, number in zip(lines, numbers, strict=True):
                row = json.loads(line)
                sentences, places = row["sentences"], row["places"]
                own = codes[start : start + len(sentences)].tolist()
                start += len(sentences)
                if near[number]:
                    tally.show(near_duplicates.NEAR_DUPLICATE, " ".join(sentences))
                    continue
                for code, sentence in zip(own, sentences, strict=True):
                    if code:
                        tally.drop(SENTENCE_REASONS[code], sentence)
                left = [index for index, code in enumerate(own) if not code]
                if left:
                    texts = [sentences[index] for index in left]
                    yield row | {"sentences": texts, "places": [places[index] for index in left]}
        add(self.counts, vars(tally))

    def _count(self, tallies: NDArray[np.int32], fresh: NDArray[np.bool_]) -> None:
        """Add up what the filters dropped from documents that are no near-duplicates."""
        table = tallies[fresh]
        of_reasons = zip(clean.REASONS[1:], table.sum(axis=0).tolist()[1:], strict=True)
        dropped = Counter(dict(of_reasons))
        dropped[near_duplicates.NEAR_DUPLICATE] = int((~fresh).sum())
        dropped[EMPTY] = int((table.sum(axis=1) == 0).sum())
        add(self.counts, {"sentences_in": int(table.sum()), "dropped": +dropped})


class Write(Step):
    """Writes the documents that are kept as JSON lines by split, and then their counts."""

    def run(
        self, data: Iterable[dict[str, Any]], rank: int = 0, world_size: int = 1
    ) -> Iterator[Any]:
        section, limits = self.plan.section, read_bounds(self.folder)
        files: dict[Split, TextIO] = {}
        measured = Measured()
        with writing_errors(self.folder.out), contextlib.ExitStack() as stack:
            for document in data:
                sentences, places = document["sentences"], document["places"]
                split = limits.side(position(document["id"], section.split_seed))
                if split not in files:
                    path = self.folder.shard(split, rank)
                    partial = stack.enter_context(replacing(path))
                    files[split] = stack.enter_context(partial.open("w", encoding="utf-8"))
                row = {"id": document["id"], **document["metadata"], "text": "\n".join(sentences)}
                if places[-1] >= len(places):  # something before the last one was left out
                    row[PLACES] = places
                files[split].write(json.dumps(row, ensure_ascii=False) + "\n")
                measured.take(split, str(row.get("url") or row["id"]), sentences)
        add(self.counts, measured.counts())
        with writing_errors(self.folder.out):
            write_json(self.folder.written(rank), self.counts)
        yield from ()


class Measured:
    """Counts what is written."""

    def __init__(self) -> None:
        kinds = ("documents", "sentences", "characters")
        self.splits: dict[Split, dict[str, int]] = {
            name: dict.fromkeys(kinds, 0) for name in SPLITS
        }
        self.documents, self.lengths = Counter[str](), Counter[str]()
        self.scripts, self.domains = Counter[str](), Counter[str]()
        self.batch: list[str] = []

    def take(self, split: Split, address: str, sentences: Sequence[str]) -> None:
        """Count a document."""
        own = self.splits[split]
        own["documents"] += 1
        own["sentences"] += len(sentences)
        own["characters"] += sum(map(len, sentences))
        self.documents[_digits(len(sentences))] += 1
        self.domains.update(filter(None, [_host(address)]))
        self.batch += sentences
        if len(self.batch) >= BATCH_SENTENCES:
            self._flush()

    def _flush(self) -> None:
        self.lengths.update(_digits(len(sentence)) for sentence in self.batch)
        self.scripts.update(scripts.letters_by_script("".join(self.batch)))
        self.batch = []

    def counts(self) -> dict[str, Any]:
        """All, as plain data."""
        self._flush()
        return {
            "splits": self.splits,
            "lengths": self.lengths,
            "documents_by_sentences": self.documents,
            "letters_by_script": self.scripts,
            "domains": dict(self.domains.most_common(TOP_DOMAINS)),
        }


def _digits(number: int) -> str:
    """The smallest number with so many binary digits."""
    return str(1 << number.bit_length() - 1)


def _host(address: str) -> str:
    """The host of a web address, which wget puts into <…>; '' of anything else."""
    address = address.removeprefix("<").removesuffix(">")
    if not address.startswith(("http://", "https://")):
        return ""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
