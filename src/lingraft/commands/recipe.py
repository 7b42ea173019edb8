"""`lingraft recipe`: it parses, calls and prints."""

from __future__ import annotations

from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.recipe import shipped


def command(
    name: Annotated[
        str | None, typer.Argument(help="A recipe's name; without one, all are listed.")
    ] = None,
) -> None:
    """Print a recipe that ships with lingraft, comments and all, to start one's own from.

    lingraft recipe start > my.toml

    Those named demo and metaxlm-demo read the folder demo, which this makes:

    lingraft demo --files-to demo

    All others but start and xpt-roberta-ko need files of a clone of the repository, and their
    comments say which: among them demo-causal and study-smoke.
    """
    if name is not None:
        typer.echo(shipped.text(name), nl=False)
        return
    from lingraft.report.table import Column, table

    rows = [(stem, shipped.summary(path)) for stem, path in shipped.files().items()]
    head = (Column("name", "text"), Column("what it is", "long"))
    console.show(table("recipes", head, rows))
