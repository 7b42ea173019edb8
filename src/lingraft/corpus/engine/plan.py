"""Cut the sources of a corpus into parts that can be worked on alone; the folder of its job."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lingraft import recipe  # noqa: TC001
from lingraft.corpus.inputs import digests, entry
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.documents import FINISHED
from lingraft.corpus.readers.layout import TextLayout, TextSource
from lingraft.corpus.readers.wiki.dump import spans as dump_spans
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.files import path_of, write_text
from lingraft.rundir import FORMAT, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS = 64
"""Number of parts if no other is asked for: enough for some processes to share evenly."""
SMALLEST_PART, LARGEST_PART = 1 << 20, 32 << 20
CUT_BY_LINES = (".txt", ".jsonl", ".ndjson", ".json")
PLAN = "plan.json"
EVALUATIONS = "evaluations"
"""Folder that the command puts beside the shards: the texts of tasks (`tasks.held_out`)."""


@dataclass(frozen=True)
class Part:
    """Sources, or pieces of one, that are cleaned in one go."""

    sources: tuple[TextSource, ...]
    bytes: int
    name: str
    """Fingerprint of its files: equal ones make the same of the part, whatever else is read."""


@dataclass(frozen=True)
class CorpusPlan:
    """All that the passes of a job need to know.

    Attributes:
        fingerprint: of sources, settings and format; of equal ones the corpus is the same.
        language: BCP 47 code.
        section: what to read and what to keep.
        parts: in the order of the corpus.
        evaluations: digests of the files of evaluations.
    """

    fingerprint: str
    language: str
    section: recipe.Corpus
    parts: tuple[Part, ...]
    evaluations: tuple[str, ...] = ()

    @property
    def guesses(self) -> list[str]:
        """Return how .txt files are read, where nobody said it, a line a layout."""
        if self.section.document is not None:
            return []
        sources = {source.name: source for part in self.parts for source in part.sources}
        return documents.guesses(sources.values())


PLANS = TypeAdapter(CorpusPlan)
Piece = tuple[TextSource, int]
"""A source, or a part of one, and its bytes on disk."""


def make(section: recipe.Corpus, language: str, part_bytes: int | None = None) -> CorpusPlan:
    """Cut the sources of a corpus into parts.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        part_bytes: bytes on disk that a part should have; larger files are cut where they can be.
            None takes a 64th of all, between 1 and 32 MiB.

    Raises:
        DataError: a source is missing, unreadable or of an unknown kind.
    """
    sources = documents.laid_out(documents.resolve(section.text), section)
    # By content: they may lie in the corpus's own folder, which may move.
    judged = tuple(digests(section.decontaminate))
    settings = section.model_copy(update={"decontaminate": ()})
    entries = {source.name: entry(source.name, source.path) for source in sources}
    cleaning = fingerprint(
        FORMAT["corpus"], settings.model_copy(update={"text": ()}), language, judged
    )
    sized = [(source, entries[source.name].get("bytes", 0)) for source in sources]
    total = sum(size for _, size in sized)
    size_of_part = part_bytes or min(max(total // PARTS, SMALLEST_PART), LARGEST_PART)
    parts = []
    for pieces in _cut(sized, size_of_part):
        names = [entries[one.name] | {"span": one.span, "layout": one.layout} for one, _ in pieces]
        size = sum(size for _, size in pieces)
        parts.append(Part(tuple(s for s, _ in pieces), size, fingerprint(cleaning, names)))
    absolute = tuple(str(path_of(name).absolute()) for name in section.decontaminate)
    read = [*entries.values(), *judged]
    return CorpusPlan(
        fingerprint(FORMAT["corpus"], settings, language, read, part_bytes),
        language,
        section.model_copy(update={"decontaminate": absolute}),
        tuple(parts),
        judged,
    )


def _cut(sources: Sequence[Piece], part_bytes: int) -> Iterator[list[Piece]]:
    """Give parts of about `part_bytes`: small files together, large ones cut, in their order.

    Cut are multistream bz2 dumps, and uncompressed files with a document a line.
    """
    group: list[Piece] = []
    for source, size in sources:
        pieces = _pieces(source, size, part_bytes)
        is_cut = len(pieces) > 1
        if group and (is_cut or sum(size for _, size in group) + pieces[0][1] > part_bytes):
            yield group
            group = []
        if is_cut:
            yield from ([piece] for piece in pieces)
        else:
            group += pieces
    if group:
        yield group


def _pieces(source: TextSource, size: int, part_bytes: int) -> list[Piece]:
    if source.path is None:
        return [(source, 0)]
    source = replace(source, path=source.path.absolute())
    spans = []
    if size > part_bytes and source.format == ".xml":
        spans = dump_spans(source.file, part_bytes)
    elif size > part_bytes and _has_a_document_a_line(source):
        spans = [(at, min(at + part_bytes, size)) for at in range(0, size, part_bytes)]
    if len(spans) < 2:
        return [(source, size)]
    return [(replace(source, span=span), span[1] - span[0]) for span in spans]


def _has_a_document_a_line(source: TextSource) -> bool:
    is_plain = source.file.suffix.lower() in CUT_BY_LINES
    return is_plain and source.layout in (None, TextLayout(), TextLayout(numbered=True))


@dataclass(frozen=True)
class Folder:
    """The folder of a job.

    Attributes:
        out: that of the corpus; what is in `work` is put in its place when all is done.
    """

    out: Path

    @property
    def work(self) -> Path:
        return self.out / "work"

    @property
    def done(self) -> Path:
        """Return the file that is written last: how the corpus was made, what became of it."""
        return self.out / FINISHED

    def part(self, rank: int, ending: str) -> Path:
        """Return a file of what is left of a part when it has been cleaned."""
        return self.work / "parts" / (self.plan().parts[rank].name + ending)

    def decision(self, name: str) -> Path:
        """Return the file of what was decided over all parts."""
        return self.work / "decisions" / f"{name}.npy"

    def written(self, rank: int) -> Path:
        """Return the counts of a shard that has been written."""
        return self.work / "written" / f"{rank:05d}.json"

    def shard(self, split: str, rank: int) -> Path:
        """Return the documents of a split that come from one part."""
        return self.work / split / f"{rank:05d}.jsonl"

    def plan(self) -> CorpusPlan:
        """Return the plan that was saved."""
        path = self.work / PLAN
        return _load(path, path.stat().st_mtime_ns)

    def check(self) -> None:
        """Refuse a folder of other things.

        Raises:
            DataError: it holds something, and no corpus of lingraft.
        """
        if _made_of(self.done) or _made_of(self.work / PLAN):
            return
        known = {self.out / name for name in (".lock", EVALUATIONS)}
        if not [path for path in self.work.glob("*") if not path.name.startswith(".")]:
            known.add(self.work)  # a kill came before the plan
        for path in sorted(self.out.glob("*")):
            if path not in known:
                raise DataError(
                    f"{self.out}: is not empty and holds no corpus of lingraft ({path.name} …); "
                    "choose another --out"
                )

    def begin(self, plan: CorpusPlan, *, force: bool) -> bool:
        """Make the folder ready for a job; return False where it has ended already.

        What the same job has done stays; of another one that has not ended the parts that are parts
        of this one, too.

        Raises:
            DataError: it holds another corpus or other files, or a source lies in it.
        """
        self.check()
        for source in (source for part in plan.parts for source in part.sources):
            if source.path is not None and self.out.resolve() in source.path.resolve().parents:
                raise DataError(
                    f"{source.name}: is a source inside {self.out}, and would be replaced; choose "
                    "another --out"
                )
        finished, begun = _made_of(self.done), _made_of(self.work / PLAN)
        if finished == plan.fingerprint and (begun == finished or not force):
            return False
        if finished and not force:
            raise DataError(
                f"{self.out}: holds a corpus of other sources or settings; "
                "choose another --out, or delete it with --force"
            )
        if begun != plan.fingerprint:
            for path in self.work.glob("*"):
                if path.is_dir() and path.name != "parts":
                    shutil.rmtree(path)
            self.work.mkdir(parents=True, exist_ok=True)
            write_text(self.work / PLAN, PLANS.dump_json(plan).decode())
        for name in ("parts", "decisions", "written"):
            (self.work / name).mkdir(exist_ok=True)
        return True

    def end(self) -> None:
        """Put the shards in the place of those that are there; a kill half-way loses none."""
        if self.done.is_file():
            for split in SPLITS:
                shutil.rmtree(self.out / split, ignore_errors=True)
            self.done.unlink()
        for split in SPLITS:
            if (self.work / split).is_dir():
                (self.work / split).replace(self.out / split)


def _made_of(path: Path) -> str | None:
    """Return the fingerprint in a corpus.json or plan; None without one, of another's file too."""
    try:
        data: Any = json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:
        return None
    is_ours = isinstance(data, dict) and {"fingerprint", "language"} <= data.keys()
    return str(data["fingerprint"]) if is_ours else None


@functools.lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> CorpusPlan:
    return PLANS.validate_json(path.read_bytes())
