"""`lingraft stage`: it parses, calls and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    name: Annotated[
        str, typer.Argument(help="corpus, tokenizer, graft, a phase, evaluation, model or report.")
    ],
) -> None:
    """Run one stage of a run alone; those before it must be done. Prints its counts as JSON."""
    from lingraft.pipeline import one_stage

    typer.echo(json.dumps(one_stage.run_stage(run, name), ensure_ascii=False))
