"""`lingraft adapt`: it parses, calls and prints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.cli import options as ask, parsing
from lingraft.config import adapt
from lingraft.recipe import Recipe

if TYPE_CHECKING:
    from lingraft.rundir import Run

ALIKE = ("source", "join", "text", "budget", "method", "tokenizer", "seed", "settings")
FIELDS = {"language": "lang", "out": "out_dir", "baselines": "baseline"}
FIELDS |= {name: name for name in ALIKE}
"""Parameters by the field of `AdaptConfig` that they give."""
LONG = ("blocks", "samples", "generated")
"""Parts of an evaluation for pages and comparisons, which JSON for people has no room for."""


@parsing.takes(lambda: (Recipe,), listed=False)
def command(
    context: typer.Context,
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE|RUN")] = None,
    settings: ask.RecipeKeys = None,
    source: ask.Source = None,
    join: Path | None = None,
    text: ask.Text = None,
    lang: ask.Lang = None,
    out_dir: Annotated[Path | None, typer.Option("--out")] = None,
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

    Options:
        recipe: A recipe (TOML), in the place of --source, --text and --lang. Or the folder of a
            finished run, with a larger --budget for it.
        join: A finished run, in the place of --source: the languages of --text join its own, which
            is read again.
        out_dir: The run's folder. Default: runs/NAME or runs/LANG.
    """
    call: dict[str, Any] = {"command": ask.command_line(), "began": time.monotonic()}
    run = adapt(recipe, asked(context), update=update, force=force, **call)
    if ask.is_first_process():
        show(run)
    return facts(run)


def asked(context: typer.Context) -> dict[str, Any]:
    """Return what the options of `adapt` or `check` give of `AdaptConfig`'s fields."""
    given = ((field, context.params.get(name)) for field, name in FIELDS.items())
    return {field: value for field, value in given if value not in (None, [], ())}


def facts(run: Run) -> dict[str, Any]:
    """Return where a run lies, and what its evaluation found."""
    stage = run.stage("evaluation")
    found = stage.result() if stage.done_path.is_file() else {}
    return {
        "run": run.path,
        "model": run.model_path,
        "report": run.path / "report.html",
        "evaluation": _short(found),
    }


def _short(found: Any) -> Any:
    """Return an evaluation without what is long, at any depth."""
    if not isinstance(found, dict):
        return found
    return {key: _short(value) for key, value in found.items() if key not in LONG}


def show(run: Run) -> None:
    """Say how good the models of a run are, and where they lie."""
    from lingraft.report import numbers, page, tables
    from lingraft.report.pages import sections
    from lingraft.report.variants import labelled
    from lingraft.report.verdict import compared_streams, verdict, verdict_of_streams

    models = labelled([run])
    compared = tables.compare(models)
    main = models[0]
    parsing.show(tables.for_terminal(compared))
    for shown in filter(None, (sections.kept_table(models), sections.answers_table(models))):
        parsing.show(shown)
    if text := verdict_of_streams(models[0].label, compared_streams(models)):
        parsing.line(text)
    took = "nothing trained"
    if main.phases:
        took = f"{numbers.short(main.tokens)} tokens in {numbers.duration(main.seconds)}"
    parsing.summary(
        ("what", f"{sections.title(models)}; {main.title}, {took}"),
        ("result", verdict(compared)),
        ("model", run.model_path),
        ("report", run.path / "report.html"),
        next_step=page.after_run(main, compared.lines[0]),
    )
