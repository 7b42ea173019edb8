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
    from lingraft.recipe import Recipe
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
        raise RecipeError(
            f"{where}: an older version of lingraft made it; train it anew with its recipe "
            "(--force, or another --out)"
        )
    recipe, record = read_recipe(run.recipe_path), read_json(run.choices_path)
    if not recipe.phases:
        raise RecipeError(f"{where}: its method '{recipe.training.method}' trains nothing")
    *before, last = recipe.phases
    section = last.model_copy(update={"budget": _last_budget(where, recipe, budget)})
    longer = recipe.model_copy(update={"phases": (*before, section)})
    if section.budget != last.budget:
        _check(run, recipe, longer, where)
    asked = record["asked"]
    if asked.get("phases"):
        plain = section.budget.model_dump(mode="json")
        asked = asked | {"phases": [*asked["phases"][:-1], asked["phases"][-1] | {"budget": plain}]}
    else:
        plain = budget.model_dump(mode="json")
        asked = asked | {"training": asked.get("training", {}) | {"budget": plain}}
    return Completed(longer, asked, record["facts"], tuple(record["choices"]))


def _last_budget(where: str, recipe: Recipe, budget: Budget) -> Budget:
    """Return what of a whole run's budget the phases before leave to the last one."""
    units = {_plain(phase.budget)[1] for phase in recipe.phases[:-1]} | {_plain(budget)[1]}
    if len(units) > 1:
        raise RecipeError(
            f"{where}: its first phase has a budget in {recipe.phases[0].budget.unit}; give that"
        )
    own = recipe.phases[-1].budget
    left = _plain(budget)[0] - sum(_plain(phase.budget)[0] for phase in recipe.phases[:-1])
    if left <= 0:
        raise RecipeError(f"{where} to {budget.value:g} {budget.unit}: its first phase had more")
    unit = own.unit if _plain(own)[1] == _plain(budget)[1] else budget.unit
    return Budget(value=left / SECONDS.get(unit, 1), unit=unit)


def _plain(budget: Budget) -> tuple[float, str]:
    """Return a budget's number and unit, of one in time in seconds."""
    return (budget.value, budget.unit) if budget.seconds is None else (budget.seconds, "seconds")


def _check(run: Run, recipe: Recipe, longer: Recipe, where: str) -> None:
    """Refuse a run whose last phase has nothing to go on from.

    Raises:
        RecipeError: so it is.
    """
    section = longer.phases[-1]
    folder = run.stage(section.name).path
    state, schedule = stable_state(folder), section.schedule
    if not state:
        if run.stage(section.name).fingerprint() is None:
            raise RecipeError(f"{where}: it is not finished; run the command that began it first")
        why = "nothing of before its cooldown was kept (hardware.keep_stable, or too little room)"
        if schedule.shape != "wsd":
            why = f"its learning rate falls from the start (schedule.shape = '{schedule.shape}')"
        raise RecipeError(
            f"{where}: {why}; train it anew for the whole time (--force, or another --out)"
        )
    if stage := changed(recipe, run):
        raise RecipeError(
            f"{where}: its {stage} was made of something else than its recipe.toml says now"
        )
    shorter, unit = recipe.phases[-1].budget, section.budget.unit
    elsewhere = (shorter.seconds or state["allowed"]) - state["allowed"]
    least = least_budget(state, section, elsewhere)
    if _plain(section.budget)[0] < least:
        value = (least + sum(_plain(one.budget)[0] for one in longer.phases[:-1])) / SECONDS.get(
            unit, 1
        )
        raise RecipeError(
            f"{where} for so short a time: before its cooldown it trained longer; give at least "
            f"{math.ceil(10 * value) / 10:g} {unit}"
        )
