"""`lingraft adapt`: it parses, calls and prints."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.commands import budgets, console
from lingraft.commands import options as ask
from lingraft.errors import DataError, RecipeError
from lingraft.recipe.decoding import load
from lingraft.recipe.joining import joined
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.recipe.shorthand import tables as tables_of
from lingraft.recipe.streams import by_field, named_texts, replayed
from lingraft.rundir import Run

if TYPE_CHECKING:
    from lingraft.recipe import Recipe
    from lingraft.recipe.shorthand import ShortForm


def command(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML). Leave it out and use --source, --text …")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Source model: directory, Hub id (FacebookAI/roberta-base) or a name of "
            "`lingraft list models` (xlm-r-base)."
        ),
    ] = None,
    join: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --source: a finished run. The languages of --text join its own, whose "
            "text is read again from where it was."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Raw text: files, directories, or hub:DATASET; several may follow. For several "
            "languages LANGUAGE=PATH each, without --lang."
        ),
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="Target language, a BCP 47 code such as ko.")
    ] = None,
    language_field: Annotated[
        str | None,
        typer.Option(
            help="The field of JSON lines or Parquet that names each row's language: every "
            "language becomes a stream (those of --lang de,fr alone, if given)."
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="The run's folder; runs/NAME of the recipe, or runs/LANG."),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="xpt (default), metaxlm, …: `lingraft list methods`.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="auto (default): what our studies found best for source, text and budget; or a "
            "paper's hyper-parameters (`lingraft list presets`)."
        ),
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help="Pieces of the new vocabulary; by the size of the text.")
    ] = None,
    lexicons: Annotated[
        list[str] | None,
        typer.Option(
            help="Dictionaries for metaxlm-dict, the new language's word first in each line; "
            "several may follow, of any of the languages."
        ),
    ] = None,
    kept: Annotated[
        list[str] | None,
        typer.Option(
            help="Text of the source's language that trains nothing: a causal model and its source "
            "are scored on it, to see what is left of that language; several may follow."
        ),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option(
            help="Text of the source's language to read again, LANGUAGE=PATH or a path (English), "
            "so that less is forgotten; the vocabulary is still that of --text."
        ),
    ] = None,
    replay_share: Annotated[
        float | None, typer.Option(help="Its share of the tokens of every phase (0.1).")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget: time of the whole run, report and all.")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Budget: the same in hours.")] = None,
    tokens: Annotated[
        str | None, typer.Option(help="Budget: tokens of training over all phases: 5M, 300k.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Budget: optimiser steps over all phases.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Without a budget: take the paper's, and its preset.")
    ] = False,
    learning_rate: Annotated[float | None, typer.Option(help="Peak; the preset's.")] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens in a step; the preset's.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="Also train this method on the same budget, to compare: scratch."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of weights, order and masks.")] = None,
    settings: ask.Settings = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out; redo what changed.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the run in --out first.")
    ] = False,
    push_to_hub: Annotated[
        str | None, typer.Option(help="Also upload the model under this name.")
    ] = None,
) -> None:
    """Adapt a model to a language, from raw text to checkpoint and report.

    With a recipe:     lingraft adapt recipes/demo.toml --out runs/demo

    Without:           lingraft adapt --source FacebookAI/roberta-base --text ko.txt --lang ko
        --hours 8 --out runs/ko

    Several languages: lingraft adapt --source FacebookAI/roberta-base --method metaxlm --text
        en=en.txt de=de/ ko=ko.jsonl --baseline xlm --out runs/many

    One more language: lingraft adapt --join runs/many --text sw=sw.txt --out runs/with-sw

    The form without a recipe writes the recipe that it ran to OUT/recipe.toml. A killed run goes on
    where it was with the same command. What comes out is OUT/model (load it with transformers) and
    OUT/report.html.
    """
    began = time.monotonic()
    needed: dict[str, object] = {"--source": source, "--text": text, "--lang": lang}
    sizes: dict[str, object] = {
        "--method": method,
        "--preset": preset,
        "--baseline": baseline,
        "--vocab-size": vocab_size,
        "--minutes": minutes,
        "--hours": hours,
        "--tokens": tokens,
        "--steps": steps,
        "--yes": yes,
        "--learning-rate": learning_rate,
        "--batch-tokens": batch_tokens,
        "--lexicons": lexicons,
        "--language-field": language_field,
        "--join": join,
        "--kept": kept,
        "--replay": replay,
        "--replay-share": replay_share,
    }
    assignments = list(settings or [])
    assignments += [f"export.push_to_hub={json.dumps(push_to_hub)}"] if push_to_hub else []
    assignments += [f"seed={seed}"] if seed is not None else []
    if recipe is not None:
        chosen = _from_file(recipe, needed | sizes, assignments)
    else:
        texts = _texts(text or [], lang, language_field)
        needed |= {"--lang": texts}
        budget = budgets.chosen(minutes=minutes, hours=hours, tokens=tokens, steps=steps)
        measured = join is None and len(texts.get("streams", ())) < 2
        default = budgets.default_preset(method, assignments, yes=yes) if measured else None
        short: ShortForm = {
            "source": source,
            "method": method,
            "preset": preset or default,
            "vocab_size": vocab_size,
            "learning_rate": learning_rate,
            "batch_tokens": batch_tokens,
            "lexicons": lexicons,
            "kept": kept,
            "baselines": baseline,
        }
        data = tables_of(short, texts, budget)
        if join is not None:
            if source is not None:
                raise RecipeError("--join: the run's model is the source; leave --source out")
            needed |= {"--source": join}
            data = _joined(join, texts, data)
        if replay or replay_share is not None:
            data = replayed(data, replay or [], replay_share)
        chosen = _from_options(data, needed, out_dir, assignments)
    folder = out_dir or Path("runs") / chosen.name
    from lingraft.pipeline import adapt as pipeline
    from lingraft.pipeline.budgeting import Timekeeper

    run = pipeline.adapt(
        chosen,
        folder,
        resume=resume,
        overwrite=overwrite,
        command=ask.command_line(),
        time=Timekeeper(began),
    )
    if ask.is_first_process():
        show(run)


def show(run: Run) -> None:
    """Say how good the models of a run are, and where they lie."""
    from lingraft.report import advice, streams, tables

    console.show(tables.for_terminal([run], console.out.width))
    console.line(advice.summary([run]))
    by_stream = streams.summary([run])
    if by_stream:
        console.line(by_stream)
    console.line(f"model:  {run.model_path}\nreport: {run.path / 'report.html'}")


def _texts(texts: list[str], lang: str | None, field: str | None) -> dict[str, Any]:
    """What of a recipe the texts and their languages stand for."""
    if field is None or not texts:
        return named_texts(texts, lang)
    from lingraft.corpus.readers import languages

    found = ask.names_in(lang) if lang is not None else list(languages.values(texts, field))
    return by_field(texts, field, found)


def _joined(path: Path, texts: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The recipe in which the languages of `texts` join those of a finished run."""
    run = Run.existing(path)
    if not (run.model_path / "config.json").is_file():
        raise DataError(f"{path}: the run has no model yet; finish it (--resume) before you join")
    theirs = recipe_from(load(run.recipe_path), where=str(run.recipe_path))
    new = texts.get("streams") or [
        {"name": code.lower(), "language": code, "corpus": texts["corpus"]}
        for code in [texts.get("language")]
        if code
    ]
    plain = joined(theirs, str(run.model_path), new)
    own = {key: plain[key] | data[key] for key in ("tokenizer", "method")}
    own["evaluation"] = plain.get("evaluation", {}) | data["evaluation"]
    return plain | own | {key: data[key] for key in ("resources", "baselines")}


def _from_file(recipe: Path, shorthand: dict[str, object], assignments: list[str]) -> Recipe:
    """The recipe in a file; `shorthand` holds the options that do not go with one."""
    given = [name for name, value in shorthand.items() if value is not None and value is not False]
    if given:
        raise RecipeError(
            f"{given[0]}: belongs to the form without a recipe; "
            "with one, use --set (say --set seed=1)"
        )
    return read_recipe(recipe, assignments)


def _languages(data: dict[str, Any]) -> str:
    """Names the run's folder where nobody does: its languages, joined by '-'."""
    named = [data.get("language"), *(one.get("language") for one in data.get("streams", ()))]
    return "-".join(dict.fromkeys(str(name).replace("/", "-") for name in named if name))


def _from_options(
    data: dict[str, Any], needed: dict[str, object], out_dir: Path | None, assignments: list[str]
) -> Recipe:
    """The recipe that the options stand for; `needed` holds those that must be given."""
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise RecipeError(
            f"give a recipe, or --source, --text and --lang; missing: {', '.join(missing)}"
        )
    named = {"name": (out_dir.resolve().name if out_dir else _languages(data)) or "run"}
    budgets.check_given(named | data, assignments)
    return recipe_from(named | data, assignments, "command line")
