"""Tasks that cells are fine-tuned on, each at the points of the axes of fine-tuning."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning.recipe import decode_finetune, tasks_of
from lingraft.recipe import Hardware
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS
from lingraft.rundir import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.finetuning.recipe import Finetune
    from lingraft.study.grid import Cell
    from lingraft.study.recipe import Study, StudyTask


@dataclass(frozen=True)
class TaskJob:
    """A task with one point of the axes of fine-tuning."""

    section: StudyTask
    point: dict[str, Any]
    name: str
    fingerprint: str
    """Fingerprint of everything that decides the result, but for the model and the seed."""

    def fits(self, cell: Cell) -> bool:
        """Tell whether a cell's model is fine-tuned so."""
        sizes, methods = self.section.sentences, self.section.methods
        size, method = cell.axes["sentences"], cell.axes["method"]
        right = (size is None or not sizes or size in sizes) and (not methods or method in methods)
        return right and self.point in cell.tunings

    def of(self, cell: Cell, cell_fingerprint: str) -> dict[str, Any]:
        """Return the job of one cell as plain data, with its recipe of `lingraft finetune`."""
        recipe = _recipe(self.section, self.point, cell.recipe.hardware)
        place = "-".join(("tasks", *([fingerprint(self.point)[:4]] if self.point else [])))
        return {
            "name": self.name,
            "inputs": fingerprint(cell_fingerprint, self.fingerprint),
            "axes": self.point,
            "place": place,
            "seeds": list(self.section.seeds),
            "recipe": recipe.model_dump(mode="json", exclude_none=True),
        }


def _recipe(section: StudyTask, point: Mapping[str, Any], hardware: Hardware) -> Finetune:
    """Return a task's recipe at a point of the axes of fine-tuning.

    Raises:
        RecipeError: an axis is no key of fine-tuning, or its value cannot be.
    """
    settings = [f"{axis.partition('.')[2]}={json.dumps(value)}" for axis, value in point.items()]
    table = section.finetune(hardware).model_dump(mode="json", exclude_none=True)
    return decode_finetune(table, settings, f"tasks: {section.name}")


def task_jobs(study: Study, cells: Sequence[Cell]) -> list[TaskJob]:
    """Return what is to be fine-tuned: each task, at each point of the axes of fine-tuning.

    Raises:
        LingraftError: a task or a method is not known, files are missing or broken, a task is in no
            cell or twice in one, or axes of fine-tuning have no task.
    """
    found = []
    tunings: list[dict[str, Any]] = []
    for cell in cells:
        tunings += [point for point in cell.tunings if point not in tunings]
    if any(tunings) and not study.tasks:
        raise RecipeError(f"grids: {next(iter(tunings[-1]))} is for fine-tuning; add [[tasks]]")
    for section in study.tasks:
        for method in section.methods:
            if method not in (*METHODS, AUTO):
                raise RecipeError(f"tasks: {section.name}: '{method}' in methods is no method")
        own = []
        (task,) = tasks_of(_recipe(section, {}, Hardware()), Path())
        for point in tunings:
            recipe = _recipe(section, point, Hardware())
            (task,) = tasks_of(recipe, Path())
            data = task_data.load(task, recipe, Path())
            parts = (task.name, task_data.fingerprint_of(data), task.decisive())
            job = TaskJob(section, point, task.name, fingerprint(*parts))
            own += [job] if any(map(job.fits, cells)) else []
        if not own:
            raise RecipeError(f"tasks: {task.name}: no cell has its methods and sentences")
        found += own
    for cell in cells:
        names = [(job.name, repr(job.point)) for job in found if job.fits(cell)]
        if twice := [name for name, _ in names if names.count((name, _)) > 1]:
            raise RecipeError(f"tasks: {twice[0]} is there twice for a cell; merge them")
    return found
