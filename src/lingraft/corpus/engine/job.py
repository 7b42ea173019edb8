"""`lingraft data clean`: a whole job, from sources to shards, by passes in their order.

Which of two equal sentences stays, and how much a small corpus holds out, can be said only when all
has been read: so every part is cleaned, then all is decided, then every part is written.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import decontamination, scripts
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine.decisions import read_bounds
from lingraft.corpus.engine.passes import PASSES, Pass, is_done
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.readers import documents
from lingraft.corpus.readers.lines import SAMPLES
from lingraft.corpus.result import Notices, check_result, log_result
from lingraft.corpus.split import widened
from lingraft.errors import DataError, RecipeError
from lingraft.log import progress
from lingraft.optional import require
from lingraft.processes import pool, secrets_withheld
from lingraft.rundir import Run, read_json, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.plan import CorpusPlan

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobSettings:
    """Settings of running a job; nothing here changes the text.

    Attributes:
        executor: 'local', 'slurm' or 'ray'.
        jobs: how many parts at a time; None is one here, and no limit on a cluster.
        options: further arguments of datatrove's executor, say partition and time of Slurm.
        part_bytes: bytes on disk that a part should have; None leaves it to the plan.
        force: delete the corpus that the folder holds, if it is another.
    """

    executor: str = "local"
    jobs: int | None = None
    options: dict[str, str | int | float] = field(default_factory=dict)
    part_bytes: int | None = None
    force: bool = False


def _ranks(plan: CorpusPlan, name: str) -> range:
    return range(1 if name == "decide" else len(plan.parts))


def _run_here(folder: Folder, plan: CorpusPlan, processes: int) -> None:
    """Run what is not done yet of all passes, on this machine."""
    for name in PASSES:
        ranks = [rank for rank in _ranks(plan, name) if not is_done(folder, name, rank)]
        sizes = {rank: plan.parts[rank].bytes / 1e6 if name != "decide" else 0.0 for rank in ranks}
        begin = time.monotonic()
        with progress(f"corpus: {name}", sum(sizes.values()) or None, "MB") as ticker:
            for rank in _ended(folder, name, ranks, processes):
                ticker.advance(sizes[rank])
        logger.info("corpus: pass %s took %.1f s", name, time.monotonic() - begin)


def _ended(folder: Folder, name: str, ranks: list[int], processes: int) -> Iterator[int]:
    """Run a pass on parts, and give the number of each that has ended.

    When one fails, those that run at the same time are finished, so that their work is kept.
    """
    if min(processes, len(ranks)) < 2:
        for rank in ranks:
            PASSES[name](folder, rank)
            yield rank
        return
    with pool(processes) as workers:
        futures = {workers.submit(PASSES[name], folder, rank): rank for rank in ranks}
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
            workers.shutdown(cancel_futures=True)  # else it fails on what others have cancelled
            raise


def make(
    section: recipe.Corpus, language: str, out: Path, settings: JobSettings = JobSettings()
) -> dict[str, Any] | None:
    """Make a corpus: `out/train/00000.jsonl` …, and `out/corpus.json` when all is done.

    A job that was killed goes on where it was; one that is done is not done again. All sentences
    are kept: a run takes its `max_train_sentences` of them.

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
    section = section.model_copy(update={"max_train_sentences": None})
    plan = planning.make(section, language, settings.part_bytes)
    documents.tell(section.text)
    for line in plan.guesses:
        logger.info("corpus: %s", line)
    decontamination.files_of(section.decontaminate, warn=True)
    folder = Folder(out)
    folder.check()  # before there is a lock in it
    with Run(out).locked():
        if not folder.begin(plan, force=settings.force):
            logger.info("corpus: %s is whole; --force would make it again", out)
        else:
            if settings.executor == "local":
                _run_here(folder, plan, settings.jobs or 1)
            elif not all(is_done(folder, "write", rank) for rank in _ranks(plan, "write")):
                _hand_over(folder, plan, settings)
                return None
            _finish(folder, plan)
        shutil.rmtree(folder.work, ignore_errors=True)
        result: dict[str, Any] = read_json(folder.done)["result"]
        log_result(result, plan.section)
        return result


def _hand_over(folder: Folder, plan: CorpusPlan, settings: JobSettings) -> None:
    """Have a scheduler run the passes, each after the one before.

    Raises:
        RecipeError: an option that the executor does not have, or one that it needs is missing.
        DataError: the package ray is not installed, and it is to run them.
    """
    module = importlib.import_module(f"datatrove.executor.{settings.executor}")
    executor = getattr(module, f"{settings.executor.title()}PipelineExecutor")
    if settings.executor == "ray":  # started, or the cluster that RAY_ADDRESS names reached
        # Ray takes 127.0.0.1 by this alone: it makes another address of one that it is given
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        ray = require("ray", "--executor ray", "ray")
        if not ray.is_initialized():
            ray.init(include_dashboard=None if "RAY_ADDRESS" in os.environ else False)
    last = None
    for name in PASSES:
        try:
            last = executor(
                pipeline=[Pass(folder, name)],
                tasks=len(_ranks(plan, name)),
                logging_dir=str((folder.work / "logs" / name).absolute()),
                depends=last,
                workers=settings.jobs or -1,
                **({"job_name": f"lingraft-{name}"} if settings.executor == "slurm" else {}),
                **settings.options,
            )
        except TypeError as error:
            raise RecipeError(f"--executor {settings.executor}: {error}") from None
    assert last is not None
    with secrets_withheld():
        last.run()


def _add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add counts, in tables or alone, and the first few examples to those of other parts."""
    for name, value in more.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), value)
        elif isinstance(value, list):
            total[name] = [*total.get(name, ()), *value][:SAMPLES]
        else:
            total[name] = total.get(name, 0) + value


def _finish(folder: Folder, plan: CorpusPlan) -> None:
    """Write the file that marks the corpus as whole.

    Raises:
        DataError: nearly all is in another script, or a split that was asked for is empty.
    """
    counts: dict[str, Any] = {}
    for rank in range(len(plan.parts)):
        _add(counts, read_json(folder.part(rank, ".json")))
        _add(counts, read_json(folder.written(rank)))
    section, notices = plan.section, counts["notices"]
    result: dict[str, Any] = {
        "language": plan.language,
        "scripts": list(scripts.of_language(plan.language, section.scripts)),
        "sources": [{"name": name} | source for name, source in counts["sources"].items()],
        "dropped": dict(sorted(counts["dropped"].items())),
        "changed": dict(sorted(counts["changed"].items())),
        "subset": {},
        "widened": widened(read_bounds(folder), section.valid, section.test),
        "parts": len(plan.parts),
        "guesses": plan.guesses,
        **{key: counts[key] for key in ("documents", "sentences_in", "splits", "samples")},
        **{k: dict(Counter(counts[k]).most_common()) for k in ("languages", "letters_by_script")},
    }
    found = Notices(Counter(notices["scripts"]), Counter(notices["letters"]), notices["examples"])
    result["notices"] = found.told(result)
    check_result(result, section)
    folder.end()
    write_record(
        folder.done,
        {
            "fingerprint": plan.fingerprint,
            "language": plan.language,
            "corpus": section.model_dump(mode="json"),
            "evaluations": plan.evaluations,
            "result": result,
        },
    )
