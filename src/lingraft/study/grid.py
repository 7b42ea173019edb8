"""From a study to its cells, a complete recipe for each combination of axes, and their tasks."""

from __future__ import annotations

import fnmatch
import itertools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.finetuning import data as task_data
from lingraft.finetuning.recipe import TaskOptions, decode_finetune, tasks_of
from lingraft.recipe import Hardware, Recipe, Training
from lingraft.recipe.base import check_initializers
from lingraft.recipe.decoding import inline, load
from lingraft.recipe.defaults import TABLE
from lingraft.recipe.methods import as_written, is_auto, recipe_from, time_budget
from lingraft.recipe.phase import most_sentences
from lingraft.recipe.records import AUTO, METHODS
from lingraft.recipe.run import UNSIZED
from lingraft.rundir import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.finetuning.recipe import Finetune
    from lingraft.report.row import Value
    from lingraft.study.recipe import Study, StudyTask

ALIASES = {"method": "training.method", "sentences": "training.max_train_sentences"}
"""Axes that have a short name."""
PLACES = ("method", "sentences", "seed")
"""Axes that every cell has."""
DECIDED = {key for key in TABLE if key.startswith(("training.", "graft.", "embeddings."))}
DECIDED |= {"training.method", "training.preset"}
"""Keys of the base recipe that a cell of method 'auto' does not take over."""
FINETUNE = "finetune."
"""Prefix of axes of fine-tuning: cells along them share the model that was trained."""


@dataclass(frozen=True)
class Cell:
    """A run of a study."""

    id: str
    """Readable, and the same as long as the cell's place in the grid is: `xpt-n4000-s1`."""
    axes: dict[str, Value]
    """`method`, `sentences` (None: all) and `seed`, then the grid's further axes."""
    recipe: Recipe
    """Complete."""
    tunings: tuple[dict[str, Any], ...] = ({},)
    """Values of the axes of fine-tuning, one point for each way in which its model is tuned."""


def cells(study: Study) -> list[Cell]:
    """Return all cells in the order of the grids; a recipe that occurs twice is one cell.

    Raises:
        RecipeError: the base recipe or a setting is wrong, on one line that names the cell.
    """
    whole = load(Path(study.base)) if isinstance(study.base, str) else study.base
    base = {key: value for key, value in whole.items() if key not in ("phases", "baselines")}
    unique: dict[str, Cell] = {}
    used: set[int] = set()
    for grid in study.grids:
        tunings = tuple(points({a: of for a, of in grid.items() if a.startswith(FINETUNE)}))
        for point in points({a: of for a, of in grid.items() if not a.startswith(FINETUNE)}):
            matching = [
                number
                for number, rule in enumerate(study.rules)
                if all(key in point and point[key] == value for key, value in rule.when.items())
            ]
            used.update(matching)
            cell = _cell(study, base, point, matching)
            nameless = fingerprint(cell.recipe.model_copy(update={"name": "run"}))
            before = unique.setdefault(nameless, replace(cell, tunings=()))
            new = [tuning for tuning in tunings if tuning not in before.tunings]
            unique[nameless] = replace(before, tunings=(*before.tunings, *new))
    for number, rule in enumerate(study.rules):
        if number not in used:
            raise RecipeError(f"rules.{number}: no cell matches {inline(rule.when)}")
    return list(unique.values())


def points(grid: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all combinations of the axes' values."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _cell(study: Study, base: dict[str, Any], point: dict[str, Any], matching: list[int]) -> Cell:
    settings: dict[str, Any] = {}
    for layer in (study.set, *(study.rules[number].set for number in matching), point):
        for key, value in layer.items():
            path = ALIASES.get(key, key)
            settings.pop(path, None)  # assigned last: a table goes over single keys of it
            settings[path] = value
    shown = ", ".join(f"{axis}={_scalar(value)}" for axis, value in point.items())
    where = f"study '{study.name}', cell {shown}"
    name = settings.get(ALIASES["method"])
    if automatic := name == AUTO:
        del settings[ALIASES["method"]]
        base = _left_open(_of_method(base, Training().method))
    elif isinstance(name, str) and name in METHODS:
        base = _of_method(base, name)
    try:
        assignments = [f"{path}={inline(value)}" for path, value in settings.items()]
        recipe = _complete(recipe_from(base, assignments, where))
    except RecipeError as error:
        text = str(error).removeprefix("--set ")
        raise RecipeError(text if text.startswith(where) else f"{where}: {text}") from None
    sentences = point.get("sentences", most_sentences(recipe.phases))
    if not recipe.phases:  # it reads no training text: one cell for all sizes and budgets
        sentences = None
    axes: dict[str, Value] = {
        "method": AUTO if automatic else recipe.training.method,
        "sentences": sentences,
        "seed": recipe.seed,
    }
    axes |= {axis: _scalar(value) for axis, value in point.items() if axis not in axes}
    name = _id(axes)
    return Cell(name, axes, recipe.model_copy(update={"name": f"{study.name}-{name}"}))


def _of_method(base: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the base recipe for a cell of another method than its own.

    What the cell's method prescribes is left out, since that is what makes it this method, and
    so is what the base's has written out.
    """
    own = base.get("training", {}).get("method", Training().method)
    if name == own or own not in METHODS:
        return base
    base_method, cell_method, left = METHODS[own], METHODS[name], dict(base)
    for section in {"graft", "embeddings", "tokenizer"} & base.keys():
        written, prescribed = getattr(base_method, section), getattr(cell_method, section)
        left[section] = {
            key: value
            for key, value in base[section].items()
            if key not in prescribed and not (key in written and written[key] == value)
        }
    return left


def _left_open(base: dict[str, Any]) -> dict[str, Any]:
    """Return the base recipe for a cell of method 'auto', without what 'auto' decides.

    The vocabulary stays, which cells share.
    """
    left = {
        section: {key: value for key, value in keys.items() if f"{section}.{key}" not in DECIDED}
        if isinstance(keys, dict)
        else keys
        for section, keys in base.items()
    }
    return left | {"training": left.get("training", {}) | {"preset": AUTO}}


def _complete(recipe: Recipe) -> Recipe:
    """Return a cell's complete recipe.

    Raises:
        RecipeError: a budget in time or no size of the vocabulary, which makes cells incomparable;
            or the recipe cannot work.
    """
    if time_budget(recipe) is not None:
        raise RecipeError("give budgets in tokens, steps or epochs, which make cells comparable")
    if is_auto(recipe):
        from lingraft.pipeline.completing import decide  # torch

        sized = "vocab_size" in recipe.tokenizer.model_fields_set
        if not sized and recipe.tokenizer.action not in (*UNSIZED, "use"):
            raise RecipeError("give tokenizer.vocab_size: cells share their vocabulary")
        recipe = decide(recipe).recipe
    if recipe.tokenizer.action != "keep":
        check_initializers(recipe.embeddings)
    return as_written(recipe)


def _scalar(value: Any) -> Value:
    """Return an axis' value as rows hold it; a list or a table is written out."""
    return value if isinstance(value, (str, int, float, bool)) else inline(value)


def _id(axes: dict[str, Value]) -> str:
    parts = [str(axes["method"])]
    if axes["sentences"] is not None:
        parts.append(f"n{axes['sentences']}")
    parts.append(f"s{axes['seed']}")
    further = {key: value for key, value in axes.items() if key not in PLACES}
    if further:
        words = [re.sub(r"[^A-Za-z0-9.]+", "_", str(value))[:16] for value in further.values()]
        parts += [*words, fingerprint(further)[:4]]
    return "-".join(parts)


def chosen(cells: Sequence[Cell], expressions: Sequence[str]) -> list[Cell]:
    """Return the cells that at least one expression names; all where there is none.

    Args:
        cells: of the study.
        expressions: an id or a method (`xpt`, `xpt-n1000-*`), or conditions that must all hold
            (`method=xpt,sentences=4000`). `*` stands for anything.

    Raises:
        RecipeError: no cell is named.
    """

    def holds(cell: Cell, pattern: str) -> bool:
        names = [cell.id, cell.axes["method"], *(f"{k}={of}" for k, of in cell.axes.items())]
        return any(fnmatch.fnmatchcase(str(name), pattern.strip()) for name in names)

    matches = [
        cell
        for cell in cells
        if any(all(holds(cell, one) for one in text.split(",")) for text in expressions or "*")
    ]
    if not matches:
        some = ", ".join(cell.id for cell in cells[:5]) + (" …" if len(cells) > 5 else "")
        raise RecipeError(f"--only {' '.join(expressions)}: no cell matches; cells: {some}")
    return matches


# -- tasks that cells are fine-tuned on


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
        recipe = _tuning(self.section, self.point, cell.recipe.hardware)
        place = "-".join(("tasks", *([fingerprint(self.point)[:4]] if self.point else [])))
        return {
            "name": self.name,
            "inputs": fingerprint(cell_fingerprint, self.fingerprint),
            "axes": self.point,
            "place": place,
            "seeds": list(self.section.seeds),
            "recipe": recipe.model_dump(mode="json", exclude_none=True),
        }


def _tuning(section: StudyTask, point: Mapping[str, Any], hardware: Hardware) -> Finetune:
    """Return a task's recipe at a point of the axes of fine-tuning; models and seeds come later.

    Raises:
        RecipeError: an axis is no key of fine-tuning, or its value cannot be.
    """
    settings = [f"{axis.partition('.')[2]}={json.dumps(value)}" for axis, value in point.items()]
    table = {
        "models": ["cell"],
        "tasks": [section.name],
        "device": hardware.device,
        "precision": hardware.precision,
        "micro_batch_tokens": hardware.at_once,
        **section.model_dump(mode="json", exclude_none=True, include=set(TaskOptions.model_fields)),
    }
    return decode_finetune(table, settings, f"tasks: {section.name}")


def task_jobs(study: Study, cells: Sequence[Cell]) -> list[TaskJob]:
    """Return what is to be fine-tuned: each task, at each point of the axes of fine-tuning.

    Raises:
        LingraftError: a task is not known, files are missing or broken, a task is in no cell or
            twice in one, or axes of fine-tuning have no task.
    """
    found: list[TaskJob] = []
    tunings: list[dict[str, Any]] = []
    for cell in cells:
        tunings += [point for point in cell.tunings if point not in tunings]
    if any(tunings) and not study.tasks:
        raise RecipeError(f"grids: {next(iter(tunings[-1]))} is for fine-tuning; add [[tasks]]")
    for section in study.tasks:
        own = []
        for point in tunings:
            recipe = _tuning(section, point, Hardware())
            (task,) = tasks_of(recipe, Path())
            data = task_data.load(task, recipe, Path())
            parts = (task.name, task_data.fingerprint_of(data), task.decisive())
            job = TaskJob(section, point, task.name, fingerprint(*parts))
            own += [job] if any(map(job.fits, cells)) else []
        if not own:
            raise RecipeError(f"tasks: {section.name}: no cell has its methods and sentences")
        found += own
    for cell in cells:
        names = [(job.name, repr(job.point)) for job in found if job.fits(cell)]
        if twice := [name for name, _ in names if names.count((name, _)) > 1]:
            raise RecipeError(f"tasks: {twice[0]} is there twice for a cell; merge them")
    return found
