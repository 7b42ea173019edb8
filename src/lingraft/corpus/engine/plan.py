"""What a corpus is made from, cut into parts that can be worked on alone; the folder of its job."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lingraft import recipe  # noqa: TC001
from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.inputs import as_finished, digests, entry, form
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.folders import FINISHED, PLAN
from lingraft.corpus.readers.layout import Layout
from lingraft.corpus.readers.lines import reading_errors
from lingraft.corpus.readers.wiki.dump import spans as dump_spans
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.pages import is_page
from lingraft.rundir import TEMPORARY, fingerprint, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS = 64
"""Where nothing else is asked for: enough for some processes to share evenly."""
SMALLEST_PART, LARGEST_PART = 1 << 20, 32 << 20
CUT_BY_LINES = (".txt", ".jsonl", ".ndjson", ".json")
WORK = ("parts", "decisions", "written")
SHARD = re.compile(r"\d{5,}\.jsonl")
EVALUATIONS, REPORT = "evaluations", "report.html"
"""What the command puts beside the shards: the texts of tasks (`tasks.held_out`), and the page."""


@dataclass(frozen=True)
class Part:
    """Sources, or pieces of one, that are cleaned in one go."""

    sources: tuple[documents.Source, ...]
    bytes: int
    name: str
    """Of its files: of equal ones what becomes of the part is the same, whatever else is read."""


@dataclass(frozen=True)
class Plan:
    """All that the steps of a job need to know.

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


PLANS = TypeAdapter(Plan)


def make(section: recipe.Corpus, language: str, part_bytes: int | None = None) -> Plan:
    """Cut the sources of a corpus into parts.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        part_bytes: bytes on disk that a part should have; larger files are cut where they can be.
            None takes a 64th of all, between 1 and 32 MiB.

    Raises:
        DataError: a source is missing, unreadable or of an unknown kind.
    """
    section = as_finished(section)
    sources = documents.laid_out(documents.resolve(section.text), section)
    # By content: they may lie in the corpus's own folder, which may move.
    judged = tuple(digests(section.decontaminate))
    settings = section.model_copy(update={"decontaminate": ()})
    entries = {source.name: entry(source.name, source.path) for source in sources}
    read = [*entries.values(), *judged]
    cleaning = fingerprint(
        *form(section), settings.model_copy(update={"text": ()}), language, judged
    )
    parts = []
    for pieces in _cut(sources, part_bytes or _part_size(sources)):
        names = [entries[one.name] | {"span": one.span, "layout": one.layout} for one, _ in pieces]
        size = sum(size for _, size in pieces)
        parts.append(Part(tuple(s for s, _ in pieces), size, fingerprint(cleaning, names)))
    return Plan(
        fingerprint(*form(section), settings, language, read, part_bytes),
        language,
        evaluations.located(section),
        tuple(parts),
        judged,
    )


def _part_size(sources: Sequence[documents.Source]) -> int:
    """Bytes on disk that a part should have: a 64th of all, between 1 and 32 MiB."""
    total = sum(_size(source) for source in sources)
    return min(max(total // PARTS, SMALLEST_PART), LARGEST_PART)


def _size(source: documents.Source) -> int:
    if source.path is None:
        return 0
    with reading_errors(source.path):
        return source.path.stat().st_size


def _cut(
    sources: Sequence[documents.Source], part_bytes: int
) -> Iterator[list[tuple[documents.Source, int]]]:
    """Parts of about `part_bytes`: small files together, large ones cut, in the order of `sources`.

    Cut are multistream bz2 dumps, and uncompressed files with a document a line.
    """
    group: list[tuple[documents.Source, int]] = []
    for source in sources:
        pieces = _pieces(source, part_bytes)
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


def _pieces(source: documents.Source, part_bytes: int) -> list[tuple[documents.Source, int]]:
    size = _size(source)
    if source.path is None:
        return [(source, 0)]
    path = source.path.absolute()
    source = replace(source, path=path)
    spans = []
    if size > part_bytes and source.format == ".xml":
        spans = dump_spans(path, part_bytes)
    elif size > part_bytes and _has_a_document_a_line(source, path):
        starts = range(0, size, part_bytes)
        spans = [(start, min(start + part_bytes, size)) for start in starts]
    if len(spans) < 2:
        return [(source, size)]
    return [(replace(source, span=span), span[1] - span[0]) for span in spans]


def _has_a_document_a_line(source: documents.Source, path: Path) -> bool:
    if path.suffix.lower() not in CUT_BY_LINES:  # compressed, or another format
        return False
    return source.layout in (None, Layout(), Layout(numbered=True))


@dataclass(frozen=True)
class Folder:
    """Where a job keeps what it has done so far.

    Attributes:
        out: the folder of the corpus; what is in `work` is put in its place when all is done.
    """

    out: Path

    @property
    def work(self) -> Path:
        return self.saved.parent

    @property
    def saved(self) -> Path:
        """The plan; as long as it is there, what lies beside it is the job's."""
        return self.out / PLAN

    @property
    def done(self) -> Path:
        """Written last; says how the corpus was made and what became of it."""
        return self.out / FINISHED

    def part(self, rank: int, ending: str) -> Path:
        """A file of what is left of a part when it has been cleaned."""
        return self.work / "parts" / (self.plan().parts[rank].name + ending)

    def decision(self, name: str) -> Path:
        """What was decided over all parts."""
        return self.work / "decisions" / f"{name}.npy"

    def is_done(self, name: str, rank: int) -> bool:
        """Tell whether a task of a pipeline on this machine has left its last file."""
        last = {"clean": self.part(rank, ".json"), "decide": self.decision("bounds")}
        return last.get(name, self.written(rank)).is_file()

    def written(self, rank: int) -> Path:
        """The counts of a shard that has been written."""
        return self.work / "written" / f"{rank:05d}.json"

    def shard(self, split: str, rank: int) -> Path:
        """The documents of a split that come from one part."""
        return self.work / split / f"{rank:05d}.jsonl"

    def logs(self, name: str) -> Path:
        """Where datatrove keeps statistics and completions of a pipeline."""
        return self.work / "logs" / name

    def plan(self) -> Plan:
        """The plan that was saved."""
        return _load(self.saved, self.saved.stat().st_mtime_ns)

    def save(self, plan: Plan) -> None:
        """Write the plan, from which every step works; it comes first."""
        for name in WORK:
            (self.work / name).mkdir(parents=True, exist_ok=True)
        write_text(self.saved, PLANS.dump_json(plan).decode())

    def check(self) -> None:
        """Refuse a folder of other things.

        Raises:
            DataError: it holds something, and no corpus of lingraft.
        """
        known = {".lock", EVALUATIONS, *([REPORT] if is_page(self.out / REPORT) else [])}
        paths = sorted(self.out.iterdir()) if self.out.is_dir() else []
        others = [path for path in paths if path.name not in known and not _is_empty(path)]
        if others and not (_made_of(self.done) or _made_of(self.saved)):
            raise DataError(
                f"{self.out}: is not empty and holds no corpus of lingraft ({others[0].name} …); "
                "choose another --out"
            )
        for path in (path for split in SPLITS for path in (self.out / split).glob("[!.]*")):
            if not SHARD.fullmatch(path.name):
                raise DataError(
                    f"{path}: is no shard of a corpus and would be read with them; move it, or "
                    "choose another --out"
                )

    def begin(self, plan: Plan, *, force: bool) -> bool:
        """Make the folder ready for a job; False where it has ended already.

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
        finished, begun = _made_of(self.done), _made_of(self.saved)
        if finished == plan.fingerprint and not force:
            return False
        is_at_work = begun != plan.fingerprint and any(self.logs(".").glob("*/executor.pik"))
        if (finished or is_at_work) and not force:
            raise DataError(
                f"{self.out}: holds a corpus of other sources or settings; "
                "choose another --out, or delete it with --force"
            )
        if force or begun != plan.fingerprint:  # what says that something is done goes first
            for name in ("logs", "decisions", "written", *SPLITS, *(("parts",) if force else ())):
                shutil.rmtree(self.work / name, ignore_errors=True)
            for split in SPLITS:
                (self.work / split).mkdir(parents=True)
        self.save(plan)
        return True

    def end(self) -> None:
        """Put the shards in the place of those that are there; a kill half-way loses none."""
        self.done.unlink(missing_ok=True)
        for split in SPLITS:
            if (self.work / split).is_dir():
                shutil.rmtree(self.out / split, ignore_errors=True)
                (self.work / split).replace(self.out / split)
                with contextlib.suppress(OSError):  # it holds shards
                    (self.out / split).rmdir()

    def remove_work(self) -> None:
        """Delete what the job kept."""
        shutil.rmtree(self.work, ignore_errors=True)


def _made_of(path: Path) -> str | None:
    """The fingerprint in a corpus.json or a plan; None where there is none, or another's file."""
    try:
        data: Any = json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:
        return None
    is_ours = isinstance(data, dict) and {"fingerprint", "language"} <= data.keys()
    return str(data["fingerprint"]) if is_ours else None


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what a killed process left."""
    return path.is_dir() and all(TEMPORARY.fullmatch(inside.name) for inside in path.iterdir())


@functools.lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> Plan:
    return PLANS.validate_json(path.read_bytes())
