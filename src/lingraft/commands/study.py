"""`lingraft study`: it parses, calls and prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError
from lingraft.log import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.study.planning import CellPlan
    from lingraft.study.recipe import Study
    from lingraft.study.runner import Options, Tally


def command(
    context: typer.Context,
    study_file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study (TOML).")],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The study's folder; runs/NAME by default.")
    ] = None,
    jobs: ask.Jobs = 1,
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
    executor: Annotated[
        str,
        typer.Option(
            help="local; or slurm, which runs cells as jobs: --out must be a folder that all "
            "machines see. --jobs is how many are handed over at a time."
        ),
    ] = "local",
    executor_options: Annotated[
        list[str] | None,
        typer.Option(
            "--executor-option",
            metavar="a=b",
            help="Of every job: long options of sbatch (partition=gpu, time=08:00:00, gres=gpu:1).",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would be done and what it costs; with --executor slurm the script too.",
        ),
    ] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the page from the results there are.")
    ] = False,
    resume: ask.ResumeStudy = False,
    overwrite: ask.OverwriteStudy = False,
) -> None:
    """Run a grid of methods, data sizes and seeds, and compare them on one page.

    What is in the results file is not run again: a killed study goes on with the same command, a
    changed one runs its new cells only, and a cell that failed is tried again. What comes out is
    OUT/results.jsonl and OUT/report.html.
    """
    from lingraft.study.executors import check_named, start_of
    from lingraft.study.recipe import read_study
    from lingraft.study.runner import Options

    cluster = (executor, dict(ask.pair_of(text) for text in executor_options or ()))
    check_named(*cluster)
    if dry_run and report_only:
        raise RecipeError("--dry-run and --report-only: give one of them")
    if report_only:
        idle = ("jobs", "only", "executor", "executor_options", "resume", "overwrite")
        ask.check_idle(context, idle, "is for cells that run; --report-only runs none")
    study = read_study(study_file)
    folder = out_dir or Path("runs") / study.name
    options = Options(jobs, tuple(only or ()), results, resume, overwrite)
    again = _again(study_file, options, executor, executor_options or ())
    if dry_run:
        _explain(study, folder, options)
        _show_script(cluster, folder)
    elif report_only:
        _publish(study, folder, results, again)
    else:
        _run(study, folder, replace(options, start=start_of(*cluster)), again)


def _again(study_file: Path, options: Options, executor: str, of_jobs: Sequence[str]) -> list[str]:
    """What the next call of the command needs, to go on in the same way."""
    again = [str(study_file)]
    again += ["--results", str(options.results)] if options.results else []
    again += ["--jobs", str(options.jobs)] if options.jobs > 1 else []
    again += ["--executor", executor] if executor != "local" else []
    return [*again, *(word for one in of_jobs for word in ("--executor-option", one))]


def _run(study: Study, folder: Path, options: Options, again: Sequence[str]) -> None:
    from lingraft.study import runner

    tally = runner.run(study, folder, options)
    _publish(study, folder, options.results, again)
    end(tally)


def end(tally: Tally) -> None:
    """Exit status 1 where a cell failed."""
    if tally.failed:
        names = ", ".join(tally.failed)
        console.line(ask.going_on(f"failed: {names}; the same command tries again"))
        raise typer.Exit(1)


def _publish(study: Study, folder: Path, results: Path | None, again: Sequence[str]) -> None:
    """Print the tables and write the page."""
    from lingraft.stats import Resampling
    from lingraft.study import grid, page, planning, terminal
    from lingraft.study.results import collect
    from lingraft.study.studydir import StudyDir

    rows = planning.current_rows(study, folder, results)
    if not rows:
        raise RecipeError(
            f"{planning.results_path(folder, results)}: holds no result of this study; "
            "run it without --report-only first"
        )
    study_results = collect(rows)
    failed = f", {len(study_results.failures)} failed" if study_results.failures else ""
    console.line(f"{study.name}: {counted(len(study_results.cells), 'cell')}{failed}")
    planned, waiting = [cell.id for cell in grid.cells(study)], planning.waiting(study, rows)
    about = page.About(planned, study, folder, waiting, again)
    written = page.write(study.name, rows, StudyDir(folder), about)
    for table in terminal.shown(study_results, console.out.width, written):
        console.show(table)
    ended = f"{len(study_results.cells)} of {len(planned)} cells{failed}"
    if waiting:
        ended += f", fine-tunings to do in {len(waiting)}"
    console.summary(
        ("what", f"{study.name}: {ended}"),
        ("result", page.verdict(study_results, Resampling())),
        ("results", planning.results_path(folder, results)),
        ("report", written),
        next_step=page.next_step(study_results, about),
    )


def _explain(study: Study, folder: Path, options: Options) -> None:
    """Print the cells, what they cost and how long they will take."""
    from lingraft import threads
    from lingraft.report import numbers
    from lingraft.report.table import Column, table
    from lingraft.study import estimate, planning
    from lingraft.study.studydir import StudyDir

    plans = planning.plan_of_call(study, folder, options)
    todo = [plan for plan in plans if plan.state != "done"]
    ended = [
        (plan.training.cost, plan.ends[plan.training.name])
        for plan in plans
        if plan.training not in plan.missing
    ]
    speed = estimate.measured(
        ended, estimate.device_here(), threads.cores(), options.jobs
    ) or estimate.guessed(options.jobs)
    tasks = ("fine-tunings",) if study.tasks else ()
    columns = ("cell", Column("state", "text"), "parameters", "tokens")
    head = (*columns, *tasks, "TFLOP", "time (estimate)")
    rows = []
    for plan in plans:
        cost = plan.left if plan in todo else plan.training.cost
        took = speed.seconds([cost]) if plan in todo else None
        rows.append(
            (
                plan.cell.id,
                plan.state,
                numbers.short(plan.training.cost.parameters),
                numbers.short(plan.training.cost.tokens),
                *(f"{plan.fine_tunings:,}" for _ in tasks),
                numbers.significant(cost.flops / 1e12) if cost.flops else numbers.ABSENT,
                numbers.duration(took),
            )
        )
    console.show(table(f"study {study.name}", head, rows))
    replaced = "" if options.overwrite else planning.replaced(todo, StudyDir(folder))
    for line in filter(None, [*_totals(study, plans, todo), replaced]):
        console.line(line)
    total = speed.seconds([plan.left for plan in todo])
    console.line(f"time: {numbers.duration(total)} with --jobs {options.jobs} ({speed.basis})")


def _show_script(cluster: tuple[str, dict[str, str]], folder: Path) -> None:
    """Print what would be handed to Slurm for each cell."""
    from lingraft.study.executors import slurm
    from lingraft.study.studydir import StudyDir

    executor, options = cluster
    if executor == "slurm":
        console.line("\nscript of each job, for sbatch:")
        console.line(slurm.script(StudyDir(folder).cell("CELL").path, options).rstrip())


def _totals(study: Study, plans: list[CellPlan], todo: list[CellPlan]) -> list[str]:
    from lingraft.report import numbers
    from lingraft.study import estimate

    tokens = sum(plan.training.cost.tokens for plan in todo if plan.trains)
    disk = [estimate.disk_bytes(plan.training.cost, study.keep) for plan in todo]
    total = sum(size for size in disk if size is not None)
    runs = sum(plan.fine_tunings for plan in todo)
    again = [plan.cell.id for plan in todo if plan.trains_again]
    some = "" if all(size is not None for size in disk) else ", and models of unknown size"
    lines = [
        f"{counted(len(plans), 'cell')}, {len(todo)} to run: "
        f"{numbers.short(tokens)} tokens of training",
        f'disk: {numbers.size(total)} for the weights that stay (keep = "{study.keep}"){some}',
    ]
    if runs:
        lines.append(f"tasks: {counted(runs, 'fine-tuning')}, counted in TFLOP and time")
    if again:
        lines.append(f"trained again, since their weights are gone: {', '.join(again)}")
    return lines
