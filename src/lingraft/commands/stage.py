"""`lingraft stage`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console

LONG = ("blocks", "samples")
"""What done.json has for pages and comparisons, and a screen has no room for."""


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    name: Annotated[
        str, typer.Argument(help="corpus, tokenizer, graft, a phase, evaluation, model or report.")
    ],
) -> None:
    """Run one stage of a run alone; those before it must be done. Prints its counts as JSON.

    All that the stage leaves behind is in its done.json.
    """
    from lingraft.pipeline import one_stage

    result = one_stage.run_stage(run, name)
    console.json_object({key: value for key, value in result.items() if key not in LONG})
