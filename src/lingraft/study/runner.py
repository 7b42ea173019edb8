"""Run the cells of a study that are missing: cheapest first, several at a time, each a process.

Only this process writes results.jsonl. A cell that fails leaves a row that says so and stops no
other; a rerun tries it again. Cells that were stopped or killed go on from their checkpoints.
"""

from __future__ import annotations

import logging
import signal
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lingraft.errors import LingraftError
from lingraft.finetuning import stage
from lingraft.log import progress
from lingraft.rundir import Run
from lingraft.study import collect, estimate, processes, rows, studydir, tuning
from lingraft.study.cell import NO_ROOM, TASKS_KIND
from lingraft.study.planning import Planned, plan, results_path
from lingraft.study.rows import MetricRow
from lingraft.study.studydir import StudyDir
from lingraft.training.signals import StopRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.log import Ticker
    from lingraft.study.processes import Running, Start
    from lingraft.study.recipe import Study
    from lingraft.study.rows import AnyRow, TaskRow

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
HEADLINE = "mask-only/perplexity"


class Interrupted(LingraftError):
    """A signal asked the study to stop; its cells did so too."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal_number


@dataclass(frozen=True)
class Options:
    """How a study is run; nothing here changes a result."""

    jobs: int = 1
    """Cells at a time."""
    only: tuple[str, ...] = ()
    """Cells, as `grid.chosen` reads them; empty takes all."""
    results: Path | None = None
    """The results file; None is OUT/results.jsonl."""
    resume: bool = False
    overwrite: bool = False
    start: Start = field(default_factory=lambda: processes.start)
    """Starts a cell's process."""


@dataclass
class Tally:
    """How the cells of one call ended."""

    kept: int = 0
    """Were done before."""
    done: int = 0
    failed: list[str] = field(default_factory=list)


def run(study: Study, out: Path, options: Options | None = None) -> Tally:
    """Run the cells that are missing.

    Args:
        study: what to run.
        out: the study's folder.
        options: how.

    Returns:
        How many cells were kept, done, and failed.

    Raises:
        Interrupted: SIGTERM or SIGINT came; the cells wrote checkpoints.
        LingraftError: the study cannot be run as it is.
    """
    options = options or Options()
    folder = StudyDir(out)
    with Run(out).locked():
        folder.prepare(study, resume=options.resume, overwrite=options.overwrite)
        results = results_path(out, options.results)
        planned = plan(study, options.only, results, folder)
        return _Runner(study, folder, results, options).run(planned)


@dataclass
class _Live:
    """A process that runs now."""

    planned: Planned
    run: Run
    process: Running
    started: float
    kind: str
    weight: float = 0.0
    """Of its work, for the progress bar."""


class _Runner:
    """The state of one call."""

    def __init__(self, study: Study, folder: StudyDir, results: Path, options: Options) -> None:
        self.study, self.folder, self.results, self.options = study, folder, results, options
        self.tally = Tally()
        self.live: dict[int, _Live] = {}
        self.stop = StopRequest()
        self.finished_weight = 0.0
        self.disk_is_full = False

    def run(self, planned: Sequence[Planned]) -> Tally:
        todo = []
        for one in planned:
            if one.state == "done":
                self.tally.kept += 1
                self.prune(one)
                continue
            found = self.gathered(one)
            if found.state == "done":
                self.close(found, 0.0)
            else:
                todo.append(found)
        todo = [todo[index] for index in estimate.order([one.left for one in todo])]
        logger.info(
            "study %s: %d cells, %d done, %d to do",
            self.study.name,
            len(planned),
            len(planned) - len(todo),
            len(todo),
        )
        with self.stop.listening():
            try:
                todo = self.share(todo)
                total = sum(one.weight for one in todo)
                with progress("study", total / 1e9, "GFLOP") as ticker:
                    self.train(todo, ticker)
            finally:
                for live in self.live.values():
                    live.process.kill()
                    live.process.wait()
        return self.tally

    def gathered(self, one: Planned) -> Planned:
        """Write the rows that a kill left unwritten."""
        if not one.trained and self.folder.holds(one.cell, one.fingerprint):
            one = self.record(one, 0.0)
        return self.record_tasks(one)

    # -- text and vocabularies

    def share(self, todo: Sequence[Planned]) -> list[Planned]:
        """Make what the cells share; returns the cells for which that went well."""
        failures: dict[str, str] = {}
        by_name = {one.tokenizer: one for one in todo if one.trains}
        for name, one in by_name.items():
            run = self.folder.share(one.corpus, name)
            if studydir.is_shared(run):
                continue
            studydir.write_recipe(run, one.cell.recipe)
            started = time.monotonic()
            logger.info("text and vocabulary of %s: …", one.cell.id)
            process = self.options.start("share", run.path, 0, 1)
            self.live[0] = _Live(one, run, process, started, "share")
            while process.poll() is None:
                self.heed_signals()
                time.sleep(POLL_SECONDS)
            self.live.clear()
            self.end_if_asked()
            took = time.monotonic() - started
            if status := process.poll():
                failures[name] = processes.failure(run.path, status)
                if status == NO_ROOM:
                    self.disk_is_full = True
                    break
            else:
                logger.info("text and vocabulary of %s: done in %.1f s", one.cell.id, took)
        for one in todo:
            if one.trains and one.tokenizer in failures:
                self.fail(one, failures[one.tokenizer], 0.0)
        return [one for one in todo if not (one.trains and one.tokenizer in failures)]

    # -- cells

    def train(self, todo: Sequence[Planned], ticker: Ticker) -> None:
        """Run the cells, `jobs` at a time."""
        waiting = list(reversed(todo))
        looked = time.monotonic()
        while waiting or self.live:
            while waiting and len(self.live) < self.options.jobs and self.goes_on:
                one = waiting.pop()
                slot = min(set(range(self.options.jobs)) - set(self.live))
                (self.begin if one.trains else self.begin_tasks)(one, slot)
            if waiting and not self.goes_on:
                self.drop(waiting)
            for slot, live in list(self.live.items()):
                status = live.process.poll()
                if status is not None:
                    del self.live[slot]
                    self.end(live, status, slot)
            self.heed_signals()
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self.show(ticker)
            if self.live:
                time.sleep(POLL_SECONDS)
        self.show(ticker)
        self.end_if_asked()

    @property
    def goes_on(self) -> bool:
        """Whether another process may be started."""
        return self.stop.number is None and not self.disk_is_full

    def drop(self, waiting: list[Planned]) -> None:
        """Start nothing more: on a full disk cells would train for nothing, one after another."""
        if self.disk_is_full:
            logger.error(
                "study %s: the disk is full, so nothing else is started (%d cells wait); make "
                "room, then run the same command again", self.study.name, len(waiting),
            )  # fmt: skip
        waiting.clear()

    def begin(self, one: Planned, slot: int) -> None:
        """Start a process that trains and evaluates a cell."""
        if one.trained:
            logger.warning(
                "%s: its weights are not kept here; it is trained again for its tasks", one.cell.id
            )
            if self.folder.holds(one.cell, one.fingerprint):
                self.folder.empty_cell(one.cell, stage.FOLDER)
        shared = self.folder.share(one.corpus, one.tokenizer)
        run = self.folder.open_cell(one.cell, one.fingerprint, shared)
        logger.info("%s: starts", one.cell.id)
        kind = "train-initial" if self.study.initial_loss else "train"
        self.start(one, run, kind, slot, one.weight - one.tasks_weight)

    def begin_tasks(self, one: Planned, slot: int) -> None:
        """Start a process that fine-tunes a cell's model."""
        run = self.folder.cell(one.cell.id)
        tuning.ask(run, one.cell, one.missing)
        logger.info("%s: %d fine-tunings start", one.cell.id, len(one.missing))
        self.start(one, run, TASKS_KIND, slot, one.tasks_weight)

    def start(self, one: Planned, run: Run, kind: str, slot: int, weight: float) -> None:
        process = self.options.start(kind, run.path, slot, self.options.jobs)
        self.live[slot] = _Live(one, run, process, time.monotonic(), kind, weight)

    def end(self, live: _Live, status: int, slot: int) -> None:
        """Write down how a process ended, and go on to the cell's tasks; nothing if it was stopped.

        A task that failed leaves what was done before it.
        """
        one, seconds = live.planned, time.monotonic() - live.started
        if live.kind == TASKS_KIND:
            one = self.record_tasks(one)
        elif status == 0:
            one = self.record(one, seconds)
        if status == 0:
            self.finished_weight += live.weight
            if not one.missing:
                self.close(one, seconds)
            elif live.kind == TASKS_KIND:
                self.fail(one, "its files were changed while it ran; run the study again", seconds)
            elif self.goes_on:
                self.begin_tasks(one, slot)
        elif self.stop.number is None:
            self.disk_is_full |= status == NO_ROOM
            self.fail(one, processes.failure(live.run.path, status), seconds)
            self.finished_weight += live.planned.weight

    def record(self, one: Planned, seconds: float) -> Planned:
        """Write the rows of a cell that is trained and evaluated; those that are there stay."""
        found = collect.done(self.common(one), self.folder.cell(one.cell.id), seconds)
        took = f" in {seconds:.1f} s" if seconds else ""
        if one.outcome is not None and one.trained:
            logger.info(
                "%s: trained again%s%s; was%s", one.cell.id, took, _score(found),
                _score(one.outcome.rows).removeprefix(","),
            )  # fmt: skip
            return replace(one, has_weights=True)
        rows.append(self.results, found)
        logger.info("%s: done%s%s", one.cell.id, took, _score(found))
        (outcome,) = rows.latest(found).values()
        has_weights = self.folder.holds_weights(one.cell, one.fingerprint)
        return replace(one, outcome=outcome, has_weights=has_weights)

    def record_tasks(self, one: Planned) -> Planned:
        """Write the rows of the fine-tunings that are finished in the cell's folder."""
        run = self.folder.cell(one.cell.id)
        if not one.missing or not self.folder.owns(one.cell, one.fingerprint):
            return one
        found = [
            tuning.row(self.common(one), run, task, seed)
            for task, seed in one.missing
            if tuning.finished(run, task, seed)
        ]
        if not found:
            return one
        rows.append(self.results, found)
        logger.info("%s: %s", one.cell.id, _tasks(found))
        tuned = {(row.task_fingerprint, row.seed): row for row in found}
        return replace(one, tuned=one.tuned | tuned)

    def close(self, one: Planned, seconds: float) -> None:
        """A cell is done, tasks and all: delete the weights that are not kept."""
        self.prune(one)
        self.tally.done += 1
        if one.tunings:
            took = f" in {seconds:.1f} s" if seconds else ""
            logger.info("%s: tasks done%s", one.cell.id, took)

    def fail(self, one: Planned, message: str, seconds: float) -> None:
        """Write the row of a cell that failed, or of the task that did."""
        found: Sequence[AnyRow] = collect.failed(self.common(one), message, seconds)
        if one.trained and one.missing:
            task, seed = one.missing[0]
            message = f"task {task.name}, seed {seed}: {message}"
            found = [tuning.failed(self.common(one), task, seed, message)]
        self.tally.failed.append(one.cell.id)
        logger.error("%s: failed: %s", one.cell.id, message)  # a full disk may refuse the rows
        rows.append(self.results, found)

    def common(self, one: Planned) -> dict[str, object]:
        return collect.start_of(self.study.name, one.cell, one.fingerprint)

    def prune(self, one: Planned) -> None:
        """Delete the weights that the study does not keep, where the folder is this cell's."""
        if self.folder.holds(one.cell, one.fingerprint):
            studydir.prune(self.folder.cell(one.cell.id), one.cell.recipe, self.study.keep)

    def show(self, ticker: Ticker) -> None:
        """Tell how far all cells together are."""
        weight = self.finished_weight
        names = []
        for live in self.live.values():
            cell, tasks = live.planned.cell, live.planned.missing
            if live.kind == TASKS_KIND:
                done = sum(tuning.finished(live.run, *one) for one in tasks)
                share = done / len(tasks)
                names.append(f"{cell.id} (fine-tuning {done + 1} of {len(tasks)})")
            else:
                cost = live.planned.cost
                seen = studydir.seen_tokens(live.run, cell.recipe, cost.tokens)
                share = seen / max(cost.all_tokens, 1.0)
                names.append(cell.id)
            weight += live.weight * min(1.0, share)
        ended = self.tally.done + len(self.tally.failed)
        told = ", ".join(names)
        ticker.update(weight / 1e9, f"{ended} ended; {told}" if names else f"{ended} ended")

    # -- signals

    def heed_signals(self) -> None:
        """Ask the cells to stop once this process was asked to."""
        if self.stop.number is None:
            return
        for live in self.live.values():
            live.process.terminate_once()

    def end_if_asked(self) -> None:
        if self.stop.number is not None:
            raise Interrupted(
                f"stopped by {signal.Signals(self.stop.number).name}; the cells wrote checkpoints, "
                "the same command goes on",
                self.stop.number,
            )


def _score(found: Iterable[AnyRow]) -> str:
    """The headline metric, for a line of the log."""
    for row in found:
        if isinstance(row, MetricRow) and row.metric == HEADLINE:
            return f", perplexity {row.value:,.2f}"
    return ""


def _tasks(found: Iterable[TaskRow]) -> str:
    """The scores that papers report, for a line of the log."""
    return "; ".join(
        f"{row.task}, seed {row.seed}: "
        + ", ".join(
            f"{score.metric.rpartition('/')[2]} {score.value:.1f}"
            for score in row.scores
            if score.metric in row.shown
        )
        for row in found
    )
