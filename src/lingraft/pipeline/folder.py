"""Compare what a run's folder was asked for with what is asked for now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.paths import path_of
from lingraft.pipeline import completing, fingerprints, phases, stages
from lingraft.pipeline.completing import Completed, asked_of
from lingraft.pipeline.evaluating import evaluation_fingerprint
from lingraft.recipe import STAGE_NAMES
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import read_recipe
from lingraft.report.row import RESULTS
from lingraft.rundir import (
    DONE,
    ENVIRONMENT,
    Step,
    clear_temporary,
    read_json,
    remove,
    write_record,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lingraft.recipe import Recipe
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
    """Return whether a folder of a run is a stage or a phase, whole or not."""
    return path.name.removesuffix(".partial") in STAGE_NAMES or Step(path).is_phase


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
    more = (*TRACKER_FOLDERS, ENVIRONMENT, "report.html", RESULTS, run.metrics_path.name)
    last = (run.choices_path, run.recipe_path)
    for path in (*made, *(run.path / name for name in more), *last):
        remove(path)  # of a study's cell, which shares text and vocabulary, the link alone
