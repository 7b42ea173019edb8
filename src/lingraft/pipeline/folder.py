"""Compare what a run's folder was asked for with what is asked for now.

Going on with a finished run: its own recipe with a larger budget, from before the cooldown.

The last phase alone gets longer; the stages and phases before it stay.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.files import clear_temporary, path_of, remove, write_text
from lingraft.pipeline import completing, fingerprints, phases, stages, trackers
from lingraft.pipeline.completing import Completed, asked_of
from lingraft.pipeline.evaluating import evaluation_fingerprint
from lingraft.pipeline.phases import least_budget
from lingraft.recipe import STAGE_NAMES, Budget
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import check_times, read_recipe
from lingraft.recipe.phase import SECONDS
from lingraft.report.row import RESULTS
from lingraft.rundir import DONE, ENVIRONMENT, Step, read_json, write_record
from lingraft.training.checkpoint import stable_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft.recipe import Phase, Recipe
    from lingraft.rundir import Run


FREE = ("name", "hardware", "export")
"""Sections that nothing is decided by, and that make no stage before the model another one."""
TRACKER_FOLDERS = ("lingraft", "wandb", "mlruns")
"""Folders inside a run that TensorBoard, W&B and MLflow write to."""


def complete(
    asked: Recipe, run: Run, *, update: bool = False, force: bool = False, processes: int = 1
) -> Completed:
    """Return the complete recipe of a run: its own, where it was asked for the same before.

    Args:
        asked: as `completing.complete` takes it.
        run: which need not be there yet.
        update: decide anew where the contents of a file that was read are others now.
        force: decide anew.
        processes: that will train.

    Raises:
        LingraftError: as `completing.complete`.
    """
    known = None if force else _known(asked, run)
    if known is not None and not (update and changed(known.recipe, run)):
        return known
    return completing.complete(asked, processes=processes)


def _known(asked: Recipe, run: Run) -> Completed | None:
    """Return what the run has decided of this recipe; None where it was not asked for the same."""
    if not (run.choices_path.is_file() and run.recipe_path.is_file()):
        return None
    record, plain = read_json(run.choices_path), asked_of(asked)
    sides = ({k: v for k, v in side.items() if k not in FREE} for side in (record["asked"], plain))
    if not record["choices"] or next(sides) != next(sides):
        return None
    changes = {name: getattr(asked, name) for name in FREE}
    recipe = completing.fitted(read_recipe(run.recipe_path).model_copy(update=changes))
    return Completed(recipe, plain, record["facts"], tuple(record["choices"]))


def prepare(completed: Completed, run: Run, *, update: bool, force: bool) -> None:
    """Make the run's folder ready, and write the recipe into it.

    Raises:
        RecipeError: the folder holds something else, and neither `update` nor `force` says what
            to do with it.
    """
    if update and force:
        raise RecipeError("--update and --force contradict each other; give one")
    for folder in (run.path, *run.path.glob("*/"), *run.path.glob("baselines/*/*/")):
        clear_temporary(folder)
    is_run = run.recipe_path.is_file()
    present = [path.name for path in run.path.iterdir() if path.name != ".lock"]
    if present and not is_run:
        raise RecipeError(
            f"{run.path}: holds files but no run of lingraft ({present[0]} …); choose another --out"
        )
    if force:
        empty(run)
    elif is_run and not update and (stage := changed(completed.recipe, run)):
        new, old = completed.recipe, read_recipe(run.recipe_path)
        keys = [key for key, value in new if key not in FREE and value != getattr(old, key)]
        raise RecipeError(
            f"{run.path}: holds another run ({stage} differs in: "
            f"{', '.join(keys) or 'contents of files, or the precision'}); --update redoes what "
            "changed and keeps the rest, --force starts afresh"
        )
    text = to_toml(completed.recipe)
    is_same = is_run and not force and run.recipe_path.read_text("utf-8") == text
    if not is_same or completed.choices or not run.choices_path.is_file():
        write_text(run.recipe_path, text)
        write_record(run.choices_path, completed.plain())


def changed(recipe: Recipe, run: Run) -> str | None:
    """Return the first stage that a run has made from other inputs than a recipe's; None if none.

    A stage that was begun counts too.
    """
    for step, fingerprint in _fingerprints(recipe, run):
        if step.inputs().get("fingerprint") not in (None, fingerprint):
            return step.name
    return None


def _fingerprints(recipe: Recipe, run: Run) -> Iterator[tuple[Step, str]]:
    """Give the stages of a recipe up to its evaluation, and what each would be made from now."""
    before = fingerprints.corpus_fingerprint(recipe)
    yield run.stage("corpus"), before
    before = stages.tokenizer_fingerprint(recipe, before)
    yield run.stage("tokenizer"), before
    before = stages.graft_fingerprint(recipe, before)
    yield run.stage("graft"), before
    for index, phase in enumerate(recipe.phases):
        before = phases.phase_fingerprint(recipe, index, before)
        yield run.stage(phase.name), before
    yield run.stage("evaluation"), evaluation_fingerprint(recipe, before)


def _is_stage(path: Path) -> bool:
    """Return whether a folder of a run is a stage or a phase, whole or not.

    Steps that are neither say more of their inputs than a phase does.
    """
    is_stage = path.name.removesuffix(".partial") in STAGE_NAMES
    return is_stage or Step(path).inputs().keys() == {"fingerprint"}


def check_outside(recipe: Recipe, run: Run) -> None:
    """Refuse a source or a text that the run itself has made and would replace.

    Raises:
        RecipeError: one lies in a stage of this run.
    """
    named = [name for stream in recipe.texts for name in stream.corpus.text]
    for name in filter(None, (recipe.source.model, *named)):
        place, out = path_of(name).resolve(), run.path.resolve()
        if any(path.parent == out and _is_stage(path) for path in (place, *place.parents)):
            raise RecipeError(f"{name}: was made by the run in {run.path}; choose another --out")


def empty(run: Run) -> None:
    """Delete what lingraft made in a run's folder, and nothing else.

    The recipe goes last, every done.json first. So a kill half-way leaves a folder that is still a
    run, and in which nothing that is half deleted counts as finished.
    """
    made = [path for path in run.path.iterdir() if _is_stage(path)]
    for stage in made:
        for done in [] if stage.is_symlink() else list(stage.rglob(DONE)):
            done.unlink()
    own = ("report.html", RESULTS, run.metrics_path.name)
    more = (*TRACKER_FOLDERS, trackers.RUNS, ENVIRONMENT, *own)
    for path in (*made, *(run.path / name for name in more), *(run.choices_path, run.recipe_path)):
        remove(path)  # of a study's cell, which shares text and vocabulary, the link alone


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
    check_times((*before, section))
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
    if math.isinf(least):
        raise RecipeError(f"{where}: an older version of lingraft made it; train it anew (--force)")
    if _plain(section.budget)[0] < least:
        before = sum(_plain(phase.budget)[0] for phase in recipe.phases[:-1])
        value = (least + before) / SECONDS.get(section.budget.unit, 1)
        raise RecipeError(
            f"{where} for so short a time: before its cooldown it trained longer; give at least "
            f"{math.ceil(10 * value) / 10:g} {section.budget.unit}"
        )
