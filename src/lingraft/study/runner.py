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

from lingraft.errors import DataError, LingraftError
from lingraft.log import counted, progress
from lingraft.rundir import Run, write_json
from lingraft.study import collect, estimate, planning, processes, rows, steps, studydir
from lingraft.study.cell import GRACE_SECONDS, NO_ROOM, STEPS
from lingraft.study.metrics import BYTES, PERPLEXITY
from lingraft.study.planning import CellPlan, results_path
from lingraft.study.rows import MetricRow, TaskRow
from lingraft.study.steps import TaskStep
from lingraft.study.studydir import StudyDir
from lingraft.training.signals import StopRequest
from lingraft.workers import check_one_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.log import Ticker
    from lingraft.study.processes import Handle, Start
    from lingraft.study.recipe import Study
    from lingraft.study.rows import AnyRow
    from lingraft.study.steps import Step

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1


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
    """Starts a cell's process, or hands it to a cluster (`executors.start_of`)."""


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
    check_one_process("study", "start it without torchrun; --jobs N runs N cells at a time")
    options = options or Options()
    folder = StudyDir(out)
    with Run(out).locked():
        results = results_path(out, options.results)
        plans = planning.plan_of_call(study, out, options)  # what is wrong stops it: nothing goes
        folder.prepare(study, options.results, resume=options.resume, overwrite=options.overwrite)
        return _Runner(study, folder, results, options).run(plans)


@dataclass
class _Live:
    """A process or job that runs now."""

    plan: CellPlan
    run: Run
    process: Handle
    todo: Sequence[Step] = ()
    """What it was asked for."""
    again: bool = False
    """The cell was trained before, and its weights are gone."""
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class _Runner:
    """The state of one call."""

    def __init__(self, study: Study, folder: StudyDir, results: Path, options: Options) -> None:
        self.study, self.folder, self.results, self.options = study, folder, results, options
        self.tally = Tally()
        self.live: dict[int, _Live] = {}
        self.stop = StopRequest()
        self.ended: list[Step] = []
        self.resumed = False
        self.disk_is_full = False
        self.room = options.jobs
        """How many may run at once: fewer where the scheduler refuses more."""

    def run(self, plans: Sequence[CellPlan]) -> Tally:
        todo = []
        for before in plans:
            self.folder.adopt(before.cell, before.fingerprint, GRACE_SECONDS + 10)
            plan = self.record(before)  # a kill may have left rows unwritten
            if plan.state != "done":
                todo.append(plan)
            elif before.state != "done":
                self.close(plan, 0.0)
            else:
                self.tally.kept += 1
                self.prune(plan)
        todo = [todo[index] for index in estimate.order([plan.left for plan in todo])]
        logger.info(
            "study %s: %d cells, %d done, %d to do",
            self.study.name, len(plans), len(plans) - len(todo), len(todo),
        )  # fmt: skip
        if warning := planning.replaced(todo, self.folder):
            logger.warning("study %s: %s", self.study.name, warning)
        with self.stop.listening():
            try:
                todo = self.share(todo)
                left = estimate.total([plan.left for plan in todo])
                with progress("study", left.amount(left.unit) or None, left.unit) as ticker:
                    self.work(todo, ticker)
            finally:
                for live in self.live.values():
                    live.process.kill()
                    live.process.wait()
        return self.tally

    # -- text and vocabularies

    def share(self, todo: Sequence[CellPlan]) -> list[CellPlan]:
        """Make what the cells share; returns the cells for which that went well."""
        failures: dict[str, str] = {}
        for name, plan in {plan.tokenizer: plan for plan in todo if plan.trains}.items():
            run = self.folder.share(plan.corpus, name)
            if studydir.is_shared(run):
                continue
            studydir.write_recipe(run, plan.cell.recipe)
            logger.info("text and vocabulary of %s: …", plan.cell.id)
            write_json(run.path / STEPS, [{"step": "share"}])
            live = self.live[0] = _Live(plan, run, self.options.start(run.path, 0, 1))
            while (status := live.process.poll()) is None:
                self.heed_signals()
                time.sleep(POLL_SECONDS)
            self.live.clear()
            self.end_if_asked()
            if status == 0:
                logger.info("text and vocabulary of %s: done in %.1f s", plan.cell.id, live.seconds)
                continue
            failures[name] = processes.failure(run.path, status)
            if status == NO_ROOM:
                self.disk_is_full = True
                break
        left = []
        for plan in todo:
            if plan.trains and plan.tokenizer in failures:
                self.fail(plan, failures[plan.tokenizer], 0.0)
            else:
                left.append(plan)
        return left

    # -- cells

    def work(self, todo: Sequence[CellPlan], ticker: Ticker) -> None:
        """Run the cells, `jobs` at a time."""
        waiting = list(reversed(todo))
        last_look = time.monotonic()
        while waiting or self.live:
            while waiting and len(self.live) < self.room and self.goes_on:
                self.begin_or_wait(waiting)
            if self.resumed:  # what an earlier call did tells nothing of the speed of this one
                self.resumed = False
                ticker.start_at(self.amount(ticker.unit))
            if waiting and not self.goes_on:
                self.drop(waiting)
            for slot, live in list(self.live.items()):
                status = live.process.poll()
                if status is not None:
                    del self.live[slot]
                    self.room = self.options.jobs
                    self.end(live, status)
            self.heed_signals()
            if time.monotonic() - last_look > 1:
                last_look = time.monotonic()
                self.show(ticker)
            if self.live:
                time.sleep(POLL_SECONDS)
        self.show(ticker)
        self.end_if_asked()

    @property
    def goes_on(self) -> bool:
        """Whether another process may be started."""
        return self.stop.number is None and not self.disk_is_full

    def drop(self, waiting: list[CellPlan]) -> None:
        """Start nothing more: on a full disk cells would train for nothing, one after another."""
        if self.disk_is_full:
            same = "the same command" + (" without --overwrite" if self.options.overwrite else "")
            logger.error(
                "study %s: the disk is full, so nothing else is started (%d cells wait); make room,"
                " then run %s again: what was begun goes on", self.study.name, len(waiting), same,
            )  # fmt: skip
        waiting.clear()

    def begin_or_wait(self, waiting: list[CellPlan]) -> None:
        """Start the next cell; where it is refused while others run, wait until one has ended.

        Raises:
            DataError: it is refused and none runs.
        """
        plan = waiting.pop()
        try:
            self.begin(plan, min(set(range(self.options.jobs)) - set(self.live)))
        except DataError as error:
            if not self.live:
                raise
            logger.warning("%s; waits until another job has ended", error)
            waiting.append(plan)
            self.room = len(self.live)

    def begin(self, plan: CellPlan, slot: int) -> None:
        """Start a process that takes the steps of a cell."""
        name, todo = plan.cell.id, plan.todo
        run = self.folder.cell(name)
        if plan.trains_again:
            logger.warning(
                "%s: its weights are not kept here; it is trained again for its tasks", name
            )
            if self.folder.holds(plan.cell, plan.fingerprint):
                self.folder.empty_cell(plan.cell)
        if plan.trains:
            shared = self.folder.share(plan.corpus, plan.tokenizer)
            self.folder.open_cell(plan.cell, plan.fingerprint, shared)
            logger.info("%s: starts", name)
        else:
            logger.info("%s: starts %s", name, counted(plan.fine_tunings, "fine-tuning"))
        write_json(run.path / STEPS, steps.jobs(todo))
        self.resumed |= any(step.progress(run) > 0 for step in todo)
        process = self.options.start(run.path, slot, self.options.jobs)
        self.live[slot] = _Live(plan, run, process, todo, plan.trains_again)

    def end(self, live: _Live, status: int) -> None:
        """Write down how a process ended, nothing if it was stopped; what was done stays."""
        plan, seconds = self.record(live.plan), live.seconds
        if live.again and plan.training.is_done(live.run):
            self.compare(live)
        if status == 0 and not plan.missing:
            self.close(plan, seconds)
        elif status == 0:
            self.fail(plan, "its files were changed while it ran; run the study again", seconds)
        elif self.stop.number is None:
            self.disk_is_full |= status == NO_ROOM
            unfinished = live.again and not plan.training.is_done(live.run)
            when = "while the cell was trained again for its weights: " if unfinished else ""
            self.fail(plan, when + processes.failure(live.run.path, status), seconds)
        self.ended += live.todo

    def record(self, plan: CellPlan) -> CellPlan:
        """Write the rows of the steps that are done by now; those that are there stay."""
        if not plan.missing or not self.folder.owns(plan.cell, plan.fingerprint):
            return plan
        run, ends = self.folder.cell(plan.cell.id), dict(plan.ends)
        for step in plan.missing:
            if step.is_done(run):
                new_rows = step.rows(self.common(plan), run)
                rows.append(self.results, new_rows)
                ends[step.name] = collect.end_of(new_rows)
                logger.info("%s: %s", plan.cell.id, _line(new_rows))
        has_weights = self.folder.holds_weights(plan.cell, plan.fingerprint)
        return replace(plan, ends=ends, has_weights=has_weights)

    def compare(self, live: _Live) -> None:
        """Say how a cell that was trained again compares with its first training."""
        plan = live.plan
        new_rows = plan.training.rows(self.common(plan), live.run)
        before = rows.latest(rows.read(self.results))[plan.fingerprint].rows
        logger.info(
            "%s: trained again in %.1f s%s; was%s", plan.cell.id, collect.end_of(new_rows).seconds,
            _perplexity(new_rows), _perplexity(before).removeprefix(","),
        )  # fmt: skip

    def close(self, plan: CellPlan, seconds: float) -> None:
        """A cell is done, tasks and all: delete the weights that are not kept."""
        self.prune(plan)
        self.tally.done += 1
        if len(plan.steps) > 1:
            logger.info("%s: tasks done%s", plan.cell.id, _took(seconds))

    def fail(self, plan: CellPlan, message: str, seconds: float) -> None:
        """Write the row of the step that failed."""
        row = plan.missing[0].failure(self.common(plan), message, seconds)
        self.tally.failed.append(plan.cell.id)
        logger.error("%s: failed: %s", plan.cell.id, row.message)  # a full disk may refuse the row
        rows.append(self.results, [row])

    def common(self, plan: CellPlan) -> dict[str, object]:
        """What all rows of a cell have in common."""
        return {
            "study": self.study.name, "cell": plan.cell.id, "fingerprint": plan.fingerprint,
            "axes": plan.cell.axes,
        }  # fmt: skip

    def prune(self, plan: CellPlan) -> None:
        """Delete the weights that the study does not keep, where the folder is this cell's."""
        if self.folder.holds(plan.cell, plan.fingerprint):
            studydir.prune(self.folder.cell(plan.cell.id), plan.cell.recipe, self.study.keep)

    def show(self, ticker: Ticker) -> None:
        """Write the rows there are by now, and tell how far all cells together are."""
        names = []
        for live in self.live.values():
            live.plan = self.record(live.plan)
            step = next((step for step in live.todo if not step.is_done(live.run)), None)
            name = live.plan.cell.id
            names.append(f"{name} ({step.name})" if isinstance(step, TaskStep) else name)
        ended = f"{self.tally.done + len(self.tally.failed)} ended"
        ticker.update(self.amount(ticker.unit), "; ".join(filter(None, (ended, ", ".join(names)))))

    def amount(self, unit: str) -> float:
        """How much of the steps of this call is done."""
        amount = sum(step.cost.amount(unit) for step in self.ended)
        for live in self.live.values():
            amount += sum(step.cost.amount(unit) * step.progress(live.run) for step in live.todo)
        return amount

    # -- signals

    def heed_signals(self) -> None:
        """Ask the cells to stop once this process was asked to."""
        if self.stop.number is not None:
            for live in self.live.values():
                live.process.terminate_once()

    def end_if_asked(self) -> None:
        if self.stop.number is not None:
            raise Interrupted(
                f"stopped by {signal.Signals(self.stop.number).name}; the cells wrote checkpoints, "
                "the same command goes on",
                self.stop.number,
            )


def _took(seconds: float) -> str:
    return f" in {seconds:.1f} s" if seconds else ""


def _line(new_rows: Sequence[AnyRow]) -> str:
    """What a step reached, for a line of the log: perplexity, or the scores that papers report."""
    row = new_rows[-1]
    if not isinstance(row, TaskRow):
        return f"done{_took(collect.end_of(new_rows).seconds)}{_perplexity(new_rows)}"
    return f"{row.task}, seed {row.seed}: " + ", ".join(
        f"{score.metric.rpartition('/')[2]} {score.value:.1f}"
        for score in row.scores
        if score.metric in row.shown
    )


def _perplexity(new_rows: Iterable[AnyRow]) -> str:
    values = {row.metric: row.value for row in new_rows if isinstance(row, MetricRow)}
    if BYTES in values:
        return f", {values[BYTES]:.3f} bits per byte"
    return f", perplexity {values[PERPLEXITY]:,.2f}" if PERPLEXITY in values else ""
