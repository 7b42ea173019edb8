"""`lingraft probe`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.study import end
from lingraft.recipe.methods import read_recipe


def command(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML), or the folder of a run.")],
    out_dir: Annotated[Path, typer.Option("--out", help="The probe's folder.")],
    initialisers: Annotated[
        str, typer.Option(help="Names with commas between them; all by default.")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps.")] = 50,
    seeds: ask.ProbeSeeds = 1,
    train: Annotated[str, typer.Option(help="Parts that train, with commas between them.")] = "all",
    settings: ask.Settings = None,
    jobs: ask.Jobs = 1,
    resume: ask.ResumeStudy = False,
    overwrite: ask.OverwriteStudy = False,
) -> None:
    """Train every embedding initialiser for a few steps and rank them.

    The settings are those of the recipe's first phase, with everything trained. The loss before the
    first step is shown too: it ranks initialisers wrongly.
    """
    from lingraft.pipeline.foreseeing import decided_now
    from lingraft.probing import initialisers as probing
    from lingraft.report.table import table
    from lingraft.study import planning, runner

    path = recipe / "recipe.toml" if recipe.is_dir() else recipe
    decided = decided_now(read_recipe(path, settings or []))
    base = probing.base_of(decided, steps, ask.names_in(train))
    names, left_out = probing.usable(base, ask.names_in(initialisers))
    for name, reason in left_out.items():
        console.line(f"left out: {name} {reason}")
    study = probing.study_of(base, names, seeds)
    tally = runner.run(study, out_dir, runner.Options(jobs, resume=resume, overwrite=overwrite))
    rows = []
    ranking = probing.ranking(planning.current_rows(study, out_dir))
    for row in ranking:
        ranks = (f"{row.first:.4f}", row.first_rank, f"{row.last:.4f}", row.last_rank, row.seeds)
        rows.append((row.initialiser, *map(str, ranks)))
    head = ("initialiser", "before training", "rank", "after", "rank", "seeds")
    console.show(table(f"after {steps} steps: validation loss in nats", head, rows))
    if verdict := probing.verdict(ranking):
        console.line(verdict)
    console.line(f"results: {planning.results_path(out_dir)}")
    end(tally)
