"""`lingraft check`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import DataError, RecipeError
from lingraft.log import counted
from lingraft.recipe.decoding import load
from lingraft.recipe.methods import recipe_from
from lingraft.report.next_step import command as command_of

if TYPE_CHECKING:
    from lingraft.pipeline.completing import Completed


def command(
    recipe: Annotated[
        Path,
        typer.Argument(help="A recipe (.toml), or a model: its folder, or a Hub id in the cache."),
    ],
    settings: ask.Settings = None,
) -> None:
    """Say whether a recipe is sound and what it will do; downloads no model.

    Of a model say whether its files belong together: weights, tokenizer and configuration.
    """
    if not recipe.is_file() and recipe.suffix != ".toml":
        if settings:
            raise RecipeError(f"--set: is for recipes, and {recipe} is none; leave it out")
        _model(str(recipe))
    else:
        _recipe(recipe, settings or [])


def _recipe(recipe: Path, settings: list[str]) -> None:
    from lingraft.corpus.streams import check_packages
    from lingraft.pipeline import preflight, soundness
    from lingraft.pipeline.completing import complete
    from lingraft.report import choices
    from lingraft.report.table import Column, table

    data = load(recipe)
    if "base" in data and "source" not in data:
        look = command_of("study", "plan", recipe)
        raise RecipeError(f"{recipe}: is a study; `{look}` says what it will do")
    completed = complete(recipe_from(data, settings, str(recipe)), download=False)
    planned = completed.recipe
    plan = preflight.check(planned)
    check_packages(planned)
    plan.notes += soundness.check_source(planned, download=False)
    console.line(f"{recipe}: sound")
    for line in choices.lines(completed.choices):
        console.line(line)
    console.line(f"stages: {' → '.join(plan.stages)}")
    unpacked = plan.unpacked_bytes_estimate
    rough = f", roughly {unpacked / 1e6:,.1f} MB unpacked" if unpacked > plan.text_bytes else ""
    files = counted(plan.text_files, "file")
    console.line(f"text: {files}, {plan.text_bytes / 1e6:,.1f} MB as stored{rough}")
    if plan.parameters:
        parts = ", ".join(f"{part} {size:,}" for part, size in plan.by_part.items() if size)
        console.line(f"model: {plan.model_type}, {plan.parameters:,} parameters ({parts})")
    rows = [
        (
            phase["name"],
            phase["trains"],
            "?" if phase["trainable"] is None else f"{phase['trainable']:,}",
            phase["budget"],
            phase["batch"],
            phase["learning_rates"],
            _tokens(phase["tokens_estimate"], section.budget.seconds, completed),
            f"{plan.memory[section.name].total / 1e9:,.1f}" if plan.memory else "?",
        )
        for phase, section in zip(plan.phases, planned.phases, strict=True)
    ]
    texts = (Column("phase", "text"), Column("trains", "long"))
    head = (
        *texts,
        "parameters",
        "budget",
        "batch",
        "learning rate",
        "tokens, about",
        "GB, about",
    )
    console.show(table("", head, rows))
    if plan.fits:
        console.line(f"memory: {plan.fits}")
    if plan.disk_bytes_estimate:
        console.line(f"estimate: {plan.disk_bytes_estimate / 1e9:,.2f} GB on disk")
    for note in [*completed.notes, *plan.notes]:
        console.line(f"note: {note}")


def _tokens(estimate: float | None, seconds: float | None, completed: Completed) -> str:
    """Show the tokens of a phase; of a budget in time its share of what was decided by."""
    if estimate is None and completed.facts and seconds:
        estimate = completed.facts["tokens"] * seconds / completed.facts["seconds"]
    return "?" if estimate is None else f"{estimate:,.0f}"


def _model(name: str) -> None:
    from lingraft.pipeline.soundness import examine

    facts, wrong = examine(name)
    for title, fact in facts.items():
        console.line(f"{title}: {fact}")
    if wrong:
        for problem in wrong[:-1]:
            typer.echo(f"lingraft: {name}: {problem}", err=True)
        raise DataError(f"{name}: {wrong[-1]}")
    console.line(f"{name}: sound")
