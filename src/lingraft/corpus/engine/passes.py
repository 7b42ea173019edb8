"""The passes of a corpus, in their order, and one process that goes through them.

Each is a function of the folder and the number of a task; a task that is done already is not done
again. Which of two equal sentences stays, and how much a small corpus holds out, can be said only
when all has been read: so there are several.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lingraft.corpus.cleaning.steps import SentenceFilter, document_steps
from lingraft.corpus.engine import duplicates, parts, shards
from lingraft.corpus.engine.summary import finish
from lingraft.log import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.corpus.engine.plan import Folder, Plan
    from lingraft.log import Ticker

logger = logging.getLogger(__name__)

Task = Callable[["Folder", int, "Ticker | None"], None]
"""Does one task of a pass: of which folder, its number, and who is told how far it is."""
NAMES = {
    duplicates.SPLIT: "split",
    duplicates.NEAR: "near-duplicates",
    duplicates.EXACT: "duplicates",
    duplicates.SUBSET: "subset",
}
TITLES = {"clean": "corpus: cleaning", "write": "corpus: writing"}


def passes(plan: Plan) -> dict[str, tuple[Task, int]]:
    """The passes of a job, by name and in order, and how many tasks each has."""
    count = len(plan.parts)
    decisions = {
        NAMES[name]: (_once(name, decide), tasks)
        for name, (decide, tasks) in duplicates.tasks(plan).items()
    }
    return {"clean": (_clean, count), **decisions, "write": (_write, count), "finish": (_finish, 1)}


def _clean(folder: Folder, rank: int, ticker: Ticker | None) -> None:
    if folder.part(rank).exists():
        return
    plan, progress = folder.plan(), parts.Progress(ticker=ticker)
    found = parts.documents(plan.parts[rank], plan.section, progress)
    for step in document_steps(plan.section, progress.tally):
        found = step(found)
    parts.write(found, _judge(folder, plan.fingerprint), progress, folder.part(rank))


@functools.lru_cache(maxsize=1)
def _judge(folder: Folder, fingerprint: str) -> SentenceFilter:
    """One for all parts that a process cleans, since it may hold the texts of evaluations."""
    plan = folder.plan()
    return SentenceFilter(plan.section, plan.language)


def _once(name: str, decide: Callable[[Folder, int], None]) -> Task:
    def task(folder: Folder, rank: int, ticker: Ticker | None) -> None:
        if not folder.decision(name, rank).exists():
            decide(folder, rank)

    return task


def _write(folder: Folder, rank: int, ticker: Ticker | None) -> None:
    if not folder.written(rank).exists():
        counts = shards.Counts()
        kept = shards.kept(duplicates.Decisions(folder), rank, counts)
        shards.write(kept, counts, folder, rank)


def _finish(folder: Folder, rank: int, ticker: Ticker | None) -> None:
    finish(folder)


def run(folder: Folder, plan: Plan) -> None:
    """Clean and decide in this process, a task at a time; nothing is written of what is kept.

    Raises:
        DataError: something cannot be read or written.
    """
    tasks = passes(plan)
    for name in ("clean", *(name for name in NAMES.values() if name in tasks)):
        task, count = tasks[name]
        with told(name, plan) as ticker:
            for rank in range(count):
                done = ticker.count
                task(folder, rank, ticker)
                size = megabytes(name, plan, rank)
                ticker.update(done + size if size else ticker.count)
    _judge.cache_clear()


@contextlib.contextmanager
def told(name: str, plan: Plan) -> Iterator[Ticker]:
    """Show the progress of a pass, and tell at its end how long it took."""
    total = sum(megabytes(name, plan, rank) for rank in range(len(plan.parts)))
    begin = time.monotonic()
    with progress(TITLES.get(name, f"corpus: {name}"), total or None, "MB") as ticker:
        yield ticker
    logger.info("corpus: pass %s took %.1f s", name, time.monotonic() - begin)


def megabytes(name: str, plan: Plan, rank: int) -> float:
    """How much of the sources a task goes through."""
    return plan.parts[rank].bytes / 1e6 if name in TITLES else 0.0
