"""`lingraft check`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.cli import options as ask, parsing
from lingraft.cli.adapt import asked as given_in
from lingraft.config import recipe_of
from lingraft.log import counted
from lingraft.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lingraft.pipeline.preflight import RunPlan


@parsing.takes(lambda: (Recipe,), listed=False)
def command(
    context: typer.Context,
    recipe: Annotated[Path | None, typer.Argument()] = None,
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

    A recipe:   lingraft check recipes/demo.toml seed=1

    By options: lingraft check --source demo/source --text ko.txt --lang ko --budget 30m

    Options:
        recipe: A recipe (.toml). Without, the options of adapt.
    """
    from lingraft.pipeline import preflight
    from lingraft.pipeline.completing import complete
    from lingraft.report.pages import sections
    from lingraft.report.table import Column, table

    completed = complete(recipe_of(recipe, given_in(context)), download=False)
    plan = preflight.check(completed.recipe)
    notes = [*completed.notes, *plan.notes]
    parsing.line(f"{recipe or 'recipe'}: sound")
    for line in (*sections.lines(completed.choices), *_described(plan)):
        parsing.line(line)
    keys = ("name", "trains", "trainable", "budget", "batch", "learning_rates")
    phases = [["?" if phase[key] is None else phase[key] for key in keys] for phase in plan.phases]
    head = (Column("phase", "text"), Column("trains", "long"), "parameters", "budget", "batch")
    rows = parsing.show(table("", (*head, "learning rate"), phases))
    for note in notes:
        parsing.line(f"note: {note}")
    return {
        "sound": True,
        "stages": plan.stages,
        "parameters": plan.parameters,
        "phases": rows,
        "notes": notes,
        "recipe": completed.recipe.model_dump(mode="json", exclude_none=True),
    }


def _described(plan: RunPlan) -> Iterator[str]:
    """Say what a plan reads and builds, a line each."""
    yield f"stages: {' → '.join(plan.stages)}"
    size = sum(int(file.get("bytes") or 0) for file in plan.files)
    yield f"text: {counted(len(plan.files), 'file')}, {size / 1e6:,.1f} MB as stored"
    if plan.target is not None:
        parts = ", ".join(f"{part} {size:,}" for part, size in plan.by_part.items() if size)
        family, memory = plan.target.family.model_type, plan.memory_bytes_estimate / 1e9
        yield f"model: {family}, {plan.parameters:,} parameters ({parts})"
        yield f"estimate: {memory:,.2f} GB of weights, gradients and optimizer, activations apart"
