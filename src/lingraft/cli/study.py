"""`lingraft study run`, `plan` and `report`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.cli import options as ask, parsing

if TYPE_CHECKING:
    from lingraft.study.page import Report

command = ask.group("Run a grid of complete recipes, and compare what comes out.")
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study (TOML).")]
Out = Annotated[Path | None, typer.Option(help="The study's folder; runs/NAME by default.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only these cells: a method, an id, or method=xpt,sentences=4000 (or *)."),
]


@command.command()
def run(
    study_file: StudyFile,
    settings: ask.SomeKeys = None,
    out: Out = None,
    jobs: Annotated[int, typer.Option(min=1, max=1_024)] = 1,
    only: Only = None,
    executor: str = "local",
    force: ask.Replace = False,
    update: ask.UpdateRun = False,
) -> dict[str, Any]:
    """Run the cells that are missing, and write OUT/results.jsonl and OUT/report.html.

    lingraft study run recipes/study-smoke.toml --jobs 2

    A killed study goes on with the same command, a larger one runs its new cells only, and a cell
    that failed is tried again.

    Options:
        settings: With --executor slurm: submitit's parameters, such as timeout_min=480
            slurm_partition=gpu gpus_per_node=1.
        jobs: Cells at a time; they share cores and GPUs.
        executor: local or slurm.
    """
    from lingraft.recipe.decoding import override
    from lingraft.study import cell, page
    from lingraft.study.recipe import read_study
    from lingraft.study.runner import RunnerOptions

    study = read_study(study_file)
    place = out or Path("runs") / study.name
    start = cell.start_of(executor, override({}, settings or ()), place)
    return _show(
        page.run(study, place, RunnerOptions(jobs, tuple(only or ()), force, update, start))
    )


@command.command()
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
    parsing.show(table(f"study {study.name}", head, [map(str, row.values()) for row in rows]))
    parsing.line(f"{len(rows)} cells, {sum(row['state'] != 'done' for row in rows)} to do")
    return {"study": study.name, "out": str(place), "cells": rows}


@command.command()
def report(folder: Annotated[Path, typer.Argument(help="A study's folder.")]) -> dict[str, Any]:
    """Write FOLDER/report.html again, from its results.jsonl.

    lingraft study report runs/study-smoke
    """
    from lingraft.study import page

    return _show(page.write(folder))


def _show(found: Report) -> dict[str, Any]:
    """Print what a study's results say, and return it."""
    scores = parsing.show(*found.tables)
    facts = ("what", f"study {found.name}"), ("result", found.verdict), ("report", found.path)
    parsing.summary(*facts)
    return {
        "study": found.name,
        "verdict": found.verdict,
        "report": str(found.path),
        "failed": dict(found.failures),
        "scores": scores,
    }
