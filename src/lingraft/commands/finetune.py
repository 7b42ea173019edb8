"""`lingraft finetune`: it parses, calls and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lingraft.commands import console
from lingraft.commands import options as ask
from lingraft.errors import RecipeError
from lingraft.log import counted
from lingraft.recipe.shorthand import given
from lingraft.report.next_step import NextStep
from lingraft.report.next_step import command as command_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.finetuning.outcomes import Outcome
    from lingraft.report.table import Table


COMPARE = "See what is more than luck, and where the models go wrong:"
BESIDE_A_RECIPE = ["models", "out_dir", "settings", "keep_models", "resume", "overwrite"]
"""Parameters that go with a recipe."""


def command(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL…",
            help="The models: folders, Hub ids or names of `lingraft list models`. Or one recipe "
            "(.toml).",
        ),
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks, as NAME[,NAME…] of `lingraft list tasks` or a TOML file of your own."
        ),
    ] = None,
    data: ask.Data = None,
    train_language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANG[,LANG…]",
            help="Train in these languages together, or in 'all'. The task must have several "
            "languages.",
        ),
    ] = None,
    test_languages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANG[,LANG…]",
            help="Score in these languages. Default: all whose files are there.",
        ),
    ] = None,
    select_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANG[,LANG…]",
            help="Choose the best weights on these development sets. Default: the training "
            "languages'. 'mean' takes the mean over all that are tested.",
        ),
    ] = None,
    directions: Annotated[
        bool,
        typer.Option(
            "--directions", help="Train in each language by itself, for a table of train × test."
        ),
    ] = False,
    plug: Annotated[
        str | None,
        typer.Option(
            metavar="in|out",
            help="For a model with cross-attention (method veco): leave that out (default), or use "
            "it to read every example with its translation.",
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="With --plug in: a model, fine-tuned on the same task, that tags translations "
            "without tags.",
        ),
    ] = None,
    restore_source: Annotated[
        bool,
        typer.Option(
            "--restore-source",
            help="MODEL is a run of lingraft adapt: put its source's parts back, to see on tasks "
            "in the source's language where that is lost.",
        ),
    ] = False,
    seeds: ask.Seeds = None,
    first_seed: ask.FirstSeed = None,
    out_dir: ask.ResultsFolder = Path("runs/finetune"),
    settings: ask.TaskSettings = None,
    paper: ask.Paper = None,
    label: ask.Labels = None,
    cut: ask.Cut = None,
    train_examples: ask.TrainExamples = None,
    train_sizes: ask.TrainSizes = None,
    learning_rates: ask.LearningRates = None,
    precision: ask.Precision = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep the best weights of every seed.")
    ] = False,
    resume: ask.ResumeSeeds = False,
    overwrite: ask.OverwriteSeeds = False,
) -> None:
    """Fine-tune models on tasks with several seeds; print mean and deviation of the scores.

    With a recipe:     lingraft finetune tasks.toml --out runs/tasks

    Without:           lingraft finetune runs/ko/model --task klue-nli,korsts --data data

    Across languages:  lingraft finetune xlm-roberta-base --task pawsx --data data
                       --train-language en --test-languages ko,de

    docs/finetuning.md has such a recipe. Settings are those of the papers. Seeds that are done are
    kept, a killed one goes on with the same command. What comes out is OUT/MODEL/TASK/seed-N and
    OUT/results.jsonl.
    """
    from lingraft.finetuning import outcomes
    from lingraft.finetuning import recipe as recipes

    values = given(
        tasks=ask.names_in(task),
        data=data,
        train_languages=ask.names_in(train_language),
        test_languages=ask.names_in(test_languages),
        selection_languages=ask.names_in(select_on),
        directions=directions or None,
        plug=plug,
        plug_in={"teacher": teacher} if teacher else None,
        restore_source=restore_source or None,
        seeds=seeds,
        first_seed=first_seed,
        labels=ask.names_in(label),
        cut=ask.shares_in(cut),
        train_examples=train_examples,
        train_sizes=ask.numbers_in(train_sizes, "--train-sizes"),
        learning_rates=ask.numbers_in(learning_rates, "--learning-rates"),
        paper=paper,
        precision=precision,
    )
    if len(models) == 1 and models[0].endswith(".toml"):
        ask.check_beside_recipe(
            context,
            [name for name in context.params if name not in BESIDE_A_RECIPE],
            "write it into the recipe, or change settings with --set",
        )
        recipe, base = recipes.read_finetune(Path(models[0]), settings or [])
    else:
        if "tasks" not in values:
            raise RecipeError("--task: name a task, such as klue-nli (lingraft list tasks)")
        recipe = recipes.decode_finetune({"models": models} | values, settings or [])
        base = Path()
    if ask.is_first_process():
        outcomes.check_out(out_dir)
    from lingraft.finetuning import run

    options = run.Options(resume, overwrite, keep_models, ask.command_line())
    results = run.finetune(recipe, out_dir, options, base)
    if ask.is_first_process():
        for table in tables_of(results):
            console.show(table)
        reference = ("--reference", "source") if recipe.restore_source else ()
        kept = [best for result in results if (best := result.folder / "best").is_dir()]
        weights = out_dir / "MODEL/TASK/seed-N/best" if kept[1:] else "".join(map(str, kept))
        console.summary(
            *said_of(results),
            ("models", weights),
            ("results", out_dir / "results.jsonl"),
            next_step=NextStep(COMPARE, command_of("compare", out_dir, *reference)),
        )


def said_of(results: Sequence[Outcome]) -> list[tuple[str, str]]:
    """What was done, and of tasks in one language the best models by the first score shown."""
    from lingraft.finetuning import outcomes as finetuned

    counts = [
        counted(len({getattr(outcome, key) for outcome in results}), name)
        for key, name in {"model_label": "model", "task": "task", "seed": "seed"}.items()
    ]
    overview = " × ".join(counts)
    if results[0].languages is not None:
        return [("what", overview)]
    reached: dict[str, list[tuple[float, str]]] = {}
    for (model, task), several in finetuned.by_cell(results).items():
        first = several[0]
        split, name = first.evaluation[0], first.data["shown"][0]
        summary = finetuned.summary([outcome.scores(split)[name] for outcome in several])
        pair = (summary.mean, f"{summary.shown()} ({model})")
        reached.setdefault(f"{task} {split} {name}", []).append(pair)
    lines = []
    for title, pairs in reached.items():
        highest = max(mean for mean, _ in pairs)
        lines.append(f"{title} {', '.join(text for mean, text in pairs if mean == highest)}")
    return [("what", overview), ("result", "; ".join(lines))]


def tables_of(results: Sequence[Outcome]) -> list[Table]:
    """What is printed: models × tasks, or of tasks in several languages × languages."""
    from lingraft.finetuning import score_tables, xtreme_average
    from lingraft.finetuning.compared import arrange

    arranged = arrange((outcome.model_label, outcome) for outcome in results)
    if results[0].languages is None:
        return [score_tables.of_tasks(arranged, {})]
    summary = xtreme_average.summary_table(arranged, {})
    return [*score_tables.of_languages(arranged, {}), *([summary] if summary else [])]
