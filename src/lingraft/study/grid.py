"""From a study to its cells: one complete recipe for each combination of the axes' values."""

from __future__ import annotations

import datetime as dt
import fnmatch
import itertools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe import Recipe, Training
from lingraft.recipe.decoding import load
from lingraft.recipe.defaults import TABLE
from lingraft.recipe.methods import as_written, is_auto, recipe_from, time_budget
from lingraft.recipe.phase import most_sentences
from lingraft.recipe.record import AUTO
from lingraft.recipe.records import METHODS
from lingraft.recipe.run import UNSIZED
from lingraft.rundir import fingerprint
from lingraft.study.inputs import decides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.row import Value
    from lingraft.study.recipe import Study

ALIASES = {"method": "training.method", "sentences": "training.max_train_sentences"}
"""Axes that have a short name."""
PLACES = ("method", "sentences", "seed")
"""Axes that every cell has."""
SHARED = ("budget", "max_train_sentences")
"""Keys of [training] in the base recipe that a cell of method 'auto' takes over."""
DECIDED = {key for key in TABLE if key.startswith(("training.", "graft.", "embeddings."))}
"""Keys of the base recipe that a cell of method 'auto' does not take over."""
DROPPED = ("phases", "baselines")
"""Tables of the base recipe that a cell does not take over."""
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
    base = {key: value for key, value in whole.items() if key not in DROPPED}
    unique: dict[str, Cell] = {}
    used: set[int] = set()
    for grid in study.grids:
        for axis in grid:
            _check_axis(axis)
        tunings = tuple(points({a: of for a, of in grid.items() if a.startswith(FINETUNE)}))
        for point in points({a: of for a, of in grid.items() if not a.startswith(FINETUNE)}):
            matching = _matching(study, point)
            used.update(matching)
            cell = _cell(study, base, point, matching)
            nameless = fingerprint(cell.recipe.model_copy(update={"name": "run"}))
            before = unique.setdefault(nameless, replace(cell, tunings=()))
            new = [one for one in tunings if one not in before.tunings]
            unique[nameless] = replace(before, tunings=(*before.tunings, *new))
    idle = sorted(set(range(len(study.rules))) - used)
    if idle:
        raise RecipeError(
            f"rules.{idle[0]}: no cell matches {inline(study.rules[idle[0]].when)}; "
            "correct it or leave it out"
        )
    result = list(unique.values())
    _check_apart(result)
    return result


def points(grid: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all combinations of the axes' values."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _check_apart(grid_cells: Sequence[Cell]) -> None:
    """Refuse cells that results could not tell apart.

    Raises:
        RecipeError: two have one id, or differ in nothing that decides a result.
    """
    ids: dict[str, Cell] = {}
    for cell in grid_cells:
        first = ids.setdefault(cell.id, cell)
        if first is not cell:
            raise RecipeError(
                f"grids: two cells that differ are both '{cell.id}'; name what they differ in as "
                "an axis of both"
            )
    for axis in dict.fromkeys(axis for cell in grid_cells for axis in cell.axes):
        if not decides(axis) and len({cell.axes.get(axis) for cell in grid_cells}) > 1:
            raise RecipeError(
                f"grids: '{axis}' decides no result, so cells along it cannot be told apart; put "
                "it under [set], or make a study of each value"
            )


def _check_axis(axis: str) -> None:
    keys = [name for name in Recipe.model_fields if name not in DROPPED[1:]]
    if axis not in ALIASES and axis.partition(".")[0] not in (*keys, FINETUNE[:-1]):
        raise RecipeError(
            f"grids: '{axis}' is no axis: write method, sentences or a dotted path of a recipe, "
            f"which begins with {', '.join(keys)}, or finetune.KEY"
        )


def _matching(study: Study, point: dict[str, Any]) -> list[int]:
    """Return the indices of the rules that hold for a point of a grid."""
    return [
        number
        for number, rule in enumerate(study.rules)
        if all(key in point and point[key] == value for key, value in rule.when.items())
    ]


def _cell(study: Study, base: dict[str, Any], point: dict[str, Any], matching: list[int]) -> Cell:
    settings: dict[str, Any] = {}
    for layer in (study.set, *(study.rules[number].set for number in matching), point):
        for key, value in layer.items():
            path = ALIASES.get(key, key)
            settings.pop(path, None)  # assigned last: a table goes over single keys of it
            settings[path] = value
    where = f"study '{study.name}', cell {_shown(point)}"
    name = settings.get(ALIASES["method"])
    if automatic := name == AUTO:
        del settings[ALIASES["method"]]
        base = _left_open(_of_method(base, Training().method))
    elif isinstance(name, str) and name in METHODS:
        base = _of_method(base, name)
    assignments = [f"{path}={inline(value)}" for path, value in settings.items()]
    try:
        recipe = recipe_from(base, assignments, where)
    except RecipeError as error:
        text = str(error).removeprefix("--set ")
        raise RecipeError(text if text.startswith(where) else f"{where}: {text}") from None
    recipe = _complete(study, base, recipe, where)
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
    for section in ("graft", "embeddings", "tokenizer"):
        written, prescribed = getattr(base_method, section), getattr(cell_method, section)
        if section in base:
            left[section] = {
                key: value
                for key, value in base[section].items()
                if key not in prescribed and not (key in written and written[key] == value)
            }
    return left


def _left_open(base: dict[str, Any]) -> dict[str, Any]:
    """Return the base recipe for a cell of method 'auto', without what 'auto' decides.

    The vocabulary stays, which cells share; of [training] the budget and the amount of text.
    """
    left = {
        section: {key: value for key, value in keys.items() if f"{section}.{key}" not in DECIDED}
        if isinstance(keys, dict)
        else keys
        for section, keys in base.items()
    }
    method = base.get("training", {})
    return left | {
        "training": {"preset": AUTO} | {key: method[key] for key in SHARED if key in method}
    }


def _complete(study: Study, base: dict[str, Any], recipe: Recipe, where: str) -> Recipe:
    """Return a cell's complete recipe; where its vocabulary has no size, with the base's.

    Raises:
        RecipeError: a budget in time, which makes cells incomparable; or the recipe cannot work.
    """
    if time_budget(recipe) is not None:
        raise RecipeError(
            f"{where}: a study compares settings that are said: give budgets in tokens, steps or "
            "epochs"
        )
    if not is_auto(recipe):
        return as_written(recipe)
    from lingraft.pipeline.completing import decide  # torch

    sized = "vocab_size" in recipe.tokenizer.model_fields_set
    if not sized and recipe.tokenizer.action not in (*UNSIZED, "use"):
        size = _shared_size(study, base, where)
        changed = recipe.tokenizer.model_copy(update={"vocab_size": size})
        recipe = recipe.model_copy(update={"tokenizer": changed})
    try:
        return as_written(decide(recipe).recipe)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from None


def _shared_size(study: Study, base: dict[str, Any], where: str) -> int:
    """Return how many pieces 'auto' gives the vocabulary of the base recipe, which cells share.

    Raises:
        RecipeError: it cannot be decided of the base alone.
    """
    from lingraft.pipeline.completing import decide

    settings = {ALIASES.get(key, key): value for key, value in study.set.items()}
    settings.pop(ALIASES["method"], None)
    assignments = [f"{path}={inline(value)}" for path, value in settings.items()]
    try:
        return decide(recipe_from(base, assignments)).recipe.tokenizer.vocab_size
    except RecipeError:
        raise RecipeError(
            f"{where}: give tokenizer.vocab_size: cells share their vocabulary"
        ) from None


def _shown(point: dict[str, Any]) -> str:
    return ", ".join(f"{axis}={_scalar(value)}" for axis, value in point.items()) or "(only one)"


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


def inline(value: Any) -> str:
    """Write a value in TOML, on one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)} = {inline(item)}" for key, item in value.items())
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def chosen(cells: Sequence[Cell], expressions: Sequence[str]) -> list[Cell]:
    """Return the cells that at least one expression names; all where there is none.

    Args:
        cells: of the study.
        expressions: an id or a method (`xpt`, `xpt-n1000-*`), or conditions that must all hold
            (`method=xpt,sentences=4000`). `*` stands for anything.

    Raises:
        RecipeError: an unknown axis, or no cell at all.
    """
    axes = sorted({name for cell in cells for name in cell.axes})

    def holds(cell: Cell, condition: str) -> bool:
        axis, equals, pattern = condition.strip().partition("=")
        if not equals:
            names = (cell.id, str(cell.axes["method"]))
            return any(fnmatch.fnmatchcase(name, axis) for name in names)
        if axis not in axes:
            raise RecipeError(f"--only {condition}: '{axis}' is no axis; axes: {', '.join(axes)}")
        value = cell.axes.get(axis, ...)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        return value is not ... and fnmatch.fnmatchcase(text, pattern)

    matches = [
        cell
        for cell in cells
        if any(all(holds(cell, one) for one in text.split(",")) for text in expressions or "*")
    ]
    if not matches:
        some = ", ".join(cell.id for cell in cells[:5]) + (" …" if len(cells) > 5 else "")
        raise RecipeError(f"--only {' '.join(expressions)}: no cell matches; cells: {some}")
    return matches
