"""`lingraft check`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.adapt import asked as given_in
from lingraft.commands.parsing import takes
from lingraft.config import recipe_of
from lingraft.errors import DataError, RecipeError
from lingraft.log import counted
from lingraft.recipe import Recipe
from lingraft.recipe.decoding import load
from lingraft.report.next_step import command as command_of

if TYPE_CHECKING:
    from lingraft.pipeline.completing import Completed
    from lingraft.pipeline.preflight import Plan
    from lingraft.report.table import Table


@takes(lambda: (Recipe,), listed=False)
def command(
    context: typer.Context,
    recipe: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECIPE|MODEL",
            help="A recipe (.toml), or a model: its folder, or a Hub id in the cache. Without one, "
            "the options of adapt.",
        ),
    ] = None,
    settings: ask.RecipeKeys = None,
    source: ask.Source = None,
    text: ask.Text = None,
    lang: ask.Lang = None,
    budget: ask.BudgetText = None,
    method: ask.MethodName = None,
    baseline: ask.Baseline = None,
    tokenizer: ask.Tokenizer = None,
) -> dict[str, Any]:
    """Say whether a recipe is sound and what it will do; downloads no model.

    A recipe: lingraft check recipes/demo.toml seed=1

    Options:  lingraft check --source demo/source --text ko.txt --lang ko --budget 30m

    A model:  lingraft check runs/ko/model

    Of a model: whether its files belong together (weights, tokenizer, configuration).
    """
    if recipe is None or recipe.is_file() or recipe.suffix == ".toml":
        if recipe is not None:
            data = load(recipe)
            if "base" in data and "source" not in data:
                plan = command_of("study", "plan", recipe)
                raise RecipeError(f"{recipe}: is a study; `{plan}` says what it will do")
        return _recipe(str(recipe or "recipe"), recipe_of(recipe, given_in(context)))
    idle = [name for name in context.params if name != "recipe"]
    ask.check_idle(context, idle, f"is for recipes, and {recipe} is none; leave it out")
    return _model(str(recipe))


def _recipe(name: str, asked: Recipe) -> dict[str, Any]:
    """Print what a recipe will do, and return it."""
    from lingraft.corpus.streams import check_packages
    from lingraft.pipeline import preflight, soundness
    from lingraft.pipeline.completing import complete
    from lingraft.report import choices

    completed = complete(asked, download=False)
    plan = preflight.check(completed.recipe)
    check_packages(completed.recipe)
    plan.notes += soundness.check_source(completed.recipe, download=False)
    console.line(f"{name}: sound")
    for line in choices.lines(completed.choices):
        console.line(line)
    phases = _phases(plan, completed)
    _show(plan, phases)
    notes = [*completed.notes, *plan.notes]
    for note in notes:
        console.line(f"note: {note}")
    return {
        "sound": True,
        "stages": list(plan.stages),
        "parameters": plan.parameters,
        "phases": console.rows(phases),
        "notes": notes,
        "recipe": completed.recipe.model_dump(mode="json", exclude_none=True),
    }


def _show(plan: Plan, phases: Table) -> None:
    console.line(f"stages: {' → '.join(plan.stages)}")
    unpacked = plan.unpacked_bytes_estimate
    rough = f", roughly {unpacked / 1e6:,.1f} MB unpacked" if unpacked > plan.text_bytes else ""
    files = counted(plan.text_files, "file")
    console.line(f"text: {files}, {plan.text_bytes / 1e6:,.1f} MB as stored{rough}")
    if plan.parameters:
        parts = ", ".join(f"{part} {size:,}" for part, size in plan.by_part.items() if size)
        console.line(f"model: {plan.model_type}, {plan.parameters:,} parameters ({parts})")
    console.show(phases)
    if plan.disk_bytes_estimate and plan.memory_bytes_estimate:
        memory, disk = plan.memory_bytes_estimate / 1e9, plan.disk_bytes_estimate / 1e9
        console.line(
            f"estimate: {memory:,.2f} GB of memory for weights, gradients and optimizer, "
            f"activations apart; {disk:,.2f} GB on disk"
        )


def _phases(plan: Plan, completed: Completed) -> Table:
    """Return what each phase trains, and for how long."""
    from lingraft.report.table import Column, table

    rows = [
        (
            phase["name"],
            phase["trains"],
            "?" if phase["trainable"] is None else f"{phase['trainable']:,}",
            phase["budget"],
            phase["batch"],
            phase["learning_rates"],
            _tokens(phase["tokens_estimate"], section.budget.seconds, completed),
        )
        for phase, section in zip(plan.phases, completed.recipe.phases, strict=True)
    ]
    texts = (Column("phase", "text"), Column("trains", "long"))
    head = (
        *texts,
        "parameters",
        "budget",
        "batch",
        "learning rate",
        "tokens, about",
    )
    return table("", head, rows)


def _tokens(estimate: float | None, seconds: float | None, completed: Completed) -> str:
    """Show the tokens of a phase; of a budget in time its share of what was decided by."""
    if estimate is None and completed.facts and seconds:
        estimate = completed.facts["tokens"] * seconds / completed.facts["seconds"]
    return "?" if estimate is None else f"{estimate:,.0f}"


def _model(name: str) -> dict[str, Any]:
    """Print what is known of a model, and return it.

    Raises:
        DataError: its files do not belong together.
    """
    from lingraft.pipeline.soundness import examine

    facts, wrong = examine(name)
    for title, fact in facts.items():
        console.line(f"{title}: {fact}")
    if wrong:
        for problem in wrong[:-1]:
            typer.echo(f"lingraft: {name}: {problem}", err=True)
        raise DataError(f"{name}: {wrong[-1]}")
    console.line(f"{name}: sound")
    return {"sound": True, **facts}
