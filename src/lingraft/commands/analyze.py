"""`lingraft analyze retrieval` and `alignment`: what a model knows of translations."""

from __future__ import annotations

import typer

from lingraft.commands import alignment, retrieval

command = typer.Typer(
    help="Compare languages inside a model: find translations, link words.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
command.command("retrieval")(retrieval.command)
command.command("alignment")(alignment.command)
