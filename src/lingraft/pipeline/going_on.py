"""Going on with a finished run: its own recipe with a larger budget, from before the cooldown.

The last phase alone gets longer; the stages and phases before it stay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.pipeline.completing import Completed
from lingraft.pipeline.folder import changed
from lingraft.pipeline.phases import least_budget
from lingraft.recipe import Budget
from lingraft.recipe.methods import read_recipe
from lingraft.recipe.phase import SECONDS
from lingraft.rundir import read_json
from lingraft.training.checkpoint import stable_state

if TYPE_CHECKING:
    from lingraft.recipe import Phase, Recipe
    from lingraft.rundir import Run


def with_budget(run: Run, budget: Budget) -> Completed:
    """Return a run's own complete recipe with another budget.

    Args:
        run: which is finished, or goes on with this budget already.
        budget: of the whole run.

    Raises:
        RecipeError: it cannot be gone on with, or not with this budget.
    """
    where = f"{run.path}: cannot be gone on with"
    if not run.choices_path.is_file():
        raise RecipeError(f"{where}: an older version of lingraft made it; train it anew (--force)")
    recipe, record = read_recipe(run.recipe_path), read_json(run.choices_path)
    if not recipe.phases:
        raise RecipeError(f"{where}: its method '{recipe.training.method}' trains nothing")
    *before, last = recipe.phases
    section = last.model_copy(update={"budget": _last_budget(where, recipe, budget)})
    if section.budget != last.budget:
        _check(run, recipe, section, where)
    longer = recipe.model_copy(update={"phases": (*before, section)})
    return Completed(longer, record["asked"], record["facts"], tuple(record["choices"]))


def _last_budget(where: str, recipe: Recipe, budget: Budget) -> Budget:
    """Return what of a whole run's budget the phases before leave to the last one."""
    *before, own = (phase.budget for phase in recipe.phases)
    given, *others = map(_plain, (budget, *before))
    if any(unit != given[1] for _, unit in others):
        raise RecipeError(f"{where}: its first phase has a budget in {before[0].unit}; give that")
    left = given[0] - sum(number for number, _ in others)
    if left <= 0:
        raise RecipeError(f"{where} to {budget.value:g} {budget.unit}: its first phase had more")
    unit = own.unit if _plain(own)[1] == given[1] else budget.unit
    return Budget(value=left / SECONDS.get(unit, 1), unit=unit)


def _plain(budget: Budget) -> tuple[float, str]:
    """Return a budget's number and unit, of one in time in seconds."""
    return (budget.value, budget.unit) if budget.seconds is None else (budget.seconds, "seconds")


def _check(run: Run, recipe: Recipe, section: Phase, where: str) -> None:
    """Refuse a run whose last phase has nothing to go on from.

    Raises:
        RecipeError: so it is.
    """
    stage = run.stage(section.name)
    state = stable_state(stage.path)
    if stage.fingerprint() is None and not state:
        raise RecipeError(f"{where}: it is not finished; run the command that began it first")
    if not state:
        raise RecipeError(
            f"{where}: nothing of before its cooldown was kept, which takes schedule.shape = 'wsd' "
            "and room on the disk; train it anew for the whole time (--force)"
        )
    if changed_stage := changed(recipe, run):
        raise RecipeError(
            f"{where}: its {changed_stage} was made of something else than recipe.toml"
        )
    shorter = recipe.phases[-1].budget
    least = least_budget(state, section, (shorter.seconds or state["allowed"]) - state["allowed"])
    if _plain(section.budget)[0] < least:
        before = sum(_plain(phase.budget)[0] for phase in recipe.phases[:-1])
        value = (least + before) / SECONDS.get(section.budget.unit, 1)
        raise RecipeError(
            f"{where} for so short a time: before its cooldown it trained longer; give at least "
            f"{math.ceil(10 * value) / 10:g} {section.budget.unit}"
        )
