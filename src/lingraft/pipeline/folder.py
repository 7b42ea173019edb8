"""The folder of a run: what the run was asked for, and whether that is what is asked for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.pipeline import completing, contents, phases, stages
from lingraft.pipeline.clearing import changed_precision, empty
from lingraft.pipeline.completing import Completed, asked_of
from lingraft.recipe import Budget
from lingraft.recipe.decoding import to_toml
from lingraft.recipe.methods import read_recipe
from lingraft.rundir import clear_temporary, read_json, write_record, write_text

if TYPE_CHECKING:
    from lingraft.recipe import Recipe
    from lingraft.rundir import Run

COMPUTES = ("precision", "row_tokens")
"""Keys of [hardware] that a phase's fingerprint holds; another value of the others redoes nothing.
"""
FREE = ("name", "hardware", "export")
"""Sections that nothing is decided by, and that make no stage before the model another one."""
PLACED = ("corpus", "streams", "source")
"""Sections that name files, which may lie elsewhere now."""


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
    if known is not None and not (update and changed_files(known.recipe, run)):
        return known
    return completing.complete(asked, processes=processes)


def _known(asked: Recipe, run: Run) -> Completed | None:
    """Return what the run has decided of this recipe; None where it was not asked for the same."""
    if not (run.choices_path.is_file() and run.recipe_path.is_file()):
        return None
    record, plain = read_json(run.choices_path), asked_of(asked)
    if not record["choices"] or _differing(record["asked"], plain, run, asked):
        return None
    recipe = read_recipe(run.recipe_path)
    files = {key: getattr(asked.embeddings, key) for key in contents.RESOURCES}
    changes: dict[str, Any] = {name: getattr(asked, name) for name in (*FREE, *PLACED)}
    changes["embeddings"] = recipe.embeddings.model_copy(update=files)
    recipe = completing.fitted(recipe.model_copy(update=changes))
    return Completed(recipe, plain, record["facts"], tuple(record["choices"]))


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
    present = [path.name for path in run.path.iterdir() if path.name != ".lock"]
    if force:
        if present and not run.recipe_path.is_file():
            raise RecipeError(
                f"{run.path}: holds files but no run of lingraft ({present[0]} …); "
                "it is not overwritten; choose another --out"
            )
        empty(run)
    elif run.recipe_path.is_file():
        done = any(run.path.glob("*/done.json")) and not update
        if done and (
            differing := changed_sections(completed, run) or changed_files(completed.recipe, run)
        ):
            raise RecipeError(
                f"{run.path}: holds another run (differs in: {', '.join(differing)}); --update "
                "redoes what changed and keeps the rest, --force starts afresh"
            )
    elif present:
        raise RecipeError(
            f"{run.path}: is not empty and holds no run of lingraft ({present[0]} …); "
            "choose another --out"
        )
    is_same = run.recipe_path.is_file() and run.recipe_path.read_text("utf-8") == recipe_text
    if not is_same or completed.choices or not run.choices_path.is_file():
        write_text(run.recipe_path, recipe_text)
        write_record(run.choices_path, completed.plain())


def changed_sections(completed: Completed, run: Run) -> list[str]:
    """Return the top-level keys in which a recipe differs from the run's.

    Where something was decided of both, what was asked for is compared: a decision may go by the
    machine's speed.
    """
    recipe = completed.recipe
    if completed.choices and run.choices_path.is_file():
        record = read_json(run.choices_path)
        if record["choices"]:
            return _differing(record["asked"], completed.asked, run, recipe)
    before = read_recipe(run.recipe_path)
    new, old = (version.model_dump(mode="json") for version in (recipe, before))
    return _differing(old, new, run, recipe)


def _differing(old: dict[str, Any], new: dict[str, Any], run: Run, recipe: Recipe) -> list[str]:
    """Return the sections in which two recipes, as plain data, ask for different results."""
    changed = changed_precision(recipe, run)
    computes = COMPUTES if changed else COMPUTES[1:]  # 'auto' is one

    def decisive(version: dict[str, Any]) -> dict[str, Any]:
        kept = {key: _in_minutes(value) for key, value in version.items() if key not in FREE}
        hardware = {k: v for k, v in version.get("hardware", {}).items() if k in computes}
        return kept | ({"hardware": hardware} if hardware else {})

    return contents.differing(decisive(old), decisive(new), run, recipe)


def _in_minutes(plain: Any) -> Any:
    """Return plain data of a recipe with budgets of hours in minutes: an hour is 60 of them."""
    if isinstance(plain, list):
        return [_in_minutes(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    changed = {key: _in_minutes(one) for key, one in plain.items()}
    if str(plain.get("budget", "")).endswith("hours"):
        seconds = Budget.model_validate(plain["budget"]).seconds or 0.0
        changed["budget"] = Budget(value=seconds / 60, unit="minutes").model_dump()
    return changed


def changed_files(recipe: Recipe, run: Run) -> list[str]:
    """Return what a run of the same recipe was made from, or in, and is another now."""
    if differing := changed_precision(recipe, run):
        return differing
    text, vocabulary = (run.stage(name).fingerprint() for name in ("corpus", "tokenizer"))
    is_same = text in (None, contents.corpus_fingerprint(recipe)) or contents.has_text_of(
        run, recipe
    )
    if not is_same:
        return ["the text's contents"]
    which = "the source's contents" if recipe.tokenizer.model is None else "source or tokenizer"
    if vocabulary not in (None, stages.tokenizer_fingerprint(recipe, str(text))):
        return [which]
    if vocabulary is None or run.stage("graft").fingerprint() is None:
        return []
    if contents.named_files(recipe.embeddings) and not stages.is_grafted(run, recipe, vocabulary):
        return ["the contents of [embeddings]"]
    return changed_teachers(recipe, run)


def changed_teachers(recipe: Recipe, run: Run) -> list[str]:
    """Return whose contents are others than when a phase of the same recipe and graft trained."""
    before = str(run.stage("graft").fingerprint())
    for index, section in enumerate(recipe.phases):
        before = phases.phase_fingerprint(recipe, index, before)
        mark = run.stage(section.name).path / "inputs"
        has_teacher = section.distil is not None and section.distil.teacher is not None
        if has_teacher and mark.is_file() and mark.read_text() != before:
            return [f"the contents of phases.{index}.distil.teacher"]
    return []
