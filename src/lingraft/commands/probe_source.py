"""`lingraft probe-source`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError
from lingraft.recipe.shorthand import given


def command(
    run: Annotated[Path, typer.Argument(help="A run of lingraft adapt; its phases are done.")],
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME[,NAME…] in the source's language: `lingraft list tasks` (glue-rte, "
            "glue-cola …), or a TOML file of your own."
        ),
    ] = None,
    data: ask.Data = None,
    seeds: ask.Seeds = None,
    first_seed: ask.FirstSeed = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The results; RUN/probe-source by default.")
    ] = None,
    phase: Annotated[
        list[str] | None, typer.Option(help="After these phases only: NAME[,NAME…].")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Where the run's source model is, if not where its recipe says."),
    ] = None,
    settings: ask.TaskSettings = None,
    paper: ask.Paper = None,
    cut: ask.Cut = None,
    train_examples: ask.TrainExamples = None,
    learning_rates: ask.LearningRates = None,
    precision: ask.Precision = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Leave the models in OUT/models.")
    ] = False,
    resume: ask.ResumeSeeds = False,
    overwrite: ask.OverwriteSeeds = False,
) -> None:
    """Find out where a run lost the source's language, by fine-tuning on tasks in that language.

    lingraft probe-source runs/ko --task glue-rte,glue-cola --data data --seeds 5

    Fine-tunes the source as it was, and the run's model after each phase: with its translation
    layers and without them, with its own vocabulary and with the source's put back; last the same
    shapes with random weights. What is done is kept, a killed probe goes on with the same command.
    What comes out is OUT/table.md (.csv, .json), OUT/comparison.html, and per seed what lingraft
    finetune leaves.
    """
    from lingraft.finetuning import recipe as recipes
    from lingraft.probing.models import Probed

    probed = Probed.of(run, source)
    values = given(
        tasks=ask.names_in(task),
        data=data,
        seeds=seeds,
        first_seed=first_seed,
        cut=ask.shares_in(cut),
        train_examples=train_examples,
        learning_rates=ask.numbers_in(learning_rates, "--learning-rates"),
        paper=paper,
        precision=precision,
    )
    if "tasks" not in values:
        raise RecipeError(
            "--task: name a task in the source's language, such as glue-rte (lingraft list tasks)"
        )
    recipe = recipes.decode_finetune({"models": [str(run)]} | values, settings or [])
    from lingraft.finetuning import run as finetuning
    from lingraft.probing import probe

    options = finetuning.Options(resume, overwrite, command=ask.command_line())
    folder, phases = out_dir or run / "probe-source", ask.names_in(phase)
    table, written = probe.probe(probed, phases, recipe, folder, options, keep_models=keep_models)
    console.show(table, best="")
    console.line(f"page: {written[0]}; table: {folder / 'table.md'}, .csv, .json")
