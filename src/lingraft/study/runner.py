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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, LingraftError, RecipeError
from lingraft.files import clear_temporary, write_json, write_text
from lingraft.log import duration
from lingraft.processes import check_one_process
from lingraft.recipe.decoding import to_toml
from lingraft.report import row
from lingraft.rundir import Run, Step, fingerprint, read_json
from lingraft.study import grid, recipe as studies
from lingraft.study.cell import FAILURE, JOB, failure, start_process
from lingraft.training.phase import StopRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.study.cell import Handle, Start
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
class RunnerOptions:
    """Settings of how a study is run; nothing here changes a result."""

    jobs: int = 1
    """Cells at a time."""
    only: tuple[str, ...] = ()
    """Cells, as `grid.chosen` reads them; empty takes all."""
    force: bool = False
    """Delete the study in the folder first."""
    update: bool = False
    """Let this study replace the one in the folder, and keep what both share."""
    start: Start = start_process


@dataclass(frozen=True)
class StudyPlan:
    """A cell, where it lies, and what is to be done."""

    cell: grid.Cell
    run: Run
    job: dict[str, Any]

    @property
    def step(self) -> Step:
        return Step(self.run.path)

    @property
    def state(self) -> str:
        """Return 'to do', 'failed', 'done', or `CHANGED`."""
        made_of = self.step.inputs().get("fingerprint")
        if made_of not in (None, self.job["inputs"]["fingerprint"]):
            return CHANGED
        if self.step.is_done(fingerprint(self.job["inputs"])):
            return "done"
        return "failed" if (self.run.path / FAILURE).is_file() else "to do"


def plan(study: Study, out: Path, only: Sequence[str] = ()) -> list[StudyPlan]:
    """Return the chosen cells in the order of the grids.

    Raises:
        LingraftError: a cell's recipe or a task cannot work, a file is missing, or results could
            not tell two cells apart.
    """
    cells = grid.cells(study)
    jobs = grid.task_jobs(study, cells)
    known: dict[str, str] = {}
    plans = []
    for cell in cells:
        shared = studies.shared(cell.recipe)
        of_cell = studies.of_cell(cell.recipe, shared["tokenizer"])
        for mark in (cell.id, of_cell):
            if mark in known:
                raise RecipeError(
                    f"grids: cells {known[mark]} and {cell.id} have one name, or differ in nothing "
                    "that decides a result; name what they differ in as an axis of both"
                )
            known[mark] = cell.id
        tasks = [job.of(cell, of_cell) for job in jobs if job.fits(cell)]
        job = {
            "inputs": {
                "fingerprint": of_cell,
                "tasks": [[task["name"], task["inputs"], task["seeds"]] for task in tasks],
            },
            "common": {"model": cell.id, "inputs": of_cell, "axes": cell.axes},
            "keep": study.keep,
            "shared": shared,
            "tasks": tasks,
        }
        plans.append(StudyPlan(cell, Run(out / "cells" / cell.id), job))
    chosen = {cell.id for cell in grid.chosen(cells, only)}
    return [one for one in plans if one.cell.id in chosen]


def run(study: Study, out: Path, options: RunnerOptions = RunnerOptions()) -> list[str]:
    """Run the cells that are missing, and return the names of those that failed.

    Args:
        study: what to run.
        out: the study's folder.
        options: how.

    Raises:
        Interrupted: SIGTERM or SIGINT came; the cells wrote checkpoints.
        LingraftError: the study cannot be run as it is.
    """
    check_one_process("study", "start it without torchrun; --jobs N runs N cells at a time")
    with Run(out).locked():
        plans = plan(study, out)
        names = {cell.id for cell in grid.chosen([one.cell for one in plans], options.only)}
        chosen = [one for one in plans if one.cell.id in names]
        prepare(study, out, plans, chosen, options)
        gather(chosen, out)
        todo = [one for one in chosen if one.state != "done"]
        logger.info("study %s: %d cells, %d to do", study.name, len(chosen), len(todo))
        return work_off(todo, out, options)


def prepare(
    study: Study,
    out: Path,
    plans: Sequence[StudyPlan],
    chosen: Sequence[StudyPlan],
    options: RunnerOptions,
) -> None:
    """Make the folder ready.

    Raises:
        RecipeError: it holds cells of other inputs, and nothing says what to do.
    """
    if options.force and (out / STUDY).is_file():
        for name in ("cells", "shared"):
            shutil.rmtree(out / name, ignore_errors=True)
        for name in (row.RESULTS, PAGE, CELLS, STUDY):
            (out / name).unlink(missing_ok=True)
    changed = [one.cell.id for one in chosen if one.state == CHANGED]
    if changed and not options.update:
        raise RecipeError(
            f"{out}: holds cells of other inputs ({', '.join(changed)}); --update keeps what both "
            "studies have in common, --force begins anew"
        )
    clear_temporary(out)
    write_text(out / STUDY, studies.to_toml(study))
    write_json(out / CELLS, [[one.job["common"], *one.job["tasks"]] for one in plans])


def gather(plans: Sequence[StudyPlan], out: Path) -> None:
    """Put the rows of cells into the study's results."""
    own = [one.run.path / row.RESULTS for one in plans if one.state != CHANGED]
    if found := [score for path in own if path.is_file() for score in row.read(path)]:
        row.merge(out / row.RESULTS, found)


def work_off(todo: Sequence[StudyPlan], out: Path, options: RunnerOptions) -> list[str]:
    """Run cells, `options.jobs` at a time, and return the names of those that failed."""
    stop, waiting, failed = StopRequest(), list(todo), list[str]()
    live: dict[int, tuple[StudyPlan, Handle, float]] = {}
    with stop.listening():
        try:
            asked = False
            while live or (waiting and stop.number is None):
                while waiting and stop.number is None and len(live) < options.jobs:
                    one, slot = waiting.pop(0), min({*range(options.jobs)} - live.keys())
                    try:
                        live[slot] = (one, begin(one, slot, options), time.monotonic())
                    except DataError as error:
                        failed.append(fail(one, str(error)))
                time.sleep(POLL_SECONDS)
                if stop.number is not None and not asked:
                    asked = True
                    for _, process, _ in live.values():
                        process.terminate()
                for slot, (one, process, started) in list(live.items()):
                    if (status := process.poll()) is None:
                        continue
                    del live[slot]
                    gather([one], out)
                    if status == 0:
                        took = duration(time.monotonic() - started)
                        logger.info("%s: done in %s", one.cell.id, took)
                    elif stop.number is None:
                        failed.append(fail(one, failure(one.run.path, status)))
        finally:
            for _, process, _ in live.values():
                process.kill()
    if stop.number is not None:
        raise Interrupted(stop.number)
    return failed


def begin(one: StudyPlan, slot: int, options: RunnerOptions) -> Handle:
    """Make a cell's folder ready and start it."""
    from lingraft.pipeline.completing import fitted  # torch

    folder, recipe = one.run.path, one.cell.recipe
    with one.run.locked(LOCK_SECONDS):  # a process that a study left may still be writing
        one.step.begin(one.job["inputs"])
    # cells may share a GPU, so none goes by what its memory holds; nobody goes on with a cell
    hardware = recipe.hardware.model_copy(update={"micro_batch_tokens": recipe.hardware.at_once})
    recipe = recipe.model_copy(update={"hardware": hardware})
    write_text(one.run.recipe_path, to_toml(fitted(recipe)))
    write_json(folder / JOB, one.job)
    (folder / FAILURE).unlink(missing_ok=True)
    logger.info("%s: starts", one.cell.id)
    return options.start(folder, slot, options.jobs)


def fail(one: StudyPlan, message: str) -> str:
    """Write down that a cell failed, and return its name."""
    logger.error("%s: failed: %s", one.cell.id, message)
    with contextlib.suppress(OSError):  # the disk may be full
        write_text(one.run.path / FAILURE, message + "\n")
    return one.cell.id


@dataclass(frozen=True)
class Current:
    """Facts that are known of a study's present cells."""

    rows: list[row.Score]
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
    path, known = out / row.RESULTS, out / CELLS
    if not known.is_file():
        return Current(row.read(path), [], {})
    found = row.read(path) if path.is_file() else []  # refuses a folder of another version
    named, failures, planned = {}, {}, []
    for common, *tasks in read_json(known):
        name = common["model"]
        planned.append(name)
        for part in (common | {"axes": {}}, *tasks):
            named[part["inputs"]] = {"model": name, "axes": common["axes"] | part["axes"]}
        reason = out / "cells" / name / FAILURE
        if reason.is_file():
            failures[name] = reason.read_text("utf-8").strip()
    rows = [one.model_copy(update=named[one.inputs]) for one in found if one.inputs in named]
    return Current(rows, planned, failures)
