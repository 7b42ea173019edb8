"""`lingraft study run`, `plan` and `report`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.commands import console
from lingraft.commands.parsing import Command

if TYPE_CHECKING:
    from lingraft.study.report import Report

command = typer.Typer(
    name="study",
    help="Run a grid of complete recipes, and compare what comes out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study (TOML).")]
Out = Annotated[
    Path | None, typer.Option("--out", help="The study's folder; runs/NAME by default.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        help="Only these cells: a method, an id, or conditions such as method=xpt,sentences=4000; "
        "* stands for anything."
    ),
]


@command.command(cls=Command)
def run(
    study_file: StudyFile,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="With --executor slurm: submitit's parameters, such as timeout_min=480 "
            "slurm_partition=gpu gpus_per_node=1.",
        ),
    ] = None,
    out: Out = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=1_024, help="Cells at a time; they share cores and GPUs.")
    ] = 1,
    only: Only = None,
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    force: Annotated[bool, typer.Option("--force", help="Delete the study in OUT first.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Replace the study in OUT; keep what both share.")
    ] = False,
) -> dict[str, Any]:
    """Run the cells that are missing, and write OUT/results.jsonl and OUT/report.html.

    lingraft study run recipes/study-smoke.toml --jobs 2

    A killed study goes on with the same command, a larger one runs its new cells only, and a cell
    that failed is tried again.
    """
    from lingraft.recipe.decoding import override
    from lingraft.study import executors, report
    from lingraft.study.recipe import read_study
    from lingraft.study.runner import Options

    study = read_study(study_file)
    place = out or Path("runs") / study.name
    start = executors.start_of(executor, override({}, settings or ()), place)
    options = Options(jobs, tuple(only or ()), force, update, start)
    return _show(report.run(study, place, options))


@command.command(cls=Command)
def plan(study_file: StudyFile, out: Out = None, only: Only = None) -> dict[str, Any]:
    """Show the cells of a study, and what is done of them.

    lingraft study plan recipes/study-smoke.toml
    """
    from lingraft.report.table import Column, table
    from lingraft.study import runner
    from lingraft.study.recipe import read_study

    study = read_study(study_file)
    place = out or Path("runs") / study.name
    plans = runner.plan(study, place, only or ())
    rows = [
        {"cell": one.cell.id, "state": one.state, "tasks": len(one.job["tasks"])} for one in plans
    ]
    head = ("cell", Column("state", "text"), "tasks")
    console.show(table(f"study {study.name}", head, [map(str, row.values()) for row in rows]))
    console.line(f"{len(rows)} cells, {sum(row['state'] != 'done' for row in rows)} to do")
    return {"study": study.name, "out": str(place), "cells": rows}


@command.command(cls=Command)
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A study's folder.")],
) -> dict[str, Any]:
    """Write FOLDER/report.html again, from its results.jsonl.

    lingraft study report runs/study-smoke
    """
    from lingraft.study import report as reports

    return _show(reports.write(folder))


def _show(found: Report) -> dict[str, Any]:
    """Print what a study's results say, and return it."""
    from lingraft.report.table import fits

    for one in found.tables:
        titles = [column.title for column in one.columns]
        while len(titles) > 2 and not fits(one.only(titles), console.out.width, stacked=True):
            titles.pop()  # the page has all columns
        console.show(one.only(titles))
    console.summary(
        ("what", f"{found.name}: {found.ended}"),
        ("result", found.verdict),
        ("report", found.path),
    )
    return {
        "study": found.name,
        "verdict": found.verdict,
        "report": str(found.path),
        "failed": dict(found.failures),
        "scores": console.rows(*found.tables),
    }
