"""`lingraft finetune`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.commands.parsing import takes
from lingraft.errors import RecipeError
from lingraft.log import counted
from lingraft.report.next_step import NextStep
from lingraft.report.next_step import command as command_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.finetuning.outcomes import Outcome
    from lingraft.finetuning.recipe import Finetune
    from lingraft.recipe import Section
    from lingraft.report.table import Table


COMPARE = "See what is more than luck, and where the models go wrong:"
BESIDE_A_RECIPE = ("models", "out_dir", "settings", "update", "force")
"""Parameters that go with a recipe."""


def _sections() -> tuple[type[Section], ...]:
    from lingraft.finetuning.recipe import Finetune
    from lingraft.tasks.settings import Changes

    return Finetune, Changes


@takes(_sections, listed=False)
def command(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="The models: folders, Hub ids or names of `show models`. Or one recipe (.toml).",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Keys of the recipe and of the papers' settings, as learning_rate=1e-5 epochs=5 "
            "or cut.train=0.9 cut.dev=0.1.",
        ),
    ] = None,
    task: ask.Task = None,
    data: ask.Data = None,
    out_dir: ask.ResultsFolder = Path("runs/finetune"),
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="How many seeds to train with. Default: 10."),
    ] = None,
    train_language: Annotated[
        list[str] | None,
        typer.Option(
            help="Train in these languages together, or in 'all', and score in others. The task "
            "must have several."
        ),
    ] = None,
    test_language: Annotated[
        list[str] | None,
        typer.Option(help="Score in these languages. Default: all whose files are there."),
    ] = None,
    label: ask.Labels = None,
    update: Annotated[
        bool, typer.Option("--update", help="Train seeds again whose inputs have changed.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Train all seeds of this call again.")
    ] = False,
) -> object:
    """Fine-tune models on tasks with several seeds; print mean and deviation of the scores.

    With a recipe:    lingraft finetune tasks.toml --out runs/tasks

    Without:          lingraft finetune runs/ko/model --task klue-nli korsts --data data

    Across languages: lingraft finetune xlm-roberta-base --task pawsx --data data --train-language
        en --test-language ko de

    Settings are those of the papers. Seeds that are done are kept, a killed one goes on with the
    same command. What comes out is OUT/MODEL/TASK/seed-N and OUT/results.jsonl.
    """
    recipe, base = recipe_of(context)
    from lingraft.finetuning import outcomes, run

    if ask.is_first_process():
        outcomes.check_out(out_dir)
    options = run.Options(update, force, command=ask.command_line())
    results = run.finetune(recipe, out_dir, options, base)
    tables = tables_of(results, out_dir)
    if ask.is_first_process():
        _show(results, tables, recipe, out_dir)
    return {"results": out_dir / "results.jsonl", "scores": console.rows(*tables)}


def recipe_of(context: typer.Context) -> tuple[Finetune, Path]:
    """Return the recipe that a call asks for, and the folder that its paths start from.

    Raises:
        RecipeError: an option is missing, wrong, or belongs into the recipe.
    """
    from lingraft.finetuning import recipe as recipes

    given = context.params
    models, settings = given["models"], given["settings"]
    if len(models) == 1 and models[0].endswith(".toml"):
        ask.check_beside_recipe(context, [name for name in given if name not in BESIDE_A_RECIPE])
        return recipes.read_finetune(Path(models[0]), settings)
    names = {
        "tasks": "task",
        "data": "data",
        "train_languages": "train_language",
        "test_languages": "test_language",
        "seeds": "seeds",
        "labels": "label",
    }
    values = {key: given[name] for key, name in names.items() if given[name]}
    if "tasks" not in {*values, *(setting.partition("=")[0] for setting in settings)}:
        raise RecipeError("--task: name a task, such as klue-nli (lingraft show tasks)")
    return recipes.decode_finetune({"models": models} | values, settings), Path()


def _show(
    results: Sequence[Outcome], tables: Sequence[Table], recipe: Finetune, out_dir: Path
) -> None:
    """Print how good the models are, and where what was made lies."""
    for table in tables:
        console.show(table)
    reference = ("reference=source",) if recipe.restore_source else ()
    kept = [best for result in results if (best := result.folder / "best").is_dir()]
    weights = out_dir / "MODEL/TASK/seed-N/best" if kept[1:] else "".join(map(str, kept))
    counts = [
        counted(len({getattr(result, key) for result in results}), name)
        for key, name in {"model_label": "model", "task": "task", "seed": "seed"}.items()
    ]
    console.summary(
        ("what", " × ".join(counts)),
        ("models", weights),
        ("results", out_dir / "results.jsonl"),
        next_step=NextStep(COMPARE, command_of("report", out_dir, *reference)),
    )


def tables_of(results: Sequence[Outcome], out_dir: Path) -> list[Table]:
    """Make the tables to print: models × tasks, or × languages for tasks in several."""
    from lingraft.finetuning import score_tables, xtreme_average
    from lingraft.finetuning.compared import arrange, runs_of

    arranged = arrange(runs_of([(one.model_label, one) for one in results], [out_dir]))
    if results[0].languages is None:
        return [score_tables.of_tasks(arranged, {})]
    summary = xtreme_average.summary_table(arranged, {})
    return [*score_tables.of_languages(arranged, {}), *([summary] if summary else [])]
