"""The folder of a run: what the run was asked for, and whether that is what is asked for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.paths import path_of
from lingraft.pipeline import completing, contents, phases, stages
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

MADE = (ENVIRONMENT, "report.html", RESULTS)
"""Files beside the stages that a run makes again."""
FREE = ("name", "hardware", "export")
"""Sections that nothing is decided by, and that make no stage before the model another one."""
PLACED = ("corpus", "streams", "source")
"""Sections that name files, which may lie elsewhere now."""
PLACES = ("text", "decontaminate", *contents.RESOURCES)
"""Keys that name files."""
TRACKER_FOLDERS = ("lingraft", "wandb", "mlruns")
"""Where TensorBoard, W&B and MLflow write inside a run."""


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
    if not record["choices"] or _decisive(record["asked"]) != _decisive(plain):
        return None
    recipe = read_recipe(run.recipe_path)
    files = {key: getattr(asked.embeddings, key) for key in contents.RESOURCES}
    changes: dict[str, Any] = {name: getattr(asked, name) for name in (*FREE, *PLACED)}
    changes["embeddings"] = recipe.embeddings.model_copy(update=files)
    recipe = completing.fitted(recipe.model_copy(update=changes))
    return Completed(recipe, plain, record["facts"], tuple(record["choices"]))


def _decisive(asked: Any) -> Any:
    """Return what is asked for, but for names, the machine, and files, whose contents count."""
    if isinstance(asked, list):
        return [_decisive(one) for one in asked]
    if not isinstance(asked, dict):
        return asked
    leave = (*FREE, *PLACES, "source")
    kept = {key: _decisive(value) for key, value in asked.items() if key not in leave}
    return {key: value for key, value in kept.items() if value != {}}


def prepare(completed: Completed, run: Run, *, update: bool, force: bool) -> None:
    """Make the run's folder ready, and write the recipe into it.

    Raises:
        RecipeError: the folder holds something else, and neither `update` nor `force` says what
            to do with it.
    """
    if update and force:
        raise RecipeError("--update and --force contradict each other; give one")
    recipe_text = to_toml(completed.recipe)
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
        new, old = (
            recipe.model_dump(mode="json", exclude=set(FREE))
            for recipe in (completed.recipe, read_recipe(run.recipe_path))
        )
        sections = [key for key in new if new[key] != old[key]]
        raise RecipeError(
            f"{run.path}: holds another run ({stage} differs in: "
            f"{', '.join(sections) or 'contents of files, or the precision'}); --update redoes "
            "what changed and keeps the rest, --force starts afresh"
        )
    is_same = is_run and not force and run.recipe_path.read_text("utf-8") == recipe_text
    if not is_same or completed.choices or not run.choices_path.is_file():
        write_text(run.recipe_path, recipe_text)
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
    before = contents.corpus_fingerprint(recipe)
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
        inside = [path for path in (place, *place.parents) if path.parent == out]
        if any(map(_is_stage, inside)):
            raise RecipeError(
                f"{name}: is what the run in {run.path} has made, and would be replaced; choose "
                "another --out"
            )


def empty(run: Run) -> None:
    """Delete what lingraft made in a run's folder, and nothing else.

    The recipe goes last, every done.json first. So a kill half-way leaves a folder that is still a
    run, and in which nothing that is half deleted counts as finished.
    """
    paths = list(run.path.iterdir())
    made = [path for path in paths if _is_stage(path)]
    for stage in made:
        for done in [] if stage.is_symlink() else list(stage.rglob(DONE)):
            done.unlink()
    for path in [*made, *(path for path in paths if path.name in TRACKER_FOLDERS)]:
        remove(path)  # of a study's cell, which shares text and vocabulary, the link alone
    for path in (*(run.path / name for name in MADE), run.metrics_path):
        path.unlink(missing_ok=True)
    run.choices_path.unlink(missing_ok=True)
    run.recipe_path.unlink(missing_ok=True)
