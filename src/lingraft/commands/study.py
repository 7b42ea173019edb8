"""`lingraft study` and `lingraft probe`: they parse, call and print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from lingraft.study.planning import Planned
    from lingraft.study.recipe import Study
    from lingraft.study.runner import Options, Tally

Jobs = Annotated[
    int,
    typer.Option(
        min=1, max=1_024, help="Cells at a time; they share the cores, or take GPUs in turn."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Let --out hold another study; keep what both share.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete the study in --out first.")]


def study(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study (TOML).")],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The study's folder; runs/NAME by default.")
    ] = None,
    jobs: Jobs = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these cells: a method, an id, or conditions such as "
            "method=xpt,sentences=4000; several may follow, * stands for anything."
        ),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="The results file; OUT/results.jsonl by default.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and what it costs.")
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the page from the results there are.")
    ] = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Run a grid of methods, data sizes and seeds, and compare them on one page.

    What is in the results file is not run again: a killed study goes on with the same command, a
    changed one runs its new cells only, and a cell that failed is tried again. What comes out is
    OUT/results.jsonl and OUT/report.html.
    """
    from lingraft.study.recipe import read_study
    from lingraft.study.runner import Options

    chosen = read_study(study_file)
    folder = out_dir or Path("runs") / chosen.name
    options = Options(jobs, tuple(only or ()), results, resume, overwrite)
    if dry_run:
        _explain(chosen, folder, options)
    elif report_only:
        _publish(chosen, folder, results)
    else:
        _run(chosen, folder, options)


def _run(chosen: Study, folder: Path, options: Options) -> None:
    from lingraft.study import runner

    tally = runner.run(chosen, folder, options)
    _publish(chosen, folder, options.results)
    _end(tally)


def _end(tally: Tally) -> None:
    """Exit status 1 where a cell failed."""
    if tally.failed:
        console.line(f"failed: {', '.join(tally.failed)}; the same command tries again")
        raise typer.Exit(1)


def _publish(chosen: Study, folder: Path, results: Path | None) -> None:
    """Print the tables and write the page."""
    from lingraft.study import page, planning, tables, task_tables
    from lingraft.study.results import collect
    from lingraft.study.studydir import StudyDir

    rows = planning.current_rows(chosen, folder, results)
    if not rows:
        raise RecipeError(
            f"{planning.results_path(folder, results)}: holds no result of this study; "
            "run it without --report-only first"
        )
    found = collect(rows)
    failed = f", {len(found.failures)} failed" if found.failures else ""
    console.line(f"{chosen.name}: {len(found.cells)} cells{failed}")
    for size in found.sizes:
        console.show(tables.for_terminal(found, size, console.out.width))
    for size in found.sizes:
        of_tasks = task_tables.scores(found, size)
        if of_tasks is not None:
            console.show(replace(of_tasks, title=f"tasks, {of_tasks.title}"))
    written = page.write(chosen, rows, StudyDir(folder).page_path)
    console.line(f"results: {planning.results_path(folder, results)}\nreport:  {written}")


def _explain(chosen: Study, folder: Path, options: Options) -> None:
    """Print the cells, what they cost and how long they will take."""
    from lingraft.report import numbers
    from lingraft.report.table import Column, table
    from lingraft.study import estimate, planning, processes
    from lingraft.study.studydir import StudyDir

    results = planning.results_path(folder, options.results)
    planned = planning.plan(chosen, options.only, results, StudyDir(folder))
    todo = [one for one in planned if one.state != "done"]
    ended = [(one.cost, one.outcome.end) for one in planned if one.outcome and one.trained]
    speed = estimate.measured(
        ended, estimate.device_here(), processes.cores(), options.jobs
    ) or estimate.guessed(options.jobs)
    tuned = ("fine-tunings",) if chosen.tasks else ()
    named = ("cell", Column("state", "text"), "parameters", "tokens")
    head = (*named, *tuned, "TFLOP", "time (estimate)")
    rows = []
    for one in planned:
        cost = one.left if one in todo else one.cost
        took = speed.seconds([cost]) if one in todo else None
        rows.append(
            (
                one.cell.id,
                one.state,
                numbers.short(cost.parameters),
                numbers.short(cost.all_tokens),
                *(f"{len(one.missing):,}" for _ in tuned),
                numbers.significant(cost.flops / 1e12) if cost.flops else numbers.ABSENT,
                numbers.duration(took),
            )
        )
    console.show(table(f"study {chosen.name}", head, rows))
    for line in _totals(chosen, planned, todo):
        console.line(line)
    total = speed.seconds([one.left for one in todo])
    console.line(f"time: {numbers.duration(total)} with --jobs {options.jobs} ({speed.basis})")


def _totals(chosen: Study, planned: list[Planned], todo: list[Planned]) -> list[str]:
    from lingraft.report import numbers
    from lingraft.study import estimate

    tokens = sum(one.left.all_tokens for one in todo)
    disk = [estimate.disk_bytes(one.cell.recipe, one.cost, chosen.keep) for one in todo]
    known = sum(size for size in disk if size is not None)
    runs = sum(len(one.missing) for one in todo)
    again = [one.cell.id for one in todo if one.trained and one.trains]
    some = "" if all(size is not None for size in disk) else ", and models of unknown size"
    said = [
        f"{len(planned)} cells, {len(todo)} to run: {numbers.short(tokens)} tokens",
        f'disk: {numbers.size(known)} for the weights that stay (keep = "{chosen.keep}"){some}',
    ]
    if runs:
        said.append(f"tasks: {runs:,} fine-tunings")
    if again:
        said.append(f"trained again, since their weights are gone: {', '.join(again)}")
    return said


def probe(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML), or the folder of a run.")],
    out_dir: Annotated[Path, typer.Option("--out", help="The probe's folder.")],
    initialisers: Annotated[
        str, typer.Option(help="Names with commas between them; all by default.")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 50,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Seeds, counted up from the recipe's.")
    ] = 1,
    train: Annotated[str, typer.Option(help="Parts that train, with commas between them.")] = "all",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=c", help="Override a value of the recipe."),
    ] = None,
    jobs: Jobs = 1,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train every embedding initialiser for a few steps and rank them.

    The settings are those of the recipe's first phase, with everything trained. The loss before the
    first step is shown too: it ranks initialisers wrongly.
    """
    from lingraft.probing import initialisers as probing
    from lingraft.recipe.methods import read_recipe
    from lingraft.report.table import table
    from lingraft.study import planning, runner

    path = recipe / "recipe.toml" if recipe.is_dir() else recipe
    parts = [part.strip() for part in train.split(",") if part.strip()]
    base = probing.base_of(read_recipe(path, settings or []), steps, parts)
    wanted = [name.strip() for name in initialisers.split(",") if name.strip()]
    names, left_out = probing.usable(base, wanted)
    for name, reason in left_out.items():
        console.line(f"left out: {name} {reason}")
    chosen = probing.study_of(base, names, seeds)
    tally = runner.run(chosen, out_dir, runner.Options(jobs, resume=resume, overwrite=overwrite))
    rows = []
    for one in probing.ranking(planning.current_rows(chosen, out_dir)):
        ranks = (f"{one.first:.4f}", one.first_rank, f"{one.last:.4f}", one.last_rank, one.seeds)
        rows.append((one.initialiser, *map(str, ranks)))
    head = ("initialiser", "before training", "rank", "after", "rank", "seeds")
    console.show(table(f"after {steps} steps: validation loss in nats", head, rows))
    console.line(f"results: {planning.results_path(out_dir)}")
    _end(tally)
