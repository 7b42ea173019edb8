"""Run the cells of a study that are missing: cheapest first, several at a time, each a process.

Only this process writes results.jsonl. A cell that fails leaves a row that says so and stops no
other; a rerun tries it again. Cells that were stopped or killed go on from their checkpoints.
"""

from __future__ import annotations

import logging
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.errors import LingraftError
from lingraft.log import progress
from lingraft.rundir import Run
from lingraft.study import collect, estimate, grid, processes, rows, studydir
from lingraft.study.identity import Identity
from lingraft.study.studydir import StudyDir
from lingraft.training.signals import StopRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lingraft.log import Ticker
    from lingraft.study.estimate import Cost
    from lingraft.study.grid import Cell
    from lingraft.study.processes import Running, Start
    from lingraft.study.recipe import Study
    from lingraft.study.rows import CurveRow, EndRow, MetricRow, Outcome

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.1
HEADLINE = "mask-only/perplexity"


class Interrupted(LingraftError):
    """A signal asked the study to stop; its cells did so too."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + signal_number


@dataclass(frozen=True)
class Planned:
    """A cell, and what is known about it before it runs."""

    cell: Cell
    fingerprint: str
    corpus: str
    """Fingerprint of its text, ..."""
    tokenizer: str
    """... and of its text and vocabulary."""
    cost: Cost
    outcome: Outcome | None
    """None while no attempt at it has ended."""

    @property
    def state(self) -> str:
        """'done', 'failed' or 'to do'."""
        return "to do" if self.outcome is None else self.outcome.end.status

    @property
    def weight(self) -> float:
        """For the progress bar."""
        return self.cost.flops or self.cost.all_tokens


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


def results_path(out: Path, results: Path | None = None) -> Path:
    """Where a study's rows are."""
    return results or StudyDir(out).results_path


def current_rows(
    study: Study, out: Path, results: Path | None = None
) -> list[MetricRow | CurveRow | EndRow]:
    """The rows of the study's present cells, in the order of the grids.

    A cell that has not ended has no rows; one that failed has its end row only. Study, id and axes
    are the present ones, whatever they were when the row was written.

    Raises:
        LingraftError: the study, its base recipe, text or source cannot be read.
    """
    path = results_path(out, results)
    outcomes = rows.latest(rows.read(path)) if path.is_file() else {}
    identity = Identity()
    found: list[MetricRow | CurveRow | EndRow] = []
    for cell in grid.cells(study):
        outcome = outcomes.get(identity.cell(cell.recipe))
        if outcome is not None:
            present = {"study": study.name, "cell": cell.id, "axes": cell.axes}
            found += [row.model_copy(update=present) for row in (*outcome.rows, outcome.end)]
    return found


def plan(study: Study, only: Sequence[str], results: Path) -> list[Planned]:
    """The chosen cells in the order of the grids, checked, with their state.

    Raises:
        LingraftError: a cell's recipe cannot work.
    """
    outcomes = rows.latest(rows.read(results)) if results.is_file() else {}
    identity = Identity()
    planned = []
    for cell in grid.chosen(grid.cells(study), only):
        name = identity.cell(cell.recipe)
        planned.append(
            Planned(
                cell,
                name,
                identity.corpus(cell.recipe),
                identity.tokenizer(cell.recipe),
                estimate.cost_of(cell.recipe),
                outcomes.get(name),
            )
        )
    return planned


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
        planned = plan(study, options.only, results)
        return _Runner(study, folder, results, options).run(planned)


@dataclass
class _Live:
    """A cell that runs now."""

    planned: Planned
    run: Run
    process: Running
    started: float


class _Runner:
    """The state of one call."""

    def __init__(self, study: Study, folder: StudyDir, results: Path, options: Options) -> None:
        self.study, self.folder, self.results, self.options = study, folder, results, options
        self.tally = Tally()
        self.live: dict[int, _Live] = {}
        self.stop = StopRequest()
        self.finished_weight = 0.0

    def run(self, planned: Sequence[Planned]) -> Tally:
        todo = []
        for one in planned:
            if one.state == "done":
                self.tally.kept += 1
                self.prune(one)
            elif self.folder.holds(one.cell, one.fingerprint):
                self.finish(one, 0.0)  # killed before its rows were written
            else:
                todo.append(one)
        todo = [todo[index] for index in estimate.order([one.cost for one in todo])]
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

    # -- text and vocabularies

    def share(self, todo: Sequence[Planned]) -> list[Planned]:
        """Make what the cells share; returns the cells for which that went well."""
        failures: dict[str, str] = {}
        by_name = {one.tokenizer: one for one in todo}
        for name, one in by_name.items():
            run = self.folder.share(one.corpus, name)
            if studydir.is_shared(run):
                continue
            studydir.write_recipe(run, one.cell.recipe)
            started = time.monotonic()
            logger.info("text and vocabulary of %s: …", one.cell.id)
            process = self.options.start("share", run.path, 0, 1)
            self.live[0] = _Live(one, run, process, started)
            while process.poll() is None:
                self.heed_signals()
                time.sleep(POLL_SECONDS)
            self.live.clear()
            self.end_if_asked()
            took = time.monotonic() - started
            if process.poll():
                failures[name] = processes.failure(run.path, process.poll() or 0)
            else:
                logger.info("text and vocabulary of %s: done in %.1f s", one.cell.id, took)
        for one in todo:
            if one.tokenizer in failures:
                self.fail(one, failures[one.tokenizer], 0.0)
        return [one for one in todo if one.tokenizer not in failures]

    # -- cells

    def train(self, todo: Sequence[Planned], ticker: Ticker) -> None:
        """Run the cells, `jobs` at a time."""
        waiting = list(reversed(todo))
        looked = time.monotonic()
        while waiting or self.live:
            while waiting and len(self.live) < self.options.jobs and self.stop.number is None:
                self.begin(waiting.pop())
            if self.stop.number is not None:
                waiting.clear()
            for slot, live in list(self.live.items()):
                status = live.process.poll()
                if status is not None:
                    del self.live[slot]
                    self.end(live, status)
            self.heed_signals()
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                self.show(ticker)
            if self.live:
                time.sleep(POLL_SECONDS)
        self.show(ticker)
        self.end_if_asked()

    def begin(self, one: Planned) -> None:
        """Start a cell's process."""
        slot = min(set(range(self.options.jobs)) - set(self.live))
        shared = self.folder.share(one.corpus, one.tokenizer)
        run = self.folder.open_cell(one.cell, one.fingerprint, shared)
        logger.info("%s: starts", one.cell.id)
        kind = "train-initial" if self.study.initial_loss else "train"
        process = self.options.start(kind, run.path, slot, self.options.jobs)
        self.live[slot] = _Live(one, run, process, time.monotonic())

    def end(self, live: _Live, status: int) -> None:
        """Write down how a cell ended; nothing where it was asked to stop."""
        seconds = time.monotonic() - live.started
        if status == 0:
            self.finish(live.planned, seconds)
        elif self.stop.number is None:
            self.fail(live.planned, processes.failure(live.run.path, status), seconds)

    def finish(self, one: Planned, seconds: float) -> None:
        """Write the rows of a cell that is done, then delete the weights that are not kept."""
        found = collect.done(self.common(one), self.folder.cell(one.cell.id), seconds)
        rows.append(self.results, found)
        self.prune(one)
        self.tally.done += 1
        self.finished_weight += one.weight
        logger.info(
            "%s: done%s%s", one.cell.id, f" in {seconds:.1f} s" if seconds else "", _score(found)
        )

    def fail(self, one: Planned, message: str, seconds: float) -> None:
        """Write the row of a cell that failed."""
        rows.append(self.results, collect.failed(self.common(one), message, seconds))
        self.tally.failed.append(one.cell.id)
        self.finished_weight += one.weight
        logger.error("%s: failed: %s", one.cell.id, message)

    def common(self, one: Planned) -> dict[str, object]:
        return collect.start_of(self.study.name, one.cell, one.fingerprint)

    def prune(self, one: Planned) -> None:
        """Delete the weights that the study does not keep, where the folder is this cell's."""
        if self.folder.holds(one.cell, one.fingerprint):
            studydir.prune(self.folder.cell(one.cell.id), one.cell.recipe, self.study.keep)

    def show(self, ticker: Ticker) -> None:
        """Tell how far all cells together are."""
        weight = self.finished_weight
        for live in self.live.values():
            cost = live.planned.cost
            seen = studydir.seen_tokens(live.run, live.planned.cell.recipe, cost.tokens)
            weight += live.planned.weight * min(1.0, seen / max(cost.all_tokens, 1.0))
        ended = self.tally.done + len(self.tally.failed)
        names = ", ".join(live.planned.cell.id for live in self.live.values())
        ticker.update(weight / 1e9, f"{ended} ended; {names}" if names else f"{ended} ended")

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


def _score(found: Iterable[MetricRow | CurveRow | EndRow]) -> str:
    """The headline metric, for a line of the log."""
    for row in found:
        if getattr(row, "metric", None) == HEADLINE:
            return f", perplexity {row.value:,.2f}"  # type: ignore[union-attr]
    return ""
