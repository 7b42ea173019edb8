"""Clean a part; decide over all parts; write what is kept of a part.

A part is three files: `NAME.jsonl` (id, the sentences that passed every filter, their
places), `NAME.documents.npy` and `NAME.sentences.npy` (by which `decisions` finds duplicates); and
`NAME.json`, its counts, which mark it as done.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from datatrove.pipeline.base import PipelineStep

from lingraft.corpus.cleaning import clean, duplicates, scripts
from lingraft.corpus.cleaning.steps import SentenceFilter
from lingraft.corpus.engine import decisions
from lingraft.corpus.engine.decisions import BOUNDS, DOCUMENTS, SENTENCES, Stored
from lingraft.corpus.readers import documents as readers
from lingraft.corpus.readers.lines import EMPTY, SAMPLES, Counts, portions
from lingraft.corpus.result import PLACES, Notices
from lingraft.corpus.split import SPLITS, Split, position
from lingraft.errors import writing
from lingraft.files import replacing, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from lingraft.corpus.engine.plan import CorpusPlan, Folder
    from lingraft.corpus.readers.documents import Document

BATCH_SENTENCES = 16_384
writing_errors = functools.partial(writing, mend="make room, then run the same command again")


def clean_part(folder: Folder, rank: int) -> None:
    """Read, cut and judge a part; store what the filters leave, and what finds duplicates."""
    done, plan = folder.part(rank, ".json"), folder.plan()
    if done.is_file():  # another plan's, in which it was the same
        return
    reading, notices, sources = Counts(), Notices(), dict[str, dict[str, int]]()
    judge = _judge(folder, plan.fingerprint)
    before, dtype = Counter(judge.mix), decisions.document_type(plan.section)
    columns = {DOCUMENTS: [np.zeros(0, dtype)], SENTENCES: [np.zeros(0, decisions.SENTENCE_TYPE)]}
    with writing_errors(folder.out), contextlib.ExitStack() as stack:
        partial = stack.enter_context(replacing(folder.part(rank, ".jsonl")))
        file = stack.enter_context(partial.open("w", encoding="utf-8"))
        read = ((one, judge.split(one.text)) for one in _documents(plan, rank, reading, sources))
        for batch in portions(read, BATCH_SENTENCES, lambda one: len(one[1])):
            documents, pieces = zip(*batch, strict=True)
            texts = [sentence for own in pieces for sentence in own]
            owners = np.repeat(np.arange(len(pieces)), list(map(len, pieces)))
            codes = judge.codes(texts, owners)
            of_reason = {code: np.flatnonzero(codes == code).tolist() for code in set(codes)}
            for code, found in of_reason.items():
                for index in found[: SAMPLES if code else 0]:
                    reading.show(clean.REASONS[code], texts[index])
            kept = [texts[n] for n in of_reason.get(0, ())]
            wrong = of_reason.get(clean.REASONS.index(clean.WRONG_SCRIPT), ())
            notices.add(kept, [texts[n] for n in wrong])
            rows = np.zeros(len(batch), dtype)
            rows["place"] = [position(one.id, plan.section.split_seed) for one in documents]
            cells = np.bincount(owners * len(clean.REASONS) + codes, minlength=rows["tally"].size)
            rows["tally"] = cells.reshape(len(batch), -1)
            if plan.section.near_duplicates:
                rows["bands"] = [duplicates.band_keys(one.text) for one in documents]
            columns[DOCUMENTS].append(rows)
            columns[SENTENCES].append(np.zeros(len(kept), decisions.SENTENCE_TYPE))
            columns[SENTENCES][-1]["hash"] = duplicates.hashes(kept)
            columns[SENTENCES][-1]["size"] = list(map(len, kept))
            start = 0
            for document, own in batch:
                places = np.flatnonzero(codes[start : start + len(own)] == 0).tolist()
                start += len(own)
                if places:
                    row = {"id": document.id, "sentences": [own[place] for place in places]}
                    file.write(json.dumps(row | {"places": places}, ensure_ascii=False) + "\n")
    with writing_errors(folder.out):
        for kind, arrays in columns.items():
            np.save(folder.part(rank, f".{kind}.npy"), np.concatenate(arrays))
        more = {"notices": vars(notices), "languages": Counter(judge.mix) - before}
        write_json(done, vars(reading) | more | {"sources": sources})


@functools.lru_cache(maxsize=1)
def _judge(folder: Folder, fingerprint: str) -> SentenceFilter:
    """Return one for all parts that a process cleans, since it may hold texts of evaluations."""
    return SentenceFilter(folder.plan().section, folder.plan().language)


def _documents(
    plan: CorpusPlan, rank: int, reading: Counts, sources: dict[str, dict[str, int]]
) -> Iterator[Document]:
    """Give the documents of a part; count its sources."""
    for source in plan.parts[rank].sources:
        before, size = reading.documents, 0
        for document in readers.read(source, plan.section, reading):
            size += len(document.text.encode("utf-8", "surrogatepass"))
            yield document
        if source.path is not None:
            start, end = source.span or (0, source.path.stat().st_size)
            size = end - start
        sources[source.name] = {"bytes": size, "documents": reading.documents - before}


def decide(folder: Folder, rank: int = 0) -> None:
    """Decide over all parts what is held out and what occurred before."""
    with writing_errors(folder.out):
        decisions.Decider(folder).decide()


@functools.lru_cache(maxsize=1)
def _parts(folder: Folder, fingerprint: str) -> list[Stored]:
    """Return one list for all parts that a process writes: every part is looked into for it."""
    return list(decisions.stored(folder))


def write_part(folder: Folder, rank: int) -> None:
    """Write the documents of a part that are kept as JSON lines by split, and then their counts."""
    section, limits, tally = folder.plan().section, decisions.read_bounds(folder), Counts()
    splits = {s: dict.fromkeys(("documents", "sentences", "characters"), 0) for s in SPLITS}
    letters, files = Counter[str](), dict[Split, TextIO]()
    part = _parts(folder, folder.plan().fingerprint)[rank]
    near, again = (
        np.load(folder.decision(kind), "r")[part.places[kind]] for kind in (DOCUMENTS, SENTENCES)
    )
    with writing_errors(folder.out), contextlib.ExitStack() as stack:
        rows = _kept(folder.part(rank, ".jsonl"), part, near, again, tally)
        for name, sentences, places in rows:
            split = limits.side(position(name, section.split_seed))
            if split not in files:
                path = folder.shard(split, rank)
                path.parent.mkdir(exist_ok=True)
                partial = stack.enter_context(replacing(path))
                files[split] = stack.enter_context(partial.open("w", encoding="utf-8"))
            row: dict[str, Any] = {"id": name, "text": "\n".join(sentences)}
            if places[-1] >= len(places):  # something before the last one was left out
                row[PLACES] = places
            files[split].write(json.dumps(row, ensure_ascii=False) + "\n")
            splits[split]["documents"] += 1
            splits[split]["sentences"] += len(sentences)
            splits[split]["characters"] += sum(map(len, sentences))
            letters.update(scripts.letters_by_script(row["text"]))
    table = part.column(DOCUMENTS, "tally")[~near]
    dropped = dict(zip(clean.REASONS[1:], table.sum(axis=0).tolist()[1:], strict=True))
    dropped[duplicates.NEAR_DUPLICATE] = int(near.sum())
    dropped[EMPTY] = int((table.sum(axis=1) == 0).sum())
    counts = {"sentences_in": int(table.sum()), "dropped": Counter(dropped) + tally.dropped}
    own = {"samples": tally.samples, "splits": splits, "letters_by_script": letters}
    with writing_errors(folder.out):
        write_json(folder.written(rank), counts | own)


def _kept(
    rows: Path, part: Stored, near: NDArray[np.bool_], again: NDArray[np.bool_], tally: Counts
) -> Iterator[tuple[str, list[str], list[int]]]:
    """Give name, sentences that stay and their places of each document; count the rest."""
    start = 0
    with rows.open(encoding="utf-8") as lines:
        for line, number in zip(lines, np.flatnonzero(part.has_text).tolist(), strict=True):
            row = json.loads(line)
            left, places = row["sentences"], row["places"]
            own = again[start : start + len(left)].tolist()
            start += len(left)
            if near[number]:
                tally.show(duplicates.NEAR_DUPLICATE, " ".join(left))
                continue
            for sentence in itertools.compress(left, own):
                tally.count(clean.DUPLICATE, sentence)
            stays = [not is_again for is_again in own]
            if any(stays):
                texts, where = (list(itertools.compress(x, stays)) for x in (left, places))
                yield row["id"], texts, where


PASSES: dict[str, Callable[[Folder, int], None]] = {
    "clean": clean_part,
    "decide": decide,
    "write": write_part,
}


def is_done(folder: Folder, name: str, rank: int) -> bool:
    """Return whether a pass on a part has left its last file."""
    last = {"clean": folder.part(rank, ".json"), "decide": folder.decision(BOUNDS)}
    return last.get(name, folder.written(rank)).is_file()


class Pass(PipelineStep):
    """A pass as a step of datatrove; it reads the plan from the folder, on any machine."""

    type = "lingraft"

    def __init__(self, folder: Folder, name: str) -> None:
        self.name = name
        super().__init__()
        self.folder = folder

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Run it on the part of a number."""
        PASSES[self.name](self.folder, rank)
        yield from ()
