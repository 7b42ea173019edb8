"""What a study's cells are, what is known of each, and what is left to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lingraft.study import estimate, grid, rows, tuning
from lingraft.study.identity import Identity
from lingraft.study.studydir import StudyDir

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.study.estimate import Cost
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study
    from lingraft.study.rows import AnyRow, Outcome, Tuned
    from lingraft.study.tuning import Tuning

TASKS_TO_DO = "tasks to do"


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
    """Of its training."""
    outcome: Outcome | None
    """None while no attempt at it has ended."""
    tunings: tuple[Tuning, ...] = ()
    """The tasks that its model is fine-tuned on."""
    tuned: Tuned = field(default_factory=dict)
    """How fine-tunings of it have ended."""
    has_weights: bool = False
    """Its model lies in the study's folder."""

    @property
    def trained(self) -> bool:
        """Whether its training and evaluation are done."""
        return self.outcome is not None and self.outcome.end.status == "done"

    @property
    def missing(self) -> list[tuple[Tuning, int]]:
        """Fine-tunings that are still to be done: task and seed, in the study's order."""
        return [
            (one, seed)
            for one in self.tunings
            for seed in one.section.seeds
            if (row := self.tuned.get((one.fingerprint, seed))) is None or row.status == "failed"
        ]

    @property
    def trains(self) -> bool:
        """Whether it is to be trained: for its own rows, or again for the weights of its tasks."""
        return not self.trained or (bool(self.missing) and not self.has_weights)

    @property
    def state(self) -> str:
        """'done', 'failed', 'to do' or 'tasks to do'."""
        if self.outcome is None:
            return "to do"
        if not self.trained or not self.missing:
            return self.outcome.end.status
        failed = any((one.fingerprint, seed) in self.tuned for one, seed in self.missing)
        return "failed" if failed else TASKS_TO_DO

    @property
    def left(self) -> Cost:
        """What is still to be done."""
        works = [one.work for one, _ in self.missing]
        return estimate.with_tasks(self.cost, works, trains=self.trains)

    @property
    def weight(self) -> float:
        """Of what is left, for the progress bar."""
        return weight_of(self.left)

    @property
    def tasks_weight(self) -> float:
        """Of the fine-tunings in it."""
        works = [one.work for one, _ in self.missing]
        return weight_of(estimate.with_tasks(self.cost, works, trains=False))


def weight_of(cost: Cost) -> float:
    """Operations; tokens where those are not known."""
    return cost.flops or cost.all_tokens


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
    path = results_path(out, results)
    read = rows.read(path) if path.is_file() else []
    outcomes, tuned = rows.latest(read), rows.fine_tuned(read)
    identity, tunings = Identity(), tuning.prepared(study) if study.tasks else []
    found: list[AnyRow] = []
    for cell in grid.cells(study):
        name = identity.cell(cell.recipe)
        outcome = outcomes.get(name)
        if outcome is None:
            continue
        keys = [(one.fingerprint, s) for one in tuning.of_cell(tunings, cell)
                for s in one.section.seeds]  # fmt: skip
        of_tasks = [tuned.get(name, {})[key] for key in keys if key in tuned.get(name, {})]
        present = {"study": study.name, "cell": cell.id, "axes": cell.axes}
        own: list[AnyRow] = [*outcome.rows, outcome.end, *of_tasks]
        found += [row.model_copy(update=present) for row in own]
    return found


def plan(
    study: Study, only: Sequence[str], results: Path, folder: StudyDir | None = None
) -> list[Planned]:
    """The chosen cells in the order of the grids, checked, with their state.

    Args:
        study: whose cells.
        only: as `grid.chosen` reads it.
        results: the results file, which need not exist.
        folder: where cells may have left their weights.

    Raises:
        LingraftError: a cell's recipe or a task cannot work.
    """
    read = rows.read(results) if results.is_file() else []
    outcomes, tuned = rows.latest(read), rows.fine_tuned(read)
    identity, tunings = Identity(), tuning.prepared(study) if study.tasks else []
    everything = grid.cells(study)
    tuning.check_used(tunings, everything)
    planned = []
    for cell in grid.chosen(everything, only):
        name = identity.cell(cell.recipe)
        planned.append(
            Planned(
                cell,
                name,
                identity.corpus(cell.recipe),
                identity.tokenizer(cell.recipe),
                estimate.cost_of(cell.recipe),
                outcomes.get(name),
                tuning.of_cell(tunings, cell),
                dict(tuned.get(name, {})),
                folder is not None and folder.holds_weights(cell, name),
            )
        )
    return planned
