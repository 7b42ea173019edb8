"""`lingraft data clean`: a whole job, from sources to shards, by passes in their order.

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
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft import workers
from lingraft.corpus.cleaning import evaluations, scripts
from lingraft.corpus.cleaning.steps import SentenceFilter, cleaned
from lingraft.corpus.engine import duplicates, parts, shards
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.engine.shards import finish
from lingraft.corpus.extras import require
from lingraft.corpus.inputs import entry
from lingraft.corpus.readers import documents
from lingraft.corpus.result import log_result
from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future, ProcessPoolExecutor
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Plan
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
    documents = parts.documents(plan.parts[rank], plan.section, progress)
    documents = cleaned(documents, plan.section, progress.tally)
    parts.write(documents, _judge(folder, plan.fingerprint), progress, folder.part(rank))


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
        counts, decisions = shards.Counts(), _decisions(folder, folder.plan().fingerprint)
        shards.write(shards.kept(decisions, rank, counts), counts, decisions, rank)


@functools.lru_cache(maxsize=1)
def _decisions(folder: Folder, fingerprint: str) -> duplicates.Decisions:
    """One for all parts that a process writes, since it looks into every part when it is made."""
    return duplicates.Decisions(folder)


def _finish(folder: Folder, rank: int, ticker: Ticker | None) -> None:
    finish(folder)


def deciding(plan: Plan) -> list[str]:
    """The passes after which it is known what is kept; nothing of that is written yet."""
    return ["clean", *(NAMES[name] for name in duplicates.tasks(plan))]


def run(folder: Folder, plan: Plan, names: Iterable[str], processes: int = 1) -> None:
    """Go through passes on this machine, a task at a time or several.

    When a task fails, those that run at the same time are finished, so that their work is kept.

    Args:
        folder: of the job.
        plan: the one that lies there.
        names: of the passes, in their order.
        processes: at a time.

    Raises:
        DataError: something cannot be read or written; or a worker was killed.
    """
    if processes > 1:
        with workers.pool(processes) as pool:
            for name in names:
                with told(name, plan) as ticker:
                    _run_pass(pool, folder, name, plan, ticker)
        return
    for name in names:
        task, count = passes(plan)[name]
        with told(name, plan) as ticker:
            for rank in range(count):
                done = ticker.count
                task(folder, rank, ticker)
                size = megabytes(name, plan, rank)
                ticker.update(done + size if size else ticker.count)
    _judge.cache_clear()
    _decisions.cache_clear()


def _run_pass(
    pool: ProcessPoolExecutor, folder: Folder, name: str, plan: Plan, ticker: Ticker
) -> None:
    _, count = passes(plan)[name]
    futures = {pool.submit(run_task, folder, name, rank): rank for rank in range(count)}
    waiting: set[Future[None]] = set(futures)
    try:
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=futures.__getitem__):
                future.result()
                ticker.advance(megabytes(name, plan, futures[future]))
    except BrokenProcessPool:
        raise DataError(
            "corpus: a worker process was killed, most likely for want of memory; "
            "the parts that are done are kept: run the same command with fewer --jobs"
        ) from None
    except BaseException:
        pool.shutdown(cancel_futures=True)  # by itself, for it fails on what others have cancelled
        raise


def run_task(folder: Folder, name: str, rank: int) -> None:
    """Run one task of a pass, in a process of its own; none where the corpus is made already."""
    if folder.done.is_file():
        return
    task, _ = passes(folder.plan())[name]
    task(folder, rank, None)


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


Kind = Literal["local", "slurm", "ray"]


@dataclass(frozen=True)
class Cluster:
    """Who runs the tasks.

    Attributes:
        kind: this machine, or a scheduler.
        processes: how many tasks at a time; None is one here, and no limit on a cluster.
        options: further arguments of datatrove's executor, say partition and time of Slurm.
    """

    kind: Kind = "local"
    processes: int | None = None
    options: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """How a job is run; nothing here changes the text.

    Attributes:
        cluster: who runs the tasks.
        part_bytes: bytes on disk that a part should have; None leaves it to the plan.
        force: delete the corpus that the folder holds, if it is another.
    """

    cluster: Cluster = Cluster()
    part_bytes: int | None = None
    force: bool = False


def make(
    section: recipe.Corpus, language: str, out: Path, settings: Settings = Settings()
) -> dict[str, Any] | None:
    """Make a corpus: `out/train/00000.jsonl` …, and `out/corpus.json` when all is done.

    A job that was killed goes on where it was; one that is done is not done again. The text is that
    of `stage.prepare`: the same documents and sentences, in the same order and splits.

    Args:
        section: what to read and what to keep.
        language: BCP 47 code.
        out: folder of the corpus; made if it is not there.
        settings: how to run it.

    Returns:
        What `shards.add_up` returns; None where a cluster is to do the work and has not done so
        yet.

    Raises:
        RecipeError: the language, a script or an option of the cluster is not valid.
        DataError: something cannot be read or written, or the folder holds another corpus or
            other files.
    """
    scripts.of_language(language, section.scripts)
    cluster = settings.cluster
    plan = planning.make(section, language, settings.part_bytes)
    documents.tell(section.text)
    evaluations.tell(section.decontaminate)
    folder = Folder(out)
    planning.check_ours(folder)  # before there is a lock in it
    with Run(out).locked():
        planning.check_free(folder, plan, force=settings.force)
        if folder.done.is_file():
            logger.info("corpus: %s is whole; --force would make it again", out)
        else:
            if not folder.is_handed_over():  # else they may be of tasks that are at work
                folder.clear_partial()
            folder.save(plan)
            if cluster.kind == "local":
                with _changes_told(plan):
                    run(folder, plan, passes(plan), cluster.processes or 1)
            else:
                _hand_over(folder, plan, cluster)
        if not folder.done.is_file():
            return None
        folder.clear_partial()
        folder.remove_work()
        result: dict[str, Any] = read_json(folder.done)["result"]
        log_result(result, plan.section)
        return result


@contextlib.contextmanager
def _changes_told(plan: Plan) -> Iterator[None]:
    """Warn of sources that change while they are read: the plan knows the files as they were."""
    sources = {source.name: source.path for part in plan.parts for source in part.sources}
    before = {name: entry(name, path) for name, path in sources.items()}
    yield
    for name, path in sources.items():
        with contextlib.suppress(DataError):  # what was deleted has been read
            if entry(name, path) != before[name]:
                logger.warning(
                    "%s: changed while the corpus was made, which may hold some of both; make it "
                    "again with --force",
                    name,
                )


def _hand_over(folder: Folder, plan: Plan, cluster: Cluster) -> None:
    """Have a scheduler run the passes, all that the last one waits for."""
    require("datatrove", f"--executor {cluster.kind}", "corpus")
    from lingraft.corpus.engine import executors

    built = executors.build(folder, plan, cluster)
    logger.info("corpus: %s parts go to %s", len(plan.parts), cluster.kind)
    with workers.secrets_withheld():
        if cluster.kind == "ray":  # datatrove looks for the commands of Slurm
            executors.start_ray()
        built["finish"].run()
