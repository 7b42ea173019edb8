"""One stage of an existing run, by itself."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError, RecipeError
from lingraft.pipeline import adapt as pipeline
from lingraft.pipeline import clearing, evaluating, phases, stages
from lingraft.pipeline.stages import Context
from lingraft.recipe import stage_order
from lingraft.recipe.methods import is_auto, read_recipe
from lingraft.rundir import Run
from lingraft.training.machine import accelerator_for, environment
from lingraft.workers import check_one_process

if TYPE_CHECKING:
    from pathlib import Path

    from lingraft.recipe import Recipe


def run_stage(path: Path, name: str) -> dict[str, Any]:
    """Run one stage of an existing run; those before it must be done.

    Args:
        path: the run's folder.
        name: corpus, tokenizer, graft, the name of a phase, evaluation, model or report.

    Returns:
        The stage's counts.

    Raises:
        RecipeError: no such stage; several processes; or a phase that another precision trained.
        DataError: an earlier stage is not done.
    """
    check_one_process("stage", "several take lingraft adapt, which goes on")
    run = Run.existing(path)
    recipe = read_recipe(run.recipe_path)
    names = [phase.name for phase in recipe.phases]
    order = [*stage_order(names), "report"]
    if is_auto(recipe):
        raise RecipeError(f"{path}: its recipe.toml is not complete; run lingraft adapt")
    if name not in order:
        raise RecipeError(f"stage '{name}': this run has {', '.join(order)}")
    if name == "report":
        return {"report": str(pipeline.report(run))}
    with run.locked():
        context = by_itself(recipe, run, name)
        before = "" if name == "corpus" else _made(run, order[order.index(name) - 1])
        if name in names:
            phases.train(context, names.index(name), before)
        elif name == "model":
            pipeline.export(context, _made(run, ["graft", *names][-1]), before)
            pipeline.upload(run, recipe)
        else:
            work = {
                "tokenizer": stages.tokenizer,
                "graft": stages.graft,
                "evaluation": evaluating.evaluate,
            }
            stages.corpus(context) if name == "corpus" else work[name](context, before)
    return run.stage(name).result()


def _made(run: Run, name: str) -> str:
    digest = run.stage(name).fingerprint()
    if digest is None:
        raise DataError(f"{run.path}: stage '{name}' is not done yet; run it first")
    return digest


def by_itself(recipe: Recipe, run: Run, name: str) -> Context:
    """The context of one stage that is asked for alone.

    Raises:
        RecipeError: it is a phase, which this machine would begin anew in a precision of its own.
    """
    is_phase = any(section.name == name for section in recipe.phases)
    if is_phase and recipe.hardware.precision == "auto":
        for differing in clearing.changed_precision(recipe, run):
            raise RecipeError(f"{run.path}: {name} differs in {differing} (set it in recipe.toml)")
    accelerator = accelerator_for(recipe.hardware, run.path)
    now = environment(accelerator, shlex.join(["lingraft", "stage", str(run.path), name]))
    return Context(recipe, run, accelerator, environment=now)
