"""`lingraft check`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lingraft.commands import options as ask
from lingraft.commands.console import out
from lingraft.recipe.methods import read_recipe


def command(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")], settings: ask.Settings = None
) -> None:
    """Say whether a recipe is sound and what it will do; loads and downloads no model."""
    from lingraft.pipeline import preflight

    plan = preflight.check(read_recipe(recipe, settings or []))
    out.print(f"{recipe}: sound", soft_wrap=True)
    out.print(f"stages: {' → '.join(plan.stages)}", soft_wrap=True)
    out.print(f"text: {plan.text_files} files, {plan.text_bytes / 1e6:,.1f} MB as stored")
    if plan.parameters:
        parts = ", ".join(f"{part} {size:,}" for part, size in plan.by_part.items() if size)
        out.print(
            f"model: {plan.model_type}, {plan.parameters:,} parameters ({parts})", soft_wrap=True
        )
    table = Table(
        "phase", "trains", "parameters", "budget", "batch", "learning rate", "tokens (estimate)"
    )
    for phase in plan.phases:
        trainable = f"{phase['trainable']:,}" if phase["trainable"] is not None else "?"
        row = (
            phase["name"],
            phase["trains"],
            trainable,
            phase["budget"],
            phase["batch"],
            f"{phase['learning_rate']:g}",
        )
        table.add_row(*row, f"{phase['tokens_estimate']:,.0f}")
    out.print(table)
    if plan.disk_bytes_estimate and plan.memory_bytes_estimate:
        out.print(
            f"estimates: {plan.disk_bytes_estimate / 1e9:,.2f} GB on disk; "
            f"{plan.memory_bytes_estimate / 1e9:,.2f} GB of memory for weights, gradients "
            "and optimiser, activations on top"
        )
    for note in plan.notes:
        out.print(f"note: {note}", soft_wrap=True)
