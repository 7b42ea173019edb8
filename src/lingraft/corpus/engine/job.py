"""`lingraft corpus`: a whole job, from sources to shards."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lingraft.corpus.cleaning import evaluations, scripts
from lingraft.corpus.engine import passes
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.extras import check, require
from lingraft.corpus.inputs import entry
from lingraft.corpus.readers import documents
from lingraft.corpus.result import log_result
from lingraft.errors import DataError
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.plan import Plan

logger = logging.getLogger(__name__)


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
        overwrite: delete the corpus that the folder holds, if it is another.
    """

    cluster: Cluster = Cluster()
    part_bytes: int | None = None
    overwrite: bool = False


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
        What `summary.add_up` returns; None where a cluster is to do the work and has not done so
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
        planning.check_free(folder, plan, overwrite=settings.overwrite)
        if folder.done.is_file():
            logger.info("corpus: %s is whole; --overwrite would make it again", out)
        else:
            if not folder.is_handed_over():  # else they may be of tasks that are at work
                folder.clear_partial()
            folder.save(plan)
            if cluster.kind == "local":
                with _changes_told(plan):
                    passes.run(folder, plan, passes.passes(plan), cluster.processes or 1)
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
                    "again with --overwrite",
                    name,
                )


def _hand_over(folder: Folder, plan: Plan, cluster: Cluster) -> None:
    """Have a scheduler run the passes, all that the last one waits for."""
    require("datatrove", f"--executor {cluster.kind}", "corpus")
    from lingraft.corpus.engine import executors

    built = executors.build(folder, plan, cluster)
    if cluster.kind == "ray":  # datatrove looks for the commands of Slurm
        check("ray", "--executor ray", "ray")
    logger.info("corpus: %s parts go to %s", len(plan.parts), cluster.kind)
    built["finish"].run()
