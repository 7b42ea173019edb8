"""What lingraft has made in a run's folder: deleted on demand, or where other settings made it."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.paths import path_of
from lingraft.recipe import STAGE_NAMES
from lingraft.rundir import ENVIRONMENT, Stage, read_json, write_text
from lingraft.training.checkpoint import OLD, STABLE, last_step, leftovers, stable_state
from lingraft.training.machine import resolve_precision

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.recipe import Phase, Recipe
    from lingraft.rundir import Run

logger = logging.getLogger(__name__)

TRACKER_FOLDERS = ("lingraft", "wandb", "mlruns")
"""Where TensorBoard, W&B and MLflow write inside a run."""


def _is_stage(path: Path) -> bool:
    """Whether a folder of a run is a stage or a phase, whole or not."""
    return path.name.removesuffix(".partial") in STAGE_NAMES or (path / "inputs").is_file()


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
    for stage in (path for path in paths if _is_stage(path) and not path.is_symlink()):
        for done in list(stage.rglob("done.json")):
            done.unlink()
    for path in paths:
        of_stage = _is_stage(path)
        if path.is_symlink() and of_stage:  # a study's cell: the text and the vocabulary are shared
            path.unlink()
        elif path.is_dir() and (of_stage or path.name in TRACKER_FOLDERS):
            shutil.rmtree(path)
    files = (run.path / ENVIRONMENT, run.path / "report.html", run.metrics_path)
    for path in (*files, run.choices_path, run.path / "plan.json"):
        path.unlink(missing_ok=True)
    run.recipe_path.unlink(missing_ok=True)


def clear_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of a phase that is done."""
    for leftover in leftovers(folder):
        shutil.rmtree(leftover)


def claim(run: Run, folder: Path, phase: Phase, fingerprints: tuple[str, str]) -> None:
    """Make a phase's folder ready; what other settings left goes, and rows to be written again.

    What a phase that differs in its budget alone has kept of before its cooldown stays.

    Args:
        run: the run.
        folder: of the phase.
        phase: what trains.
        fingerprints: of what it is made from, and of that but for its budget.
    """
    mark = folder / "inputs"
    if folder.exists() and not (mark.is_file() and mark.read_text() == fingerprints[0]):
        if goes_on(folder, phase, fingerprints[1]):
            state = stable_state(folder)
            logger.info(
                "%s: goes on from before its cooldown, at step %d", folder.name, state["step"]
            )
            _clear_but_stable(folder)
        else:
            if last_step(folder) or (folder / "done.json").is_file():
                logger.info(
                    "%s: begins anew, since what lies in %s was made by other settings, text, "
                    "source or precision", folder.name, folder,
                )  # fmt: skip
            Stage(folder).clear()
    step = last_step(folder)
    run.keep_metrics(lambda row: row["phase"] != folder.name or row["step"] <= step > 0)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "done.json").unlink(missing_ok=True)
    if not mark.is_file():
        write_text(mark, fingerprints[0])


def _clear_but_stable(folder: Path) -> None:
    """Delete what a phase has made, done.json first, but not what a longer one goes on from."""
    (folder / "done.json").unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and path.name not in (STABLE, OLD):
            shutil.rmtree(path)
    (folder / "inputs").unlink(missing_ok=True)


def goes_on(folder: Path, phase: Phase, fingerprint: str) -> bool:
    """Return whether a phase can go on from what one has kept that differs in its budget alone.

    Args:
        folder: of the phase.
        phase: which has a budget of its own.
        fingerprint: of what it is made from, but for its budget.
    """
    state, budget = stable_state(folder), phase.budget
    if not state or state["stable_fingerprint"] != fingerprint:
        return False
    return least_budget(state, phase) <= (budget.seconds or budget.value)


def least_budget(state: dict[str, Any], phase: Phase, elsewhere: float = 0.0) -> float:
    """Return the least budget with which a phase goes on from a state before the cooldown.

    Args:
        state: of the checkpoint.
        phase: which has a budget of its own, whose unit counts; of time in seconds.
        elsewhere: seconds of a budget in time that are not the phase's own.
    """
    schedule, unit = phase.schedule, phase.budget.unit
    stable = 1.0 - min(schedule.decay, 1.0 - schedule.warmup if schedule.warmup < 1 else 1.0)
    done = {"steps": state["step"], "tokens": state["tokens"], "epochs": state["epoch"]}
    return float(done.get(unit, state["passed"]) / max(stable, 1e-9) + elsewhere)


def changed_precision(recipe: Recipe, run: Run) -> list[str]:
    """Return in what precision a run has trained, where it would be another now."""
    path, now = run.path / ENVIRONMENT, resolve_precision(recipe.hardware)
    trained = any((run.stage(section.name).path / "inputs").is_file() for section in recipe.phases)
    before = read_json(path).get("precision", now) if trained and path.is_file() else now
    keeps = f"hardware.precision={before} keeps what is trained"
    return [] if before == now else [f"the precision, {before} there and {now} here: {keeps}"]
