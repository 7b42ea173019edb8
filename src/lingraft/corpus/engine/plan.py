"""What a corpus is made from, cut into parts that can be worked on alone."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Any

from pydantic import TypeAdapter

from lingraft import recipe  # noqa: TC001
from lingraft.corpus.cleaning import evaluations
from lingraft.corpus.engine import cutting
from lingraft.corpus.inputs import as_finished, digests, entry, form
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.folders import FINISHED, PLAN
from lingraft.corpus.split import SPLITS
from lingraft.errors import DataError
from lingraft.pages import is_page
from lingraft.rundir import TEMPORARY, clear_temporary, fingerprint, write_text

logger = logging.getLogger(__name__)

BUCKET_BYTES = 1 << 30
"""Sources of this size give about 12 million sentences, whose hashes take 0.4 GB to compare."""
HUB_BUCKETS = 8
SHARD = re.compile(r"\d{5,}\.jsonl")
PARTIAL_SHARD = re.compile(r"\.\d{5,}\.jsonl\.\d+\.partial")
WORK, LOGS = ("written", "decisions", "parts"), "logs"
"""Folders of `work`. What says that a shard is written goes first, before the shards do."""
EVALUATIONS, REPORT = "evaluations", "report.html"
"""What the command puts beside the shards: the texts of tasks (`tasks.held_out`), and the page."""


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
    parts: tuple[cutting.Part, ...]
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
    section = as_finished(section)
    sources = documents.resolve(section.text)
    # By content: they may lie in the corpus's own folder, which may move.
    judged = tuple(digests(section.decontaminate))
    settings = section.model_copy(update={"decontaminate": ()})
    read = [*(entry(source.name, source.path) for source in sources), *judged]
    plan_fingerprint = fingerprint(*form(section), settings, language, read, part_bytes)
    cleaning = fingerprint(
        *form(section), settings.model_copy(update={"text": ()}), language, judged
    )
    pieces = cutting.cut(sources, section, part_bytes or cutting.part_size(sources))
    parts = tuple(cutting.named(part, cleaning) for part in pieces)
    total = sum(part.bytes for part in parts)
    buckets = -(-total // BUCKET_BYTES) or 1
    if any(source.path is None for source in sources):
        buckets = max(buckets, HUB_BUCKETS)
    return Plan(plan_fingerprint, language, evaluations.located(section), parts, buckets, judged)


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
    def saved(self) -> Path:
        """The plan; as long as it is there, what lies beside it is the job's."""
        return self.out / PLAN

    @property
    def done(self) -> Path:
        """Written last; says how the corpus was made and what became of it."""
        return self.out / FINISHED

    def part(self, rank: int) -> Path:
        """What is left of a part when it has been cleaned."""
        return self.work / "parts" / (self.plan().parts[rank].name or f"{rank:05d}")

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
        return self.work / LOGS / name

    def fingerprint(self) -> str | None:
        """Of the corpus that is there or is being made; None if there is none of lingraft."""
        return _fingerprint_in(self.done if self.done.is_file() else self.saved)

    def present(self) -> list[str]:
        """What is there, but for empty folders and what a corpus may find there."""
        if not self.out.is_dir():
            return []
        paths = [path for path in sorted(self.out.iterdir()) if not _is_empty(path)]
        names = [path.name for path in paths if path.name not in (".lock", EVALUATIONS)]
        return [name for name in names if name != REPORT or not is_page(self.out / name)]

    def in_splits(self) -> list[Path]:
        """Shards, and whatever else would be read with them; what is no shard comes first."""
        paths = [path for split in SPLITS for path in (self.out / split).glob("*")]
        visible_paths = [path for path in paths if not path.name.startswith(".")]
        return sorted(visible_paths, key=lambda path: (_is_shard(path), path))

    def is_handed_over(self) -> bool:
        """Whether a cluster may be at work on it."""
        logs = self.work / LOGS
        return logs.is_dir() and not _is_empty(logs)

    def is_replaceable(self) -> bool:
        """Whether its job has not ended, and no cluster may be at work on it."""
        return not self.done.is_file() and not self.is_handed_over()

    def clear(self) -> None:
        """Delete the corpus and nothing else; what marks it as whole goes first.

        After a kill half-way, the same job makes anew what is gone.
        """
        self.done.unlink(missing_ok=True)
        if _fingerprint_in(self.saved) is not None:
            self.clear_work()
        for path in filter(_is_shard, self.in_splits()):
            path.unlink()
        self.clear_partial()
        for split in SPLITS:
            _remove_empty(self.out / split)
        self.remove_work()

    def begin(self, plan: Plan) -> None:
        """Put another plan in the place of one that has not ended; parts of both stay as they are.

        After a kill half-way the old plan holds, and what is gone is made anew.
        """
        for name in ("written", "decisions"):
            _remove(self.work / name)
        names = {part.name for part in plan.parts}
        for path in (self.work / "parts").glob("*"):
            if path.name not in names:
                _remove(path)
        for path in filter(_is_shard, self.in_splits()):
            path.unlink()
        self.clear_partial()
        self._write(plan)

    def clear_work(self) -> None:
        """Delete what takes room; datatrove still writes into the rest."""
        for name in WORK:
            _remove(self.work / name)

    def remove_work(self) -> None:
        """Delete what the job kept; the plan, which shows that it is the job's, goes last."""
        if _fingerprint_in(self.saved) is not None:
            for name in (*WORK, LOGS):
                _remove(self.work / name)
            clear_temporary(self.work)
            self.saved.unlink()
        _remove_empty(self.work)

    def clear_partial(self) -> None:
        """Delete what a killed process left half-written."""
        for split in SPLITS:
            for path in (self.out / split).glob(".*.partial"):
                if PARTIAL_SHARD.fullmatch(path.name):
                    path.unlink()
        for name in WORK:
            for path in (self.work / name).glob("*.partial"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for folder in (self.out, self.work, *(self.work / name for name in WORK)):
            clear_temporary(folder)

    def save(self, plan: Plan) -> None:
        """Write the plan, from which every task works; it comes first.

        That of a job that was begun elsewhere has the paths of that place.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        if not self.saved.is_file() or self.plan() != plan:
            self._write(plan)
        for name in (*WORK, LOGS):
            (self.work / name).mkdir(exist_ok=True)

    def _write(self, plan: Plan) -> None:
        write_text(self.saved, PLANS.dump_json(plan).decode())

    def plan(self) -> Plan:
        """The plan that was saved."""
        return _load(self.saved, self.saved.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> Plan:
    return PLANS.validate_json(path.read_bytes())


def _fingerprint_in(path: Path) -> str | None:
    """What a corpus.json or a plan of ours names; None where there is none, or another's file."""
    try:
        data: Any = json.loads(path.read_bytes()) if path.is_file() else None
    except ValueError:
        return None
    is_corpus = isinstance(data, dict) and {"fingerprint", "language"} <= data.keys()
    return str(data["fingerprint"]) if is_corpus else None


def _is_shard(path: Path) -> bool:
    return SHARD.fullmatch(path.name) is not None and path.is_file()


def _is_empty(path: Path) -> bool:
    """Whether a folder holds nothing but what a killed process left."""
    return path.is_dir() and all(TEMPORARY.fullmatch(inside.name) for inside in path.iterdir())


def _remove(folder: Path) -> None:
    """Delete a folder of the job; a kill half-way leaves nothing of it under its name."""
    partial = folder.with_name(f"{folder.name}.partial")
    if partial.exists():
        shutil.rmtree(partial)
    if folder.exists():
        folder.rename(partial)
        shutil.rmtree(partial)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is not there, or holds something
        folder.rmdir()


def check_free(folder: Folder, plan: Plan, *, force: bool) -> None:
    """Make sure that a job may write into its folder; delete another corpus where that may go.

    Raises:
        DataError: it holds another corpus, other files or a source, or a file stands in its place.
    """
    if folder.out.exists() and not folder.out.is_dir():
        raise DataError(f"{folder.out}: is a file, not a folder; choose another --out")
    check_ours(folder)
    _check_sources(folder, plan)
    old_fingerprint = folder.fingerprint()
    if old_fingerprint == plan.fingerprint and not force:
        return
    replaced = old_fingerprint is not None and not force
    if replaced and not folder.is_replaceable():
        raise DataError(
            f"{folder.out}: holds a corpus of other sources or settings; "
            "choose another --out, or delete it with --force"
        )
    shards = folder.in_splits()
    if shards and not (_is_shard(shards[0]) and (replaced or force)):
        raise DataError(
            f"{shards[0]}: belongs to no finished corpus and would be read with the new one; "
            "choose another --out, or delete it (--force deletes shards)"
        )
    busy = folder.work.exists() and not _is_empty(folder.work)
    if busy and _fingerprint_in(folder.saved) is None:
        raise DataError(
            f"{folder.work}: holds files that are not lingraft's, where it would keep its own; "
            "choose another --out, or move them"
        )
    if replaced:
        was = "an unfinished corpus of other sources or settings"
        logger.info("%s: %s is replaced; cleaned parts of both stay", folder.out, was)
        folder.begin(plan)
    else:
        folder.clear()


def check_ours(folder: Folder) -> None:
    """Refuse a folder of other things; shards alone may be what is left of a corpus.

    Raises:
        DataError: it holds something, and no corpus of lingraft.
    """
    present = folder.present()
    entries = [name for name in present if name not in SPLITS or not (folder.out / name).is_dir()]
    if entries and folder.fingerprint() is None:
        raise DataError(
            f"{folder.out}: is not empty and holds no corpus of lingraft ({entries[0]} …); "
            "choose another --out"
        )


def _check_sources(folder: Folder, plan: Plan) -> None:
    """Refuse to write where the text is read from.

    Raises:
        DataError: a source lies in a folder whose files the job may delete.
    """
    out = folder.out.resolve()
    folders = {out / name for name in ("work", *SPLITS)}
    for source in (source for part in plan.parts for source in part.sources):
        if source.path is not None and folders.intersection(source.path.resolve().parents):
            raise DataError(
                f"{source.name}: is a source inside {folder.out}, and would be replaced; choose "
                "another --out"
            )
