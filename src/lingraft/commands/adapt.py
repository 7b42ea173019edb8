"""`lingraft adapt`: it parses, calls and prints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import takes
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Budget, Recipe, amounts
from lingraft.recipe.joining import joined
from lingraft.recipe.methods import read_recipe
from lingraft.recipe.shorthand import ShortForm, complete, tables
from lingraft.recipe.streams import named_texts, plain_streams
from lingraft.rundir import Run, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

BESIDE_A_RECIPE = ("recipe", "out_dir", "budget", "seed", "settings", "update", "force")
"""Parameters that go with a recipe."""
LONG = ("blocks", "samples")
"""What an evaluation has for pages and comparisons, and JSON for people has no room for."""


@takes(lambda: (Recipe,), listed=False)
def command(
    context: typer.Context,
    recipe: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECIPE|RUN",
            help="A recipe (TOML), in the place of --source, --text and --lang. Or the folder of a "
            "finished run, with a larger --budget for it.",
        ),
    ] = None,
    settings: ask.RecipeKeys = None,
    source: ask.Source = None,
    join: Annotated[
        Path | None,
        typer.Option(
            help="A finished run, in the place of --source: the languages of --text join its own. "
            "Its own text is read again."
        ),
    ] = None,
    text: ask.Text = None,
    lang: ask.Lang = None,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="The run's folder. Default: runs/NAME or runs/LANG."),
    ] = None,
    budget: ask.BudgetText = None,
    method: ask.MethodName = None,
    baseline: ask.Baseline = None,
    tokenizer: ask.Tokenizer = None,
    seed: ask.Seed = None,
    update: ask.UpdateRun = False,
    force: ask.ForceRun = False,
) -> dict[str, Any]:
    """Adapt a model to a language or domain: raw text to checkpoint and report.

    My text:           lingraft adapt --source FacebookAI/roberta-base --text ko.txt --lang ko
        --budget 30m --out runs/ko

    Several languages: lingraft adapt --source FacebookAI/roberta-base --method metaxlm --text
        en=en.txt de=de/ ko=ko.jsonl --baseline xlm --out runs/many

    With a recipe:     lingraft adapt recipes/demo.toml seed=1 --out runs/demo

    More time:         lingraft adapt runs/ko --budget 2h

    What comes out is OUT/model, which transformers loads, and OUT/report.html. Settings that are
    left out are chosen by source, text and budget. A killed run goes on with the same command.
    """
    began = time.monotonic()
    if recipe is not None and Run(recipe).recipe_path.is_file():
        run = _go_on(context, recipe, budget, began)
    else:
        asked = recipe_of(context)
        from lingraft.pipeline import adapt as pipeline

        run = pipeline.adapt(
            asked,
            out_dir or Path("runs") / asked.name,
            update=update,
            force=force,
            command=ask.command_line(),
            began=began,
        )
    if ask.is_first_process():
        show(run)
    return facts(run)


def recipe_of(context: typer.Context) -> Recipe:
    """Return the recipe that the options of `adapt` or `check` ask for.

    Raises:
        RecipeError: options are missing, or do not go together.
    """
    given = context.params
    settings = list(given["settings"])
    if given.get("seed") is not None:
        settings.append(f"seed={given['seed']}")
    budget = None if given["budget"] is None else amounts.budget(given["budget"])
    if given["recipe"] is not None:
        ask.check_beside_recipe(context, [name for name in given if name not in BESIDE_A_RECIPE])
        if budget is not None:
            settings.append(f"training.budget={given['budget']}")
        return read_recipe(given["recipe"], settings)
    join, texts = given.get("join"), named_texts(given["text"] or [], given["lang"])
    form = ShortForm(
        source=given["source"],
        method=given["method"],
        tokenizer=given["tokenizer"],
        baselines=given["baseline"],
    )
    data = tables(form, texts, budget)
    if join is not None:
        if given["source"] is not None:
            raise RecipeError("--join: the run's model is the source; leave --source out")
        data = _joined(join, texts, data)
    needed = {"--source": given["source"] or join, "--text": given["text"], "--lang": texts}
    if missing := [name for name, value in needed.items() if not value]:
        raise RecipeError(
            f"give a recipe, or --source, --text and --lang; missing: {', '.join(missing)}"
        )
    name = {"name": ask.recipe_name(given.get("out_dir"), data)}
    return complete(name | data, settings, "command line")


def _go_on(context: typer.Context, folder: Path, budget: str | None, began: float) -> Run:
    """Give the run in a folder a larger budget.

    Raises:
        RecipeError: no budget, or something that a run which goes on has already.
    """
    others = [name for name in context.params if name not in ("recipe", "budget")]
    ask.check_idle(
        context, others, f"a run that goes on keeps its own recipe ({folder}); leave it out"
    )
    whole = None if budget is None else amounts.budget(budget)
    if whole is None:
        raise RecipeError(
            f"{folder}: is a run; give the budget that it may have in all (--budget 8h), or a "
            "recipe in its place"
        )
    from lingraft.pipeline.adapt import go_on

    return go_on(folder, Budget.model_validate(whole), command=ask.command_line(), began=began)


def facts(run: Run) -> dict[str, Any]:
    """Return where a run lies, and what its evaluation found."""
    stage = run.stage("evaluation")
    found = stage.result() if stage.done_path.is_file() else {}
    return {
        "run": run.path,
        "model": run.model_path,
        "report": run.path / "report.html",
        "evaluation": {key: value for key, value in found.items() if key not in LONG},
    }


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


def _joined(path: Path, texts: Mapping[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The recipe in which the languages of `texts` join those of a finished run."""
    from lingraft.models.families import family_of
    from lingraft.tokenizer.sizes import sizes_of

    run = Run.existing(path)
    if not (run.model_path / "config.json").is_file():
        raise DataError(f"{path}: the run has no model yet; finish it before you join")
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
