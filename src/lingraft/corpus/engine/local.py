"""datatrove's executor for this machine, with processes that end when they should."""

from __future__ import annotations

from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.utils.logging import logger as datatrove_logger

from lingraft import workers
from lingraft.corpus.engine import job
from lingraft.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Local(LocalPipelineExecutor):
    """Runs a pipeline here; datatrove's own pool waits for ever for a worker that was killed.

    When a task fails, those that run at the same time are finished, so that their work is kept.
    """

    def run(self) -> None:
        """Run the pipelines before, and the tasks that are not done.

        Raises:
            DataError: something cannot be read or written; or a worker was killed.
        """
        if self.depends:
            self.depends.run()
        ranks = self.get_incomplete_ranks()
        step: Any = self.pipeline[0]
        name = self.logging_dir.path.rpartition("/")[2]
        with job.told(name, step.plan) as ticker:
            for rank in self._ended(ranks):
                ticker.advance(job.megabytes(name, step.plan, rank))

    def _ended(self, ranks: list[int]) -> Iterator[int]:
        """Run tasks, and give the number of each that has ended."""
        if min(self.workers, len(ranks)) < 2:
            for rank in ranks:
                self._run_for_rank(rank)
                yield rank
            return
        with workers.pool(self.workers) as pool:
            futures = {pool.submit(self._run_for_rank, rank): rank for rank in ranks}
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

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> Any:
        datatrove_logger.disable("datatrove")  # errors become one line of ours
        return super()._run_for_rank(rank, local_rank, node_rank)
