"""What a study's cells are, what is known of each, and what is left to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.errors import DataError, RecipeError
from lingraft.study import estimate, grid, identity, rows, steps
from lingraft.study.steps import TaskStep, TrainStep
from lingraft.study.studydir import StudyDir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.study.estimate import Cost
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study
    from lingraft.study.rows import AnyRow, EndRow, Outcome, TaskRow, Tuned
    from lingraft.study.runner import Options
    from lingraft.study.steps import Step

TASKS_TO_DO = "tasks to do"


@dataclass(frozen=True)
class CellPlan:
    """A cell, its steps, and how those that were tried ended."""

    cell: Cell
    fingerprint: str
    corpus: str
    """Fingerprint of its text, ..."""
    tokenizer: str
    """... and of its text and vocabulary."""
    steps: tuple[Step, ...]
    """Training comes first."""
    ends: dict[str, EndRow | TaskRow]
    """By name of the step; those that no attempt has ended are not there."""
    has_weights: bool = False
    """Its model lies in the study's folder."""

    @property
    def training(self) -> TrainStep:
        first = self.steps[0]
        assert isinstance(first, TrainStep)
        return first

    @property
    def missing(self) -> list[Step]:
        """Steps without results."""
        return [
            step
            for step in self.steps
            if (end := self.ends.get(step.name)) is None or end.status == "failed"
        ]

    @property
    def todo(self) -> list[Step]:
        """Steps to take: those that are missing; training also where they need its weights."""
        missing = self.missing
        if not missing or self.has_weights or self.training in missing:
            return missing
        return [self.training, *missing]

    @property
    def trains(self) -> bool:
        """Whether it is to be trained: for its own rows, or again for the weights of its tasks."""
        return self.training in self.todo

    @property
    def trains_again(self) -> bool:
        return self.trains and self.training not in self.missing

    @property
    def fine_tunings(self) -> int:
        """How many are still to be done."""
        return sum(isinstance(step, TaskStep) for step in self.missing)

    @property
    def state(self) -> str:
        """'done', 'failed', 'to do' or 'tasks to do'."""
        missing = self.missing
        if any(step.name in self.ends for step in missing):
            return "failed"
        return "to do" if self.training in missing else TASKS_TO_DO if missing else "done"

    @property
    def left(self) -> Cost:
        """What is still to be done."""
        return estimate.total([step.cost for step in self.todo])


def replaced(plans: Sequence[CellPlan], folder: StudyDir) -> str:
    """Which cells start where those of other settings lie, as a line; empty where none does.

    Raises:
        RecipeError: jobs of a cluster may still be writing there.
    """
    names = [
        plan.cell.id
        for plan in plans
        if plan.trains and folder.replaces(plan.cell, plan.fingerprint)
    ]
    folder.check_no_jobs(folder.cell(name).path for name in names)
    return (
        f"made by other settings than the study's: {', '.join(names)}; these folders are deleted, "
        "weights too, as their cells start anew (their rows stay in the results file)"
        if names
        else ""
    )


def _read(path: Path | None) -> tuple[dict[str, Outcome], dict[str, Tuned]]:
    """How cells and fine-tunings ended, by fingerprint of the cell.

    Raises:
        DataError: the results file is a folder, or is broken.
    """
    if path is not None and path.is_dir():
        example = StudyDir(path).results_path
        raise DataError(f"{path}: is a folder; --results names a file, such as {example}")
    all_rows = rows.read(path) if path is not None and path.is_file() else []
    return rows.latest(all_rows), rows.fine_tuned(all_rows)


def results_path(out: Path, results: Path | None = None) -> Path:
    """Where a study's rows are."""
    return results or StudyDir(out).results_path


def current_rows(study: Study, out: Path, results: Path | None = None) -> list[AnyRow]:
    """The rows of the study's present cells and tasks, in the order of the grids.

    A cell that has not ended has no rows; one that failed has its end row only. Study, id and axes
    are the present ones, whatever they were when the row was written.

    Raises:
        LingraftError: the study, its base recipe, text, source or a task's files cannot be read.
    """
    outcomes, tuned = _read(results_path(out, results))
    tasks = steps.task_plans(study)
    current: list[AnyRow] = []
    for cell in grid.cells(study):
        fingerprint = identity.cell(cell.recipe)
        if outcome := outcomes.get(fingerprint):
            cell_steps = steps.steps_of(study, cell, tasks, estimate.UNKNOWN)
            ends = steps.ends(cell_steps, outcome, tuned.get(fingerprint, {}))
            present = {"study": study.name, "cell": cell.id, "axes": cell.axes}
            own = (*outcome.rows, *ends.values())
            current += [row.model_copy(update=present) for row in own]
    return current


def waiting(study: Study, rows: Sequence[AnyRow]) -> list[str]:
    """The cells that are trained and lack a fine-tuning of the study, in the order of the grids.

    Args:
        study: whose cells.
        rows: of `current_rows`.
    """
    tasks = steps.task_plans(study)
    done = {row.cell for row in rows if row.kind == "end" and row.status == "done"}
    tuned = {
        (row.cell, row.task, row.seed)
        for row in rows
        if row.kind == "task" and row.status == "done"
    }
    return [
        cell.id
        for cell in grid.cells(study)
        if cell.id in done
        and any(
            (cell.id, plan.task.name, seed) not in tuned
            for plan in steps.tasks_for(cell, tasks)
            for seed in plan.section.seeds
        )
    ]


def plan_of_call(study: Study, out: Path, options: Options) -> list[CellPlan]:
    """As `plan`, of a call; what `--overwrite` deletes counts for nothing.

    Raises:
        LingraftError: a cell's recipe or a task cannot work, or options contradict each other.
    """
    if options.resume and options.overwrite:
        raise RecipeError("--resume and --overwrite contradict each other; give one")
    if options.overwrite:
        return plan(study, options.only, options.results)
    return plan(study, options.only, results_path(out, options.results), StudyDir(out))


def plan(
    study: Study, only: Sequence[str], results: Path | None, folder: StudyDir | None = None
) -> list[CellPlan]:
    """The chosen cells in the order of the grids, checked, with their state.

    Args:
        study: whose cells.
        only: as `grid.chosen` reads it.
        results: the results file, which need not exist; None for none.
        folder: where cells may have left their weights.

    Raises:
        LingraftError: a cell's recipe or a task cannot work.
    """
    outcomes, tuned = _read(results)
    tasks = steps.task_plans(study)
    everything = grid.cells(study)
    steps.check_used(tasks, everything)
    plans = []
    for cell in grid.chosen(everything, only):
        fingerprint = identity.cell(cell.recipe)
        cell_steps = steps.steps_of(study, cell, tasks, estimate.cost_of(cell.recipe))
        plans.append(
            CellPlan(
                cell,
                fingerprint,
                identity.corpus(cell.recipe),
                identity.tokenizer(cell.recipe),
                cell_steps,
                steps.ends(cell_steps, outcomes.get(fingerprint), tuned.get(fingerprint, {})),
                folder is not None and folder.holds_weights(cell, fingerprint),
            )
        )
    return plans
