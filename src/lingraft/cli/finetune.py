"""`lingraft finetune`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.cli import options as ask, parsing
from lingraft.errors import RecipeError
from lingraft.report.next_step import NextStep, command as command_of

if TYPE_CHECKING:
    from lingraft.finetuning.recipe import Finetune
    from lingraft.recipe import Section

COMPARE = "See what is more than luck, and where the models go wrong:"
KEYS = {
    "tasks": "task", "data": "data", "train_languages": "train_language",
    "test_languages": "test_language", "seeds": "seeds", "labels": "label",
}  # fmt: skip
"""Keys of a recipe, and the parameters that set them."""


def _sections() -> tuple[type[Section], ...]:
    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks.definition import Changes

    return Finetune, Changes


@parsing.takes(_sections, listed=False)
def command(
    context: typer.Context,
    models: Annotated[list[str], typer.Argument(metavar="MODEL")],
    settings: ask.SomeKeys = None,
    task: ask.Task = None,
    data: ask.Data = None,
    out_dir: ask.ResultsFolder = Path("runs/finetune"),
    seeds: int | None = None,
    train_language: list[str] | None = None,
    test_language: list[str] | None = None,
    label: ask.Labels = None,
    update: ask.UpdateRun = False,
    force: ask.Replace = False,
) -> object:
    """Fine-tune models on tasks with several seeds; print mean and deviation of the scores.

    With a recipe:    lingraft finetune tasks.toml --out runs/tasks

    Without:          lingraft finetune runs/ko/model --task klue-nli korsts --data data

    Across languages: lingraft finetune xlm-roberta-base --task pawsx --data data --train-language
        en --test-language ko de

    Settings are those of the papers. Seeds that are done are kept, a killed one goes on with the
    same command. What comes out is OUT/MODEL/TASK/seed-N and OUT/results.jsonl.

    Options:
        models: Folders, Hub ids, or one recipe (.toml).
        settings: Keys, as learning_rate=1e-5 epochs=5.
        seeds: How many seeds. Default: 10.
        train_language: Train in these languages together, or in 'all', and score in others.
        test_language: Score in these languages. Default: all whose files are there.
    """
    from lingraft.finetuning import run, score_tables
    from lingraft.finetuning.compared import collect

    recipe, base = _recipe(context)
    options = run.Options(update, force, command=ask.command_line())
    results = run.finetune(recipe, out_dir, options, base)
    compared = collect([out_dir], only={result.fingerprint for result in results})
    tables = score_tables.of_languages(compared, {}) or [score_tables.of_tasks(compared, {})]
    if ask.is_first_process():
        parsing.show(*tables)
        reference = ("reference=source",) if recipe.restore_source else ()
        next_step = NextStep(COMPARE, command_of("report", out_dir, *reference))
        parsing.summary(("results", out_dir / "results.jsonl"), next_step=next_step)
    return {"results": out_dir / "results.jsonl", "scores": parsing.rows(*tables)}


def _recipe(context: typer.Context) -> tuple[Finetune, Path]:
    """Return the recipe that a call asks for, and the folder that its paths start from.

    Raises:
        RecipeError: an option stands beside a recipe.
    """
    from lingraft.finetuning import recipe as recipes

    models, settings = context.params["models"], context.params["settings"] or ()
    given = {key: value for key, name in KEYS.items() if (value := context.params[name])}
    if len(models) == 1 and models[0].endswith(".toml"):
        if given:
            raise RecipeError(f"{next(iter(given))}: goes without a recipe; with one, write keys")
        return recipes.read_finetune(Path(models[0]), settings)
    return recipes.decode_finetune({"models": models} | given, settings), Path()
