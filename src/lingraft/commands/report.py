"""`lingraft report`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.errors import DataError
from lingraft.pages import check_target
from lingraft.rundir import ENVIRONMENT, Run


def command(
    runs: Annotated[list[Path], typer.Argument(help="Runs; the first is the main one.")],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The page. Default: RUN/report.html for one run, report.html here for several.",
        ),
    ] = None,
) -> None:
    """Write the report of a run, or one page that compares several."""
    from lingraft.report import advice, tables
    from lingraft.report.pages import run as run_page

    opened = [Run.existing(path) for path in runs]
    for run in opened:
        if not ((run.path / ENVIRONMENT).is_file() or any(run.path.glob("*/done.json"))):
            raise DataError(f"{run.path}: holds a recipe and no run yet; lingraft adapt makes one")
    target = out_file or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    check_target(target)
    console.show(tables.for_terminal(opened, console.out.width))
    console.line(advice.summary(opened))
    console.line(f"report: {run_page.write(opened, target)}")
