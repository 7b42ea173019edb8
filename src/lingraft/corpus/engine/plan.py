"""What a corpus is made from, cut into parts that can be worked on alone."""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from lingraft import recipe  # noqa: TC001
from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.inputs import digests, inputs
from lingraft.corpus.readers import documents, wikimedia
from lingraft.corpus.readers.lines import reading_errors
from lingraft.corpus.readers.wiki import streams
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.rundir import FORMAT, clear_temporary, fingerprint, read_json, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTS = 64
"""Where nothing else is asked for: enough for some processes to share evenly."""
SMALLEST_PART, LARGEST_PART = 1 << 20, 32 << 20
BUCKET_BYTES = 1 << 30
"""Sources of this size give about 12 million sentences, whose hashes take 0.4 GB to compare."""
HUB_BUCKETS = 8
SHARD = re.compile(r"\d{5,}\.jsonl")
CUT_BY_LINES = (".txt", ".jsonl", ".ndjson", ".json")


@dataclass(frozen=True)
class Part:
    """Sources, or pieces of one, that are cleaned in one go."""

    sources: tuple[documents.Source, ...]
    bytes: int


@dataclass(frozen=True)
class Plan:
    """All that the passes of a job need to know.

    Attributes:
        fingerprint: of sources, settings and format; of equal ones the corpus is the same.
        language: BCP 47 code.
        section: what to read and what to keep.
        parts: in the order of the corpus.
        buckets: over how many tasks the sentences' hashes are spread.
        evaluations: digests of the files of evaluations.
    """

    fingerprint: str
    language: str
    section: recipe.Corpus
    parts: tuple[Part, ...]
    buckets: int
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
    made = fingerprint(FORMAT["corpus"], section, language, inputs(section), part_bytes)
    sources = documents.resolve(section.text)
    if part_bytes is None:
        part_bytes = _part_bytes(sources)
    parts = tuple(cut(sources, section, part_bytes))
    total = sum(part.bytes for part in parts)
    buckets = -(-total // BUCKET_BYTES) or 1
    if any(source.path is None for source in sources):
        buckets = max(buckets, HUB_BUCKETS)
    # Tasks may run in other folders than this process.
    judged = tuple(digests(section.decontaminate))
    return Plan(made, language, evaluations.located(section), parts, buckets, judged)


def _part_bytes(sources: Sequence[documents.Source]) -> int:
    total = 0
    for source in sources:
        if source.path is not None:
            with reading_errors(source.path):
                total += source.path.stat().st_size
    return min(max(total // PARTS, SMALLEST_PART), LARGEST_PART)


def cut(
    sources: Sequence[documents.Source], section: recipe.Corpus, part_bytes: int
) -> Iterator[Part]:
    """Parts of about `part_bytes`: small files together, large ones cut, in the order of `sources`.

    Cut are multistream bz2 dumps, and uncompressed files with a document a line.
    """
    held: list[documents.Source] = []
    size = 0
    for source in sources:
        pieces = _pieces(source, section, part_bytes)
        if held and (len(pieces) > 1 or size + pieces[0].bytes > part_bytes):
            yield Part(tuple(held), size)
            held, size = [], 0
        if len(pieces) > 1:
            yield from pieces
        else:
            held += pieces[0].sources
            size += pieces[0].bytes
    if held:
        yield Part(tuple(held), size)


def _pieces(source: documents.Source, section: recipe.Corpus, part_bytes: int) -> list[Part]:
    if source.path is None:
        return [Part((source,), 0)]
    path = source.path.absolute()
    with reading_errors(path):
        size = path.stat().st_size
    if size > part_bytes and source.format == ".xml":
        spans = [(block.start, block.end) for block in streams.blocks(path, part_bytes)]
    elif size > part_bytes and _has_a_document_a_line(source, path, section):
        ends = [*range(part_bytes, size, part_bytes), size]
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
    else:
        spans = []
    if len(spans) < 2:
        return [Part((documents.Source(source.name, path),), size)]
    return [
        Part((documents.Source(source.name, path, (start, end)),), end - start)
        for start, end in spans
    ]


def _has_a_document_a_line(source: documents.Source, path: Path, section: recipe.Corpus) -> bool:
    if path.suffix.lower() not in CUT_BY_LINES:  # compressed, or another format
        return False
    if source.format == ".txt":
        return section.document == "line"
    return not wikimedia.recognises(path)


@dataclass(frozen=True)
class Folder:
    """Where a job keeps what it has done so far.

    Attributes:
        out: the folder of the corpus; `work` in it is deleted when all is done.
    """

    out: Path

    @property
    def work(self) -> Path:
        return self.out / "work"

    @property
    def done(self) -> Path:
        """Written last; says how the corpus was made and what became of it."""
        return self.out / documents.FINISHED

    def part(self, rank: int) -> Path:
        """What is left of a part when it has been cleaned."""
        return self.work / "parts" / f"{rank:05d}"

    def decision(self, name: str, rank: int = 0) -> Path:
        """What a task of pass 2 has found."""
        return self.work / "decisions" / f"{name}-{rank:05d}.npy"

    def written(self, rank: int) -> Path:
        """The counts of a shard that has been written."""
        return self.work / "written" / f"{rank:05d}.json"

    def shard(self, split: str, rank: int) -> Path:
        """The documents of a split that come from one part."""
        return self.out / split / f"{rank:05d}.jsonl"

    def logs(self, name: str) -> Path:
        """Where datatrove keeps the statistics of a pass."""
        return self.work / "logs" / name

    def fingerprint(self) -> str | None:
        """Of the corpus that is there or is being made; None if there is none."""
        for path in (self.done, self.work / "plan.json"):
            if path.is_file():
                return str(read_json(path)["fingerprint"])
        return None

    def strays(self) -> list[Path]:
        """Shards, and whatever else would be read with them."""
        return sorted(path for split in SPLITS for path in (self.out / split).glob("*.jsonl"))

    def clear(self) -> None:
        """Delete the corpus; what marks it as whole goes first."""
        self.done.unlink(missing_ok=True)
        for name in ("work", *SPLITS):
            if (self.out / name).exists():
                shutil.rmtree(self.out / name)

    def clear_work(self) -> None:
        """Delete what takes room; datatrove still writes into the rest."""
        for name in ("parts", "decisions", "written"):
            if (self.work / name).exists():
                shutil.rmtree(self.work / name)

    def clear_partial(self) -> None:
        """Delete what a killed process left half-written."""
        for path in self.out.glob("*/**/*.partial"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for folder in (self.out, self.work, *self.work.glob("*/")):
            clear_temporary(folder)

    def save(self, plan: Plan) -> None:
        """Write the plan, from which every task works."""
        for name in ("parts", "decisions", "written", "logs"):
            (self.work / name).mkdir(parents=True, exist_ok=True)
        write_text(self.work / "plan.json", PLANS.dump_json(plan).decode())

    def plan(self) -> Plan:
        """The plan that was saved."""
        path = self.work / "plan.json"
        return _load(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> Plan:
    return PLANS.validate_json(path.read_bytes())


def check_free(folder: Folder, plan: Plan, *, overwrite: bool) -> None:
    """Make sure that a job may write into its folder.

    Raises:
        DataError: it holds another corpus, or a file stands in its place.
    """
    if folder.out.exists() and not folder.out.is_dir():
        raise DataError(f"{folder.out}: is a file, not a folder; choose another --out")
    there = folder.fingerprint()
    if overwrite and there is not None:
        folder.clear()
    elif there not in (None, plan.fingerprint):
        raise DataError(
            f"{folder.out}: holds a corpus of other sources or settings; "
            "choose another --out, or delete it with --overwrite"
        )
    elif there is None:
        _check_strays(folder, overwrite=overwrite)


def _check_strays(folder: Folder, *, overwrite: bool) -> None:
    """Refuse, or delete, shards that belong to no corpus: they would be read with those to come."""
    strays = folder.strays()
    if overwrite and all(SHARD.fullmatch(path.name) for path in strays):
        for path in strays:
            path.unlink()
    elif strays:
        raise DataError(
            f"{strays[0]}: belongs to no finished corpus and would be read with the new one; "
            "choose another --out, or delete it (--overwrite deletes shards)"
        )
