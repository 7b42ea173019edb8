"""`lingraft study run`, `plan` and `report`: they parse, call and print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.commands import console
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from lingraft.study.recipe import Study

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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@command.command()
def run(
    study_file: StudyFile,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]…",
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
    force: Annotated[bool, typer.Option(help="Delete the study in --out first.")] = False,
    update: Annotated[
        bool, typer.Option(help="Replace the study in --out, and keep what both share.")
    ] = False,
    as_json: Json = False,
) -> Path:
    """Run the cells that are missing, and write OUT/results.jsonl and OUT/report.html.

    lingraft study run recipes/study-smoke.toml --jobs 2

    A killed study goes on with the same command, a larger one runs its new cells only, and a cell
    that failed is tried again.
    """
    from lingraft.recipe.decoding import override
    from lingraft.study import executors, runner
    from lingraft.study.recipe import read_study

    study = read_study(study_file)
    place = out or Path("runs") / study.name
    start = executors.start_of(executor, override({}, settings or ()), place)
    options = runner.Options(jobs, tuple(only or ()), force, update, start)
    tally = runner.run(study, place, options)
    if tally.kept + tally.done:
        _report(place, study, as_json=as_json)
    if tally.failed:
        same = "the same command" + " without --force" * force
        raise RecipeError(f"failed: {', '.join(tally.failed)}; {same} tries again")
    return place / "report.html"


@command.command()
def plan(study_file: StudyFile, out: Out = None, only: Only = None, as_json: Json = False) -> None:
    """Show the cells of a study, and what is done of them."""
    from lingraft.report.table import Column, table
    from lingraft.study import runner
    from lingraft.study.recipe import read_study

    study = read_study(study_file)
    place = out or Path("runs") / study.name
    plans = runner.plan(study, place, only or ())
    rows = [
        {"cell": one.cell.id, "state": one.state, "tasks": len(one.job["tasks"])} for one in plans
    ]
    if as_json:
        console.json_object({"study": study.name, "out": str(place), "cells": rows})
        return
    head = ("cell", Column("state", "text"), "tasks")
    console.show(table(f"study {study.name}", head, [map(str, row.values()) for row in rows]))
    console.line(f"{len(rows)} cells, {sum(row['state'] != 'done' for row in rows)} to do")


@command.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A study's folder.")],
    as_json: Json = False,
) -> None:
    """Write FOLDER/report.html again, from its results.jsonl."""
    from lingraft.study.recipe import decode
    from lingraft.study.runner import STUDY

    path = folder / STUDY
    if not path.is_file():
        _report(folder, None, as_json=as_json)
        return
    from lingraft.recipe.decoding import load

    _report(folder, decode(load(path), str(path)), as_json=as_json)


def _report(folder: Path, study: Study | None, *, as_json: bool) -> None:
    """Write the page, and print its tables."""
    from lingraft.pages import check_target
    from lingraft.report.table import fits, shown_as_csv
    from lingraft.rundir import write_text
    from lingraft.stats import Resampling
    from lingraft.study import page, recipe, runner
    from lingraft.study.results import collect

    name, settings = study.name if study else folder.name, recipe.to_toml(study) if study else ""
    known = runner.current(folder)
    planned = known.planned
    results = collect(known.rows, study.select if study else (), known.failures)
    path = folder / runner.PAGE
    check_target(path)
    write_text(path, page.render(name, results, planned, settings))
    verdict = page.verdict(results, Resampling())
    tables = [page.quality(results, size) for size in results.sizes]
    if as_json:
        data: dict[str, Any] = {"study": name, "verdict": verdict, "report": str(path)}
        console.json_object(data | {"failed": dict(results.failures), "tables": {
            one.title: shown_as_csv(one) for one in tables}})  # fmt: skip
        return
    for one in tables:
        titles = [column.title for column in one.columns]
        while len(titles) > 2 and not fits(one.only(titles), console.out.width, stacked=True):
            titles.pop()  # the page has all columns
        console.show(one.only(titles))
    ended = f"{len(results.cells)} of {max(len(planned), len(results.cells))} cells"
    console.summary(("what", f"{name}: {ended}"), ("result", verdict), ("report", path))
