"""Run the cells of a study that are missing, several at a time.

Only this process writes the study's results.jsonl, from those of the cells. A cell that fails stops
no other; the same command tries it again, and goes on with one that was stopped or killed.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, LingraftError, RecipeError
from lingraft.log import duration
from lingraft.recipe.decoding import load, to_toml
from lingraft.report import row
from lingraft.report.row import RESULTS, Score
from lingraft.rundir import (
    Run,
    Step,
    clear_temporary,
    fingerprint,
    read_json,
    write_json,
    write_text,
)
from lingraft.study import executors, grid, inputs
from lingraft.study import recipe as studies
from lingraft.study.analysis import BYTES, PERPLEXITY
from lingraft.study.cell import FAILURE, JOB, NO_ROOM
from lingraft.study.tasks import task_jobs
from lingraft.training.signals import StopRequest
from lingraft.workers import check_one_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.study.executors import Handle, Start
    from lingraft.study.recipe import Study

logger = logging.getLogger(__name__)

STUDY, CELLS, PAGE = "study.toml", "cells.json", "report.html"
CHANGED = "other inputs"
"""The state of a cell whose folder was made from another recipe, source or text."""
POLL_SECONDS = 0.1
LOCK_SECONDS = 130.0
"""For the last step of a cell that a killed study left behind."""


class Interrupted(LingraftError):
    """A signal asked the study to stop; its cells did so too."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}; cells wrote checkpoints, the same command goes on")
        self.exit_status = 128 + number


@dataclass(frozen=True)
class Options:
    """Settings of how a study is run; nothing here changes a result."""

    jobs: int = 1
    """Cells at a time."""
    only: tuple[str, ...] = ()
    """Cells, as `grid.chosen` reads them; empty takes all."""
    force: bool = False
    """Delete the study in the folder first."""
    update: bool = False
    """Let this study replace the one in the folder, and keep what both share."""
    start: Start = executors.start_process


@dataclass(frozen=True)
class Plan:
    """A cell, where it lies, and what is to be done."""

    cell: grid.Cell
    run: Run
    job: dict[str, Any]

    @property
    def step(self) -> Step:
        return Step(self.run.path)

    @property
    def state(self) -> str:
        """Return 'to do', 'begun', 'failed', 'tasks to do', 'done', or `CHANGED`."""
        made_of = self.step.inputs().get("fingerprint")
        if made_of is None and not (self.run.path / JOB).is_file():
            return "to do"
        if made_of != self.job["inputs"]["fingerprint"]:
            return CHANGED
        if self.step.is_done(fingerprint(self.job["inputs"])):
            return "done"
        if (self.run.path / FAILURE).is_file():
            return "failed"
        trained = self.run.stage("evaluation").done_path.is_file()
        return "tasks to do" if trained else "begun"


def plan(study: Study, out: Path, only: Sequence[str] = ()) -> list[Plan]:
    """Return the chosen cells in the order of the grids.

    Raises:
        LingraftError: a cell's recipe or a task cannot work, or a file is missing.
    """
    cells = grid.cells(study)
    jobs = task_jobs(study, cells)
    plans = []
    for cell in cells:
        of_cell = inputs.of_cell(cell.recipe)
        tasks = [one.of(cell, of_cell) for one in jobs if one.fits(cell)]
        made_of = {
            "fingerprint": of_cell,
            "tasks": [[task["name"], task["inputs"], task["seeds"]] for task in tasks],
        }
        job = {
            "inputs": made_of,
            "common": {"model": cell.id, "inputs": of_cell, "axes": cell.axes},
            "keep": study.keep,
            "shared": {
                "corpus": inputs.of_corpus(cell.recipe),
                "tokenizer": inputs.of_tokenizer(cell.recipe),
            },
            "tasks": tasks,
        }
        plans.append(Plan(cell, Run(out / "cells" / cell.id), job))
    chosen = {cell.id for cell in grid.chosen(cells, only)}
    return [one for one in plans if one.cell.id in chosen]


@dataclass
class Tally:
    """Numbers and names of the cells of one call, by how they ended."""

    kept: int = 0
    done: int = 0
    failed: list[str] = field(default_factory=list)


def run(study: Study, out: Path, options: Options = Options()) -> Tally:
    """Run the cells that are missing.

    Args:
        study: what to run.
        out: the study's folder.
        options: how.

    Raises:
        Interrupted: SIGTERM or SIGINT came; the cells wrote checkpoints.
        LingraftError: the study cannot be run as it is.
    """
    check_one_process("study", "start it without torchrun; --jobs N runs N cells at a time")
    if options.force and options.update:
        raise RecipeError("--update and --force contradict each other; give one")
    with Run(out).locked():
        plans = plan(study, out)
        names = {cell.id for cell in grid.chosen([p.cell for p in plans], options.only)}
        chosen = [one for one in plans if one.cell.id in names]
        prepare(study, out, plans, chosen, options)
        gather(chosen, out)
        todo = [one for one in chosen if one.state != "done"]
        return Runner(study, out, options).run(todo, chosen)


def prepare(
    study: Study, out: Path, plans: Sequence[Plan], chosen: Sequence[Plan], options: Options
) -> None:
    """Make the folder ready.

    Raises:
        RecipeError: it holds something else, or cells of other inputs, and nothing says what to do.
    """
    ours = (RESULTS, PAGE, CELLS, STUDY)
    present = {path.name for path in out.iterdir()} - {".lock", executors.JOBS}
    if present - set(ours) and STUDY not in present:
        raise RecipeError(
            f"{out}: holds files but no study of lingraft ({min(present - set(ours))} …); choose "
            "another --out"
        )
    if options.force and STUDY in present:
        for path in out.glob("cells/*/"):
            Step(path).clear()
        shutil.rmtree(out / "shared", ignore_errors=True)
        for name in ours:
            (out / name).unlink(missing_ok=True)
    elif STUDY in present and not options.update:
        present_name = str(load(out / STUDY).get("name"))
        changed = [one.cell.id for one in chosen if one.state == CHANGED]
        if present_name != study.name or changed:
            what = f"cells of other inputs ({', '.join(changed)})"
            what = (
                what
                if present_name == study.name
                else f"the study '{present_name}', not '{study.name}'"
            )
            raise RecipeError(
                f"{out}: holds {what}; --update keeps what both have in common, --force begins anew"
            )
    clear_temporary(out)
    adopt(out, plans)
    write_text(out / STUDY, studies.to_toml(study))
    write_json(out / CELLS, [[one.job["common"], *one.job["tasks"]] for one in plans])


def adopt(out: Path, plans: Sequence[Plan]) -> None:
    """Name folders as their cells are called now, where another axis has changed their ids."""
    folders = sorted(out.glob("cells/*/"))
    marks = {Step(folder).inputs().get("fingerprint"): folder for folder in folders}
    wanted = {one.run.path for one in plans}
    for one in plans:
        former = marks.get(one.job["inputs"]["fingerprint"])
        if former and former not in wanted and not one.run.path.exists():
            logger.info("%s: was called %s, and goes on from there", one.cell.id, former.name)
            with Run(former).locked(LOCK_SECONDS):
                former.rename(one.run.path)


def gather(plans: Sequence[Plan], out: Path) -> list[Score]:
    """Put the rows of cells into the study's results; return them."""
    own = [one.run.path / RESULTS for one in plans if one.state != CHANGED]
    found = [one for path in own if path.is_file() for one in row.read(path)]
    if found:
        row.merge(out / RESULTS, found)
    return found


class Runner:
    """The state of one call."""

    def __init__(self, study: Study, out: Path, options: Options) -> None:
        self.study, self.out, self.options = study, out, options
        self.tally, self.stop, self.full = Tally(), StopRequest(), False
        self.live: dict[int, tuple[Plan, Handle, float]] = {}

    def run(self, todo: list[Plan], chosen: Sequence[Plan]) -> Tally:
        """Run the cells that are to do, `jobs` at a time."""
        self.tally.kept = len(chosen) - len(todo)
        logger.info("study %s: %d cells, %d done, %d to do",
                    self.study.name, len(chosen), self.tally.kept, len(todo))  # fmt: skip
        asked = False
        with self.stop.listening():
            try:
                while self.live or (todo and self.goes_on):
                    while todo and self.goes_on and len(self.live) < self.options.jobs:
                        one = todo.pop(0)
                        try:
                            self.begin(one)
                        except DataError as error:
                            self.fail(one, str(error))
                    time.sleep(POLL_SECONDS)
                    for slot, (one, process, started) in list(self.live.items()):
                        if self.stop.number is not None and not asked:
                            process.terminate()
                        if (status := process.poll()) is not None:
                            del self.live[slot]
                            self.end(one, status, time.monotonic() - started)
                    asked = asked or self.stop.number is not None
            finally:
                for _, process, _ in self.live.values():
                    process.kill()
        if self.full and todo:
            logger.error("study %s: the disk is full, so %d cells were not started; make room and "
                         "run it again", self.study.name, len(todo))  # fmt: skip
        if self.stop.number is not None:
            raise Interrupted(self.stop.number)
        return self.tally

    @property
    def goes_on(self) -> bool:
        """Return whether another process may be started."""
        return self.stop.number is None and not self.full

    def begin(self, one: Plan) -> None:
        """Make a cell's folder ready and start it."""
        folder = one.run.path
        with one.run.locked(LOCK_SECONDS):  # a process that a study left may still be writing
            one.step.begin(one.job["inputs"])
        from lingraft.pipeline.completing import fitted  # torch

        recipe = one.cell.recipe  # cells may share a GPU, so none goes by what its memory holds
        at_once = {"micro_batch_tokens": recipe.hardware.at_once}
        hardware = recipe.hardware.model_copy(update=at_once)
        recipe = recipe.model_copy(update={"hardware": hardware})
        write_text(one.run.recipe_path, to_toml(fitted(recipe)))
        write_json(folder / JOB, one.job)
        (folder / FAILURE).unlink(missing_ok=True)
        slot = min(set(range(self.options.jobs)) - set(self.live))
        logger.info("%s: starts", one.cell.id)
        process = self.options.start(folder, slot, self.options.jobs)
        self.live[slot] = (one, process, time.monotonic())

    def end(self, one: Plan, status: int, seconds: float) -> None:
        """Take the rows of a cell whose process has ended, and tell how it ended."""
        found = gather([one], self.out)
        if status == 0:
            self.tally.done += 1
            logger.info("%s: done in %s%s", one.cell.id, duration(seconds), reached(found))
        elif self.stop.number is None:
            self.full = self.full or status == NO_ROOM
            self.fail(one, executors.failure(one.run.path, status))

    def fail(self, one: Plan, message: str) -> None:
        """Write down that a cell failed."""
        self.tally.failed.append(one.cell.id)
        logger.error("%s: failed: %s", one.cell.id, message)
        with contextlib.suppress(OSError):  # the disk may be full
            write_text(one.run.path / FAILURE, message + "\n")


def reached(found: Sequence[Score]) -> str:
    """Return what a cell reached, for a line of the log."""
    values = {one.metric: one.value for one in found if not one.data}
    if BYTES in values:
        return f", {values[BYTES]:.3f} bits per byte"
    return f", perplexity {values[PERPLEXITY]:,.2f}" if PERPLEXITY in values else ""


@dataclass(frozen=True)
class Current:
    """Facts that are known of a study's present cells."""

    rows: list[Score]
    """As the cells are called now."""
    planned: list[str]
    """Ids of all cells; empty for results of another machine."""
    failures: dict[str, str]
    """By cell, why its last attempt failed."""


def current(out: Path) -> Current:
    """Return what is known of a study's present cells.

    Raises:
        DataError: there is no study, or its results file is broken.
    """
    path, known = out / RESULTS, out / CELLS
    if not known.is_file():
        return Current(row.read(path), [], {})
    named = {}
    cells = read_json(known)
    for common, *tasks in cells:
        named[common["inputs"]] = {"model": common["model"], "axes": common["axes"]}
        for task in tasks:
            axes = common["axes"] | task["axes"]
            named[task["inputs"]] = {"model": common["model"], "axes": axes}
    found = row.read(path) if path.is_file() else []
    planned = [common["model"] for common, *_ in cells]
    reasons = {name: out / "cells" / name / FAILURE for name in planned}
    return Current(
        [one.model_copy(update=named[one.inputs]) for one in found if one.inputs in named],
        planned,
        {name: file.read_text("utf-8").strip() for name, file in reasons.items() if file.is_file()},
    )
