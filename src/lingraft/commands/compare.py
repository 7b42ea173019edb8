"""`lingraft compare`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="OUT",
            help="Folders that `lingraft finetune` wrote. Those of `lingraft retrieve --task` may "
            "stand beside them, for XTREME's average of all nine tasks.",
        ),
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            help="The model that the others are tested against: its label; "
            "'scratch' or the first one by default."
        ),
    ] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="The page; comparison.html in the first folder.")
    ] = None,
    resamples: ask.Draws = 1_000,
) -> None:
    """Compare models after fine-tuning: scores, significance, mistakes.

    Prints models × tasks and writes one page, with all numbers as CSV beside it.
    """
    from lingraft.finetuning.compare import compare

    target = out_file or folders[0] / "comparison.html"
    tables, written = compare(folders, target, reference=reference, resamples=resamples)
    for table in tables:
        console.show(table, best="")
    console.line(f"page: {written[0]} and {len(written) - 1} files beside it")
