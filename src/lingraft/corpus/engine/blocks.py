"""The passes of a corpus as datatrove pipeline blocks.

datatrove has blocks of its own for repetition, near-duplicates and language, which need a word
tokenizer or a model for each language from further packages, and its executors know no order of
parts, so that which of two duplicates stays depends on the cut. The filters here are lingraft's,
which `lingraft adapt` uses too; what is datatrove's are the form of the blocks, the documents that
go from one to the next, the statistics, and the executors.

Every block reads the plan from the folder, so that it can be sent to another machine as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep

from lingraft.corpus.cleaning.steps import SentenceFilter, document_steps
from lingraft.corpus.engine import duplicates, parts, shards
from lingraft.corpus.engine.plan import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Plan

SENTENCES, PLACES = "sentences", "places"
PASSES = {
    duplicates.SPLIT: "split",
    duplicates.NEAR: "near-duplicates",
    duplicates.EXACT: "duplicates",
    duplicates.SUBSET: "subset",
}


class ReadPart(PipelineStep):
    """Pass 1: the documents of the part whose number is the task's."""

    name = "lingraft sources"
    type = "reader"

    def __init__(self, out: str, progress: parts.Progress) -> None:
        super().__init__()
        self.folder = Folder(Path(out))
        self.progress = progress

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        plan = self.folder.plan()
        for document in parts.documents(plan.parts[rank], plan.section, self.progress):
            self.stat_update("total")
            yield Document(text=document.text, id=document.id, metadata=dict(document.metadata))


class Clean(PipelineStep):
    """Pass 1: one of the steps on whole documents (`cleaning.document_steps`)."""

    type = "cleaner"

    def __init__(self, out: str, name: str, progress: parts.Progress) -> None:
        self.name = name
        super().__init__()
        self.folder = Folder(Path(out))
        self.progress = progress

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        step = document_steps(self.folder.plan().section, self.progress.tally)[self.name]
        for document in step(data):
            self.stat_update("forwarded")
            yield document


class NearDuplicateKeys(PipelineStep):
    """Pass 1: puts the keys of each document's bands aside."""

    name = "near-duplicate keys"
    type = "signature"

    def __init__(self, progress: parts.Progress) -> None:
        super().__init__()
        self.progress = progress

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        yield from parts.keyed(data, self.progress)


class WritePart(PipelineStep):
    """Pass 1: cuts documents into sentences, judges them and writes the part.

    A part that is there already is not read again.
    """

    name = "sentence filters"
    type = "writer"

    def __init__(self, out: str, progress: parts.Progress) -> None:
        super().__init__()
        self.folder = Folder(Path(out))
        self.progress = progress

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        target = self.folder.part(rank)
        if not target.exists():
            plan = self.folder.plan()
            judge = SentenceFilter(plan.section, plan.language)
            parts.write(data, plan.section, judge, self.progress, target)
        yield from ()


class Decide(PipelineStep):
    """Pass 2: one task of a decision over all parts."""

    type = "duplicates"

    def __init__(self, out: str, name: str) -> None:
        self.name = name
        super().__init__()
        self.folder = Folder(Path(out))

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        if not self.folder.decision(self.name, rank).exists():
            decide, _ = duplicates.tasks(self.folder.plan())[self.name]
            decide(self.folder, rank)
        yield from ()


class ReadKept(PipelineStep):
    """Pass 3: the documents of a part, with the sentences that pass 2 leaves."""

    name = "duplicates left out"
    type = "filter"

    def __init__(self, out: str, counts: shards.Counts) -> None:
        super().__init__()
        self.folder = Folder(Path(out))
        self.counts = counts

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        self.counts.clear()
        for row in shards.kept(duplicates.Decisions(self.folder), rank, self.counts):
            self.stat_update("forwarded")
            metadata = row["metadata"] | {SENTENCES: row["sentences"], PLACES: row["places"]}
            yield Document(text="\n".join(row["sentences"]), id=row["id"], metadata=metadata)


class WriteShard(PipelineStep):
    """Pass 3: writes the documents of a part by split, as JSON lines.

    A shard that is there already is not written again.
    """

    name = "shards"
    type = "writer"

    def __init__(self, out: str, counts: shards.Counts) -> None:
        super().__init__()
        self.folder = Folder(Path(out))
        self.counts = counts

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        if not self.folder.written(rank).exists():
            rows = (_row(document) for document in data)
            shards.write(rows, self.counts, self.folder, rank)
        yield from ()


class Finish(PipelineStep):
    """The last pass: adds everything up."""

    name = "counts"
    type = "summary"

    def __init__(self, out: str) -> None:
        super().__init__()
        self.folder = Folder(Path(out))

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        from lingraft.corpus.engine.summary import finish

        finish(self.folder)
        yield from ()


def _row(document: Document) -> shards.Kept:
    metadata = dict(document.metadata)
    sentences, places = metadata.pop(SENTENCES), metadata.pop(PLACES)
    return document.id, metadata, sentences, places


def passes(folder: Folder, plan: Plan) -> dict[str, tuple[list[PipelineStep], int]]:
    """The pipelines of a job, by name and in order, and how many tasks each has."""
    out, section, count = str(folder.out.absolute()), plan.section, len(plan.parts)
    counts = shards.Counts()
    found: dict[str, tuple[list[PipelineStep], int]] = {"clean": (_cleaning(out, section), count)}
    for name, (_, tasks) in duplicates.tasks(plan).items():
        found[PASSES[name]] = ([Decide(out, name)], tasks)
    found["write"] = ([ReadKept(out, counts), WriteShard(out, counts)], count)
    found["finish"] = ([Finish(out)], 1)
    return found


def _cleaning(out: str, section: recipe.Corpus) -> list[PipelineStep]:
    progress = parts.Progress()
    names = document_steps(section, progress.tally)
    return [
        ReadPart(out, progress),
        *(Clean(out, name, progress) for name in names),
        *([NearDuplicateKeys(progress)] if section.near_duplicates else []),
        WritePart(out, progress),
    ]
