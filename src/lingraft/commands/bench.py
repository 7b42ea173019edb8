"""`lingraft bench`: it parses, calls and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft import workers
from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.bench.measure import Effort
    from lingraft.bench.subject import Subject
    from lingraft.report.table import Table

BASE = "14x768x50000"
EVALUATION = "evaluation"


def command(
    context: typer.Context,
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML), or the folder of a run: its own text.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="A source model, grafted by the method xpt.")
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(help=f"A RoBERTa, LAYERSxWIDTHxVOCABULARY; {BASE} where nothing is named."),
    ] = None,
    phase: Annotated[
        str, typer.Option(help="Number or name of a phase, evaluation, or all.")
    ] = "all",
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps in a window.")] = 10,
    windows: Annotated[int, typer.Option(min=1, help="How many windows.")] = 5,
    warmup: Annotated[int, typer.Option(min=0, help="Steps before the first window.")] = 5,
    batch: Annotated[int | None, typer.Option(min=1, help="Sentences in a step.")] = None,
    mean_length: Annotated[float, typer.Option(help="Tokens of a made-up sentence, mean.")] = 30.0,
    length_spread: Annotated[
        float,
        typer.Option(min=0, max=10, help="Standard deviation of the logarithm; 0: all alike."),
    ] = 0.6,
    longest: Annotated[int, typer.Option(min=3, help="Tokens of the longest sentence.")] = 128,
    sentences: Annotated[int, typer.Option(min=1, help="Made-up sentences.")] = 4_096,
    evaluated: Annotated[int, typer.Option(min=1, help="Sentences in a window of evaluation.")] = (
        512
    ),
    ceiling_seconds: Annotated[
        float, typer.Option(min=0, help="For each matrix product of the ceiling.")
    ] = 1.0,
    settings: ask.Settings = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write everything measured there.")
    ] = None,
) -> None:
    """Measure speed, memory and MFU of training and evaluation on this machine: of masked models.

    A phase of a recipe:  lingraft bench recipes/xpt-roberta-ko.toml --phase 2

    Any size, no files:   lingraft bench --shape 14x768x50000 --batch 64

    Weights are random and the text is made up, unless the folder of a run is named. What a recipe
    leaves to preset auto is chosen as `lingraft check` shows it. Tokens are real ones, padding
    never counts; MFU is useful operations a second over the fastest matrix product measured in the
    same process. With several phases, each has a process of its own, so that memory is its own too.
    """
    from lingraft.bench import measure
    from lingraft.bench.subject import TextShape, subject

    if recipe is None and source is None and shape is None:
        shape = BASE
    if json_file is not None and json_file.is_dir():
        raise RecipeError(f"--json {json_file}: is a folder; name a file")
    if recipe is not None and recipe.is_dir():
        made_up = ("mean_length", "length_spread", "longest", "sentences")
        ask.check_idle(context, made_up, "is of made-up text, and a run has its own; leave it out")
    lengths = TextShape(mean_length, length_spread, longest, sentences)
    bench_subject = subject(recipe, source, shape, lengths, batch, settings or [])
    effort = measure.Effort(warmup, steps, windows, evaluated, ceiling_seconds)
    command = ask.command_line()
    if json_file is not None:  # before minutes are measured for nothing
        json_file.parent.mkdir(parents=True, exist_ok=True)
    records = results(bench_subject, chosen(bench_subject, phase), effort, command)
    console.show(table_of(records))
    if json_file is not None:
        json_file.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        console.line(f"written: {json_file}")


def chosen(subject: Subject, phase: str) -> list[str]:
    """The names of what is measured.

    Raises:
        RecipeError: there is no such phase.
    """
    names = [entry.name for entry in subject.recipe.phases]
    if phase == "all":
        return [*names, EVALUATION]
    if phase in (*names, EVALUATION):
        return [phase]
    if phase.isdecimal() and len(phase) < 9 and 1 <= int(phase) <= len(names):
        return [names[int(phase) - 1]]
    phases = [f"a number from 1 to {len(names)}", *names] if names else []
    raise RecipeError(
        f"--phase {phase}: there is no such phase; give {', '.join([*phases, EVALUATION])} or all"
    )


def results(
    subject: Subject, names: Sequence[str], effort: Effort, command: str
) -> list[dict[str, Any]]:
    """Measure several things, each in a process of its own; a single one in this process."""
    from lingraft.bench.measure import check_counted, measured

    for phase in subject.recipe.phases:
        if phase.name in names:
            check_counted(phase)  # before the first of them takes its minutes
    if len(names) == 1:
        return [measured(subject, names[0], effort, command)]
    results = []
    for name in names:
        with workers.pool(1) as pool:
            results.append(pool.submit(measured, subject, name, effort, command).result())
    return results


def table_of(records: Sequence[dict[str, Any]]) -> Table:
    """A row for each thing that was measured."""
    from lingraft.report.table import Column, table
    from lingraft.training.throughput import TOO_LOW

    first = records[0]
    machine, ceiling = first["machine"], first["ceiling"]
    speeds = ("tokens/s (min – max)", "per CPU-second", "MFU", "fill")
    head = ("", *speeds, Column("step", "long"), "peak memory")
    rows = []
    for record in records:
        speed, mfu, parts = record["tokens_per_second"], record["mfu"], record["step_seconds"]
        whole = sum(parts.values())
        memory = record["peak_memory_bytes"]
        rows.append(
            (
                record["what"],
                f"{speed['median']:,.0f} ({speed['min']:,.0f} – {speed['max']:,.0f})",
                f"{record['tokens_per_cpu_second']['median']:,.0f}",
                f"{mfu['median']:.1%}" if mfu else "left out",
                f"{record['fill']:.1%}" if "fill" in record else "",
                ", ".join(f"{name} {part / whole:.0%}" for name, part in parts.items()),
                f"{memory / 1e9:,.2f} GB" if memory is not None else "not known",
            )
        )
    reason = (
        ""
        if all(record["mfu"] for record in records)
        else f"; MFU above 100 % is left out: {TOO_LOW}"
    )
    device = machine["cpu"] if machine["devices"] == ["cpu"] else machine["devices"][0]
    load = max(value for record in records for value in record["load_average"])
    note = (
        f"{device}, {machine['threads']} threads, load average up to {load:.1f}, "
        f"{machine['precision']}; ceiling {ceiling['flops_per_second'] / 1e9:,.0f} GFLOP/s "
        f"({ceiling['kind']}, {ceiling['product']}); lingraft {machine['lingraft']}, "
        f"torch {machine['torch']}, transformers {machine['transformers']}{reason}"
    )
    return table(first["model"], head, rows, [note])
