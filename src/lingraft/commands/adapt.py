"""`lingraft adapt`: it parses, calls and prints."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lingraft.commands import budgets, console
from lingraft.commands import options as ask
from lingraft.errors import DataError, RecipeError
from lingraft.recipe.decoding import override
from lingraft.recipe.joining import joined
from lingraft.recipe.methods import read_recipe
from lingraft.recipe.shorthand import complete
from lingraft.recipe.shorthand import tables as tables_of
from lingraft.recipe.streams import by_field, named_texts, plain_streams, replayed
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from lingraft.recipe import Recipe
    from lingraft.recipe.shorthand import ShortForm

BESIDE_A_RECIPE = ["recipe", "out_dir", "seed", "settings", "resume", "overwrite", "push_to_hub"]
"""Parameters that go with a recipe."""


def command(
    context: typer.Context,
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="A recipe (TOML). Without one, give --source, --text and --lang. Or the folder of "
            "a finished run, and a larger budget for it."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="The model to start from: a folder, a Hub id (FacebookAI/roberta-base) or a name "
            "of `lingraft list models` (xlm-r-base)."
        ),
    ] = None,
    join: Annotated[
        Path | None,
        typer.Option(
            help="A finished run, in the place of --source. The languages of --text join its own. "
            "The run's own text is read again."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Raw text: files, folders or hub:DATASET; several may follow. Name several "
            "languages as LANGUAGE=PATH, without --lang."
        ),
    ] = None,
    lang: Annotated[
        str | None, typer.Option(help="The language of the text: a BCP 47 code such as ko.")
    ] = None,
    language_field: Annotated[
        str | None,
        typer.Option(
            help="The field of JSON lines or Parquet that names each row's language. Each becomes "
            "a stream, or those of --lang de,fr alone."
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The folder of the run. Default: runs/NAME of the recipe, or runs/LANG."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to adapt: one of `lingraft list methods`. Default: xpt-sp, with a paper's "
            "preset xpt."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="The settings. Default: the method's own, mostly auto, which decides by source, "
            "text and budget. `lingraft list presets` names those of papers."
        ),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            help="Pieces of the new vocabulary. Default: with auto by the size of the text, else "
            "50,000."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="A tokenizer that exists already, in the place of a new one: a folder, or the Hub "
            "id of a model that has it."
        ),
    ] = None,
    lexicons: Annotated[
        list[str] | None,
        typer.Option(
            help="Dictionaries for metaxlm-dict, the new language's word first in each line; "
            "several may follow."
        ),
    ] = None,
    kept: Annotated[
        list[str] | None,
        typer.Option(
            help="Text of the source's language, never trained on. It shows how much of that "
            "language a causal model has kept; several may follow."
        ),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option(
            help="Text of the source's language to train on as well, so that less is forgotten: "
            "LANGUAGE=PATH, or a path where it is English; more than once."
        ),
    ] = None,
    replay_share: Annotated[
        float | None,
        typer.Option(help="The share of --replay in the tokens of every phase. Default: 0.1."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget: minutes that the whole run may take.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option(help="Budget: hours that the whole run may take.")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(help="Budget: tokens of training over all phases, such as 5M or 300k."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Budget: optimizer steps over all phases.")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            help="The peak learning rate. Default: the preset's. Where auto lets the embeddings "
            "learn faster, theirs is a multiple of it."
        ),
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens in an optimizer step. Default: the preset's.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="A method to train beside it for as long, to compare, such as scratch; more than "
            "once."
        ),
    ] = None,
    seed: ask.Seed = None,
    settings: ask.Settings = None,
    resume: ask.ResumeRun = False,
    overwrite: ask.OverwriteRun = False,
    push_to_hub: Annotated[
        str | None, typer.Option(help="Upload the model to the Hugging Face Hub under this name.")
    ] = None,
) -> None:
    """Adapt a model to a language, from raw text to checkpoint and report.

    My text:           lingraft adapt --source FacebookAI/roberta-base --text ko.txt --lang ko
        --minutes 30 --out runs/ko

    Several languages: lingraft adapt --source FacebookAI/roberta-base --method metaxlm --text
        en=en.txt de=de/ ko=ko.jsonl --baseline xlm --out runs/many

    With a recipe:     lingraft adapt recipes/demo.toml --out runs/demo

    More time:         lingraft adapt runs/ko --hours 2

    What comes out is OUT/model, which transformers loads, and OUT/report.html. A killed run goes on
    with the same command. The recipe that was run is written to OUT/recipe.toml. To add a language
    to a finished run, take --join in the place of --source.
    """
    began = time.monotonic()
    if recipe is not None and Run(recipe).recipe_path.is_file():
        _go_on(context, recipe, began)
        return
    assignments = list(settings or [])
    assignments += [f"export.push_to_hub={json.dumps(push_to_hub)}"] if push_to_hub else []
    assignments += [f"seed={seed}"] if seed is not None else []
    if recipe is not None:
        ask.check_beside_recipe(
            context, [name for name in context.params if name not in BESIDE_A_RECIPE]
        )
        full_recipe = read_recipe(recipe, assignments)
    else:
        texts = _texts(text or [], lang, language_field)
        needed: dict[str, object] = {"--source": source or join, "--text": text, "--lang": texts}
        # the options have the names of the form's values, but for this
        short = cast("ShortForm", context.params | {"baselines": baseline})
        data = tables_of(short, texts, budgets.chosen(short))
        if join is not None:
            if source is not None:
                raise RecipeError("--join: the run's model is the source; leave --source out")
            data = _joined(join, texts, data)
        if replay or replay_share is not None:
            data = _replayed(data, replay or [], replay_share, assignments)
        full_recipe = _from_options(data, needed, out_dir, assignments)
    folder = out_dir or Path("runs") / full_recipe.name
    from lingraft.pipeline import adapt as pipeline
    from lingraft.pipeline import checks

    if lexicons and (notes := checks.unread(full_recipe)):
        raise RecipeError(notes[0])
    run = pipeline.adapt(
        full_recipe,
        folder,
        resume=resume,
        overwrite=overwrite,
        command=ask.command_line(),
        began=began,
    )
    if ask.is_first_process():
        show(run)


def _go_on(context: typer.Context, folder: Path, began: float) -> None:
    """Give the run in a folder a larger budget.

    Raises:
        RecipeError: no budget, or something that a run which goes on has already.
    """
    others = [name for name in context.params if name not in ("recipe", *budgets.UNITS)]
    ask.check_idle(
        context, others, f"a run that goes on keeps its own recipe ({folder}); leave it out"
    )
    budget = budgets.larger(folder, context.params)
    from lingraft.pipeline.adapt import go_on

    run = go_on(folder, budget, command=ask.command_line(), began=began)
    if ask.is_first_process():
        show(run)


def show(run: Run) -> None:
    """Say how good the models of a run are, and where they lie."""
    from lingraft.report import advice, causal, numbers, streams, tables
    from lingraft.report.pages import sections
    from lingraft.report.variants import labelled
    from lingraft.report.verdict import verdict

    variants = labelled([run])
    compared = tables.compare(variants)
    main, line = variants[0], compared.lines[0]
    console.show(tables.for_terminal([run], console.out.width))
    if kept := causal.kept_table(causal.models(variants)):
        console.show(kept)
    for text in filter(None, (streams.summary([run]), *advice.lines(main, line))):
        console.line(text)
    took = "nothing trained"
    if main.phases:
        took = f"{numbers.short(main.tokens)} tokens in {numbers.duration(main.seconds)}"
    console.summary(
        ("what", f"{sections.title(variants)}; {main.title}, {took}"),
        ("result", verdict(compared)),
        ("model", run.model_path),
        ("report", run.path / "report.html"),
        next_step=advice.after_run(main, line),
    )


def _texts(texts: list[str], lang: str | None, field: str | None) -> dict[str, Any]:
    """What of a recipe the texts and their languages stand for."""
    if field is None or not texts:
        return named_texts(texts, lang)
    from lingraft.corpus.readers import languages

    codes = ask.names_in(lang) if lang is not None else list(languages.values(texts, field))
    return by_field(texts, field, codes)


def _joined(path: Path, texts: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The recipe in which the languages of `texts` join those of a finished run."""
    from lingraft.models.families import family_of
    from lingraft.tokenizer.sizes import sizes_of

    run = Run.existing(path)
    if not (run.model_path / "config.json").is_file():
        raise DataError(f"{path}: the run has no model yet; finish it (--resume) before you join")
    run_recipe = read_recipe(run.recipe_path)
    alone = {texts["language"]: texts["corpus"]["text"]} if "language" in texts else {}
    new = texts.get("streams") or plain_streams(alone)
    model_type = str(read_json(run.model_path / "config.json")["model_type"])
    masked = family_of(model_type).kind == "masked"
    pieces, fewest = sizes_of(run_recipe, run.model_path)
    plain = joined(
        run_recipe, str(run.model_path), new, masked=masked, pieces=pieces, fewest=fewest
    )
    own = {key: plain[key] | data[key] for key in ("tokenizer", "training")}
    own["evaluation"] = plain.get("evaluation", {}) | data["evaluation"]
    return plain | own | {key: data[key] for key in ("embeddings", "baselines")}


def _replayed(
    data: dict[str, Any], texts: list[str], share: float | None, assignments: list[str]
) -> dict[str, Any]:
    """The recipe that reads text of the source's language too.

    No vocabulary is learnt from it; but one that is trimmed keeps the pieces that it uses.
    """
    again = replayed(data, texts, share)
    section = override(again, assignments)["tokenizer"]
    if isinstance(section, dict) and section.get("action") == "trim":
        again["tokenizer"] = data["tokenizer"]
    return again


def _from_options(
    data: dict[str, Any],
    needed: dict[str, object],
    out_dir: Path | None,
    assignments: list[str],
) -> Recipe:
    """The recipe that the options stand for; `needed` holds those that must be given."""
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise RecipeError(
            f"give a recipe, or --source, --text and --lang; missing: {', '.join(missing)}"
        )
    name_key = {"name": ask.recipe_name(out_dir, data)}
    return complete(name_key | data, assignments, "command line")
