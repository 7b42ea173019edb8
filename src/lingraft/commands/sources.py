"""`lingraft sources`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.study import end
from lingraft.errors import RecipeError
from lingraft.recipe.auto import AUTO
from lingraft.recipe.methods import read_recipe
from lingraft.recipe.shorthand import complete
from lingraft.recipe.shorthand import tables as tables_of
from lingraft.recipe.streams import named_texts

if TYPE_CHECKING:
    from lingraft.recipe import Recipe
    from lingraft.recipe.shorthand import ShortForm

ALONE = ("vocab_size", "learning_rate", "batch_tokens", "text", "lang")
"""Parameters of the form without a recipe."""


def command(
    context: typer.Context,
    recipe: Annotated[
        Path | None,
        typer.Argument(help="A recipe (TOML), or the folder of a run. Or use --text and --lang."),
    ] = None,
    candidates: Annotated[
        str,
        typer.Option(
            help="Masked models with commas between them: directories, Hub ids, names of "
            "`lingraft list models`."
        ),
    ] = "",
    text: Annotated[
        list[str] | None,
        typer.Option(help="Raw text of the target: files, directories, or hub:DATASET."),
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Target language, a BCP 47 code.")] = None,
    source_text: Annotated[
        list[str] | None,
        typer.Option(help="CANDIDATE=PATH: text of its language, to compare; more than once."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The folder; runs/sources-NAME by default.")
    ] = None,
    facts_only: Annotated[
        bool, typer.Option("--facts-only", help="Train nothing; with --out, write the table.")
    ] = False,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps of a probe.")] = 200,
    seeds: ask.ProbeSeeds = 2,
    words: Annotated[
        int, typer.Option(min=1, help="Held-out words that are scored for bits per character.")
    ] = 1_000,
    train: Annotated[
        str, typer.Option(help="Parts that train, with commas between them; the first phase's own.")
    ] = "",
    vocab_size: Annotated[
        int | None, typer.Option(help="Pieces of the target's vocabulary; by the size of the text.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak; by the rules of preset auto.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens in a step, 2,048 by default.")
    ] = None,
    settings: ask.Settings = None,
    jobs: ask.Jobs = 1,
    resume: ask.ResumeStudy = False,
    overwrite: ask.OverwriteStudy = False,
) -> None:
    """Choose the model to start from: compare candidates by facts, then by a short graft of each.

    With a recipe:     lingraft sources recipes/demo.toml --candidates demo/source,xlm-r-base

    Without:           lingraft sources --candidates A,B --text ko.txt --lang ko --facts-only

    The probe grafts every candidate onto the target and trains it for --steps steps with --seeds
    seeds: as the recipe's first phase does, or as `lingraft adapt` would where there is no recipe.
    It ranks candidates by bits per character of held-out words, as far as the intervals tell them
    apart. A killed probe goes on with the same command. What comes out: OUT/sources.html,
    sources.md, sources.jsonl, and the study in OUT/probe.
    """
    from lingraft.probing import sources

    models = sources.candidates(ask.names_in(candidates), source_text or [])
    if facts_only:
        idle = ("steps", "seeds", "words", "train", "jobs", "resume", "overwrite")
        ask.check_idle(context, idle, "is of the probe, and --facts-only trains nothing")
    if recipe is not None:
        ask.check_beside_recipe(context, ALONE)
        path = recipe / "recipe.toml" if recipe.is_dir() else recipe
        target_recipe = read_recipe(path, settings or [])
    else:
        short: ShortForm = {
            "source": models[0].model,
            "vocab_size": vocab_size,
            "learning_rate": learning_rate,
            "batch_tokens": batch_tokens,
            "preset": AUTO,
        }
        target_recipe = _from_options(short, steps, text, lang, settings or [])
    probed = (steps, words, ask.names_in(train))
    base = sources.base_of(target_recipe, models[0], *probed)
    from lingraft.probing import sources_page as results

    default = None if facts_only else Path("runs") / base.name
    folder = out_dir or default
    if folder is not None:
        results.checked_folder(folder)
    rows, target = results.facts_of(base, models)
    tables = [results.fact_table(rows, target)]
    console.show(tables[0])
    tally = None
    if not facts_only and folder is not None:
        from lingraft.stats import Resampling
        from lingraft.study import planning, runner

        study = sources.study_of(target_recipe, models, *probed, seeds=seeds)
        options = runner.Options(jobs, resume=resume, overwrite=overwrite)
        tally = runner.run(study, folder / results.PROBE, options)
        probe_rows = planning.current_rows(study, folder / results.PROBE)
        standings = sources.standings(sources.by_candidate(probe_rows), Resampling())
        rows = results.with_standings(rows, standings)
        tables.append(results.probe_table(standings, steps, len(models)))
        console.show(tables[-1])
    if folder is not None:
        written = results.write(folder, rows, tables, base.texts[0].language)
        console.line(f"page: {written}; rows: {folder / results.ROWS}")
    if tally is not None:
        end(tally)


def _from_options(
    short: ShortForm, steps: int, text: list[str] | None, lang: str | None, settings: list[str]
) -> Recipe:
    """The recipe that the options stand for."""
    missing = [name for name, value in (("--text", text), ("--lang", lang)) if not value]
    if missing:
        raise RecipeError(f"give a recipe, or --text and --lang; missing: {', '.join(missing)}")
    budget = {"value": steps, "unit": "steps"}
    data = {"name": lang} | tables_of(short, named_texts(text or [], lang), budget)
    return complete(data, settings, "command line")
