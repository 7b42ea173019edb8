"""`lingraft corpus`: a whole job, from sources to shards."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.corpus.cleaning import scripts
from lingraft.corpus.engine import plan as planning
from lingraft.corpus.engine.plan import Folder
from lingraft.corpus.extras import require
from lingraft.corpus.readers import documents
from lingraft.corpus.result import log_result
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft import recipe
    from lingraft.corpus.engine.executors import Cluster

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """How a job is run; nothing here changes the text.

    Attributes:
        cluster: who runs the tasks; None is this process alone.
        part_bytes: bytes on disk that a part should have; None leaves it to the plan.
        overwrite: delete the corpus that the folder holds, if it is another.
    """

    cluster: Cluster | None = None
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
        DataError: something cannot be read or written, or the folder holds another corpus.
    """
    require("datatrove", "lingraft corpus", "corpus")
    from lingraft.corpus.engine import executors

    scripts.of_language(language, section.scripts)
    cluster = settings.cluster or executors.Cluster()
    made = planning.make(section, language, settings.part_bytes)
    documents.tell(section.text)
    folder = Folder(out)
    with Run(out).locked():
        planning.check_free(folder, made, overwrite=settings.overwrite)
        if not folder.done.is_file():
            folder.clear_partial()
            if folder.fingerprint() is None:
                folder.save(made)
            built = executors.build(folder, made, cluster)
            executors.check_installed(cluster.kind)
            if cluster.kind != "local":
                logger.info("corpus: %s parts go to %s", len(made.parts), cluster.kind)
                built["finish"].run()
            else:
                executors.run_here(built, made, cluster.processes or 1)
        if not folder.done.is_file():
            return None
        if folder.work.exists():
            shutil.rmtree(folder.work)
        result: dict[str, Any] = read_json(folder.done)["result"]
        log_result(result, section)
        return result
