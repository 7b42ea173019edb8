"""`lingraft data clean`: a whole job, from sources to shards, by pipelines in their order.

Which of two equal sentences stays, and how much a small corpus holds out, can be said only when all
has been read: so every part is cleaned, then all is decided, then every part is written. datatrove
runs the tasks, and marks those that are done.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
import time
from collections import deque
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft import workers
from lingraft.corpus.cleaning import evaluations, scripts
from lingraft.corpus.cleaning.notices import Notices
from lingraft.corpus.cleaning.steps import add
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine import steps
from lingraft.corpus.engine.decisions import read_bounds
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.extras import require
from lingraft.corpus.readers import documents
from lingraft.corpus.result import NOT_IN_SUBSET, check_result, log_result
from lingraft.corpus.split import widened
from lingraft.errors import DataError, RecipeError
from lingraft.log import progress
from lingraft.rundir import Run, read_json, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Plan

logger = logging.getLogger(__name__)

CLEAN, DECIDE, WRITE = "clean", "decide", "write"
PIPELINES: dict[str, tuple[type[steps.Step], ...]] = {
    CLEAN: (steps.Read, steps.Clean, steps.Judge, steps.Store),
    DECIDE: (steps.Decide,),
    WRITE: (steps.Kept, steps.Write),
}
"""In their order; each needs what all tasks of the one before leave."""
TOP = 20
Kind = Literal["local", "slurm", "ray"]
MINIMUM = {"slurm": ("partition", "time"), "ray": ()}
OWN_OPTIONS = {"self", "pipeline", "tasks", "workers", "logging_dir", "depends", "job_name"}


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


def pipeline(folder: Folder, name: str) -> list[steps.Step]:
    """Make the steps of a pipeline, which share their counts."""
    counts: dict[str, Any] = {}
    return [step(folder, counts) for step in PIPELINES[name]]


def n_tasks(plan: Plan, name: str) -> int:
    """Count the tasks of a pipeline."""
    return 1 if name == DECIDE else len(plan.parts)


def run_task(folder: Folder, name: str, rank: int) -> None:
    """Run a pipeline on one part.

    Raises:
        DataError: something cannot be read or written.
    """
    data: Any = None
    for step in pipeline(folder, name):
        data = step(data, rank)
    deque(data, maxlen=0)


def _run_here(folder: Folder, plan: Plan, processes: int) -> None:
    """Run what is not done yet of all pipelines, on this machine."""
    for name in PIPELINES:
        ranks = [rank for rank in range(n_tasks(plan, name)) if not folder.is_done(name, rank)]
        sizes = {rank: plan.parts[rank].bytes / 1e6 if name != DECIDE else 0.0 for rank in ranks}
        begin = time.monotonic()
        with progress(f"corpus: {name}", sum(sizes.values()) or None, "MB") as ticker:
            for rank in _ended(folder, name, ranks, processes):
                ticker.advance(sizes[rank])
        logger.info("corpus: pass %s took %.1f s", name, time.monotonic() - begin)


def _ended(folder: Folder, name: str, ranks: list[int], processes: int) -> Iterator[int]:
    """Run tasks, and give the number of each that has ended.

    When one fails, those that run at the same time are finished, so that their work is kept.
    """
    if min(processes, len(ranks)) < 2:
        for rank in ranks:
            run_task(folder, name, rank)
            yield rank
        return
    with workers.pool(processes) as pool:
        futures = {pool.submit(run_task, folder, name, rank): rank for rank in ranks}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BrokenProcessPool:
            raise DataError(
                "corpus: a worker process was killed, most likely for want of memory; the "
                "parts that are done are kept: run the same command with fewer --jobs"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)  # else it fails on what others have cancelled
            raise


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
        The result in `corpus.json`; None where a cluster is to do the work and has not done so.

    Raises:
        RecipeError: the language, a script or an option of the cluster is not valid.
        DataError: something cannot be read or written, or the folder holds another corpus or
            other files.
    """
    scripts.of_language(language, section.scripts)
    plan = planning.make(section, language, settings.part_bytes)
    documents.tell(section.text)
    for line in _guesses(plan):
        logger.info("corpus: %s", line)
    evaluations.tell(section.decontaminate)
    folder = Folder(out)
    folder.check()  # before there is a lock in it
    with Run(out).locked():
        if not folder.begin(plan, force=settings.force):
            logger.info("corpus: %s is whole; --force would make it again", out)
        else:
            if settings.cluster.kind == "local":
                _run_here(folder, plan, settings.cluster.processes or 1)
            elif not _is_written(folder, plan):
                _hand_over(folder, plan, settings.cluster)
            if not _is_written(folder, plan):
                return None
            _finish(folder, plan)
        folder.remove_work()
        result: dict[str, Any] = read_json(folder.done)["result"]
        log_result(result, plan.section)
        return result


def _guesses(plan: Plan) -> list[str]:
    sources = (source for part in plan.parts for source in part.sources)
    if plan.section.document is not None:
        return []
    return documents.guesses({source.name: source for source in sources}.values())


def _is_written(folder: Folder, plan: Plan) -> bool:
    return all(folder.written(rank).is_file() for rank in range(len(plan.parts)))


def _hand_over(folder: Folder, plan: Plan, cluster: Cluster) -> None:
    """Have a scheduler run the pipelines, each after the one before."""
    executor = _executor(cluster)
    last = None
    for name in PIPELINES:
        title = {"job_name": f"lingraft-{name}"} if cluster.kind == "slurm" else {}
        last = executor(
            pipeline=pipeline(folder, name),
            tasks=n_tasks(plan, name),
            logging_dir=str(folder.logs(name).absolute()),
            depends=last,
            **title,
        )
    assert last is not None
    with workers.secrets_withheld():
        last.run()


def _executor(cluster: Cluster) -> Any:
    """Get what makes the executor of a pipeline.

    Raises:
        RecipeError: an option that the executor does not have, or one that it needs is missing.
        DataError: the package ray is not installed.
    """
    module = importlib.import_module(f"datatrove.executor.{cluster.kind}")
    kind = getattr(module, f"{cluster.kind.title()}PipelineExecutor")
    allowed = sorted(set(inspect.signature(kind.__init__).parameters) - OWN_OPTIONS)
    missing = [name for name in MINIMUM[cluster.kind] if name not in cluster.options]
    unknown = sorted(cluster.options.keys() - set(allowed))
    if missing or unknown:
        wrong = f"executor.{unknown[0]} is none of its options" if unknown else ""
        raise RecipeError(
            f"--executor {cluster.kind}: {wrong or f'needs executor.{missing[0]}=…'}; "
            f"allowed: {', '.join(allowed)}"
        )
    if cluster.kind == "ray":  # datatrove looks for the commands of Slurm
        _start_ray()
    return functools.partial(kind, workers=cluster.processes or -1, **cluster.options)


def _start_ray() -> None:
    """Start Ray, or reach the cluster that RAY_ADDRESS names; one that starts listens here alone.

    Raises:
        DataError: the package ray is not installed.
    """
    # Ray takes 127.0.0.1 by this alone: it makes another address of one that it is given
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = require("ray", "--executor ray", "ray")
    if not ray.is_initialized():
        ray.init(include_dashboard=None if "RAY_ADDRESS" in os.environ else False)


def _finish(folder: Folder, plan: Plan) -> None:
    """Write the file that marks the corpus as whole.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    counts: dict[str, Any] = {}
    for rank in range(len(plan.parts)):
        add(counts, read_json(folder.part(rank, ".json")))
        add(counts, read_json(folder.written(rank)))
    result = _summary(folder, plan, counts)
    check_result(result, plan.section)
    folder.end()
    write_record(
        folder.done,
        {
            "fingerprint": plan.fingerprint,
            "language": plan.language,
            "corpus": plan.section.model_dump(mode="json"),
            "evaluations": plan.evaluations,
            "result": result,
        },
    )


def _summary(folder: Folder, plan: Plan, counts: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the corpus stage, and the statistics of the report."""
    section, dropped = plan.section, dict(sorted(counts["dropped"].items()))
    left_out = dropped.pop(NOT_IN_SUBSET, 0)
    counts["samples"].pop(NOT_IN_SUBSET, None)
    result = {
        "language": plan.language,
        "scripts": list(scripts.of_language(plan.language, section.scripts)),
        "sources": [{"name": name} | source for name, source in counts["sources"].items()],
        "dropped": dropped,
        "changed": dict(sorted(counts["changed"].items())),
        "subset": {NOT_IN_SUBSET: left_out} if section.max_train_sentences is not None else {},
        "widened": widened(read_bounds(folder), section.valid, section.test),
        "languages": _most(counts["languages"]),
        "parts": len(plan.parts),
        "guesses": _guesses(plan),
        "lengths": _by_size(counts["lengths"]),
        "documents_by_sentences": _by_size(counts["documents_by_sentences"]),
        "letters_by_script": _most(counts["letters_by_script"]),
        "domains": _most(counts["domains"], TOP),
        **{key: counts[key] for key in ("documents", "sentences_in", "splits", "samples")},
    }
    return result | {"notices": Notices.of(counts["notices"]).told(result)}


def _most(counts: dict[str, int], top: int | None = None) -> dict[str, int]:
    """Order counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:top])


def _by_size(counts: dict[str, int]) -> dict[str, int]:
    """Order counts by the number that they are under."""
    return dict(sorted(counts.items(), key=lambda item: int(item[0])))
