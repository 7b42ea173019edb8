"""`lingraft finetune`: it parses, calls and prints."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.finetuned import Outcome

out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)


def finetune(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL…",
            help="Checkpoints: directories, Hub ids or names (`lingraft list models`); "
            "or one recipe (.toml).",
        ),
    ],
    task: Annotated[
        list[str] | None,
        typer.Option(help="NAME[,NAME…]: `lingraft list tasks`, or a TOML file of your own."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Directory of the tasks' files, or 'hub'.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds (10).")] = None,
    first_seed: Annotated[int | None, typer.Option(min=0, help="The first of them (0).")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="The folder of the results.")] = Path(
        "runs/finetune"
    ),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="a=b,c=d",
            help="Other settings than the paper's, e.g. --set learning_rate=1e-5,epochs=5",
        ),
    ] = None,
    paper: Annotated[
        str | None, typer.Option(help="Another paper's settings, where a task has them.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="What tables call the models: NAME[,NAME…].")
    ] = None,
    cut: Annotated[
        str | None,
        typer.Option(help="Cut the one labelled split there is: TRAIN,DEV[,TEST] as shares."),
    ] = None,
    train_examples: Annotated[
        int | None, typer.Option(min=1, help="Train on this many examples only.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="auto, bf16 or fp32.")] = None,
    keep_models: Annotated[
        bool, typer.Option("--keep-models", help="Keep the best weights of every seed.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do seeds anew whose inputs have changed.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Do the seeds of this call anew.")
    ] = False,
) -> None:
    """Fine-tune models on tasks with several seeds; print mean and deviation of the scores.

    With a recipe:     lingraft finetune recipes/finetune-ko.toml --out runs/tasks

    Without:           lingraft finetune runs/ko/model --task klue-nli,korsts --data data

    Settings are those of the papers. Seeds that are done are kept, a killed one goes on with the
    same command. What comes out is OUT/MODEL/TASK/seed-N and OUT/results.jsonl.
    """
    from lingraft.finetuning import recipe as recipes

    given: dict[str, Any] = {
        "tasks": names_in(task),
        "data": data,
        "seeds": seeds,
        "first_seed": first_seed,
        "labels": names_in([label] if label else None),
        "cut": shares_in(cut),
        "train_examples": train_examples,
        "paper": paper,
        "precision": precision,
    }
    given = {key: value for key, value in given.items() if value not in (None, [])}
    if len(models) == 1 and models[0].endswith(".toml"):
        if given:
            name = "task" if "tasks" in given else next(iter(given))
            raise RecipeError(
                f"--{name.replace('_', '-')}: belongs to the form without a recipe; "
                "write it into the recipe, or change settings with --set"
            )
        chosen, base = recipes.read_finetune(Path(models[0]), settings or [])
    else:
        if "tasks" not in given:
            raise RecipeError("--task: name a task, such as klue-nli (lingraft list tasks)")
        chosen = recipes.decode_finetune({"models": models} | given, settings or [])
        base = Path()
    from lingraft.finetuning import run

    options = run.Options(resume, overwrite, keep_models, shlex.join(["lingraft", *sys.argv[1:]]))
    found = run.finetune(chosen, out_dir, options, base)
    if int(os.environ.get("RANK", "0")) == 0:
        out.print(table_of(found))
        out.print(f"results: {out_dir / 'results.jsonl'}", soft_wrap=True)


def names_in(values: Sequence[str] | None) -> list[str]:
    """The names in `A,B` and several options of it."""
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def shares_in(text: str | None) -> dict[str, float] | None:
    """Shares by split, of `0.8,0.1,0.1`.

    Raises:
        RecipeError: they are not two or three numbers.
    """
    if text is None:
        return None
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) not in (2, 3):
        raise RecipeError(
            f"--cut {text}: write the shares of train, dev and (if wanted) test, as 0.8,0.1,0.1"
        )
    return dict(zip(("train", "dev", "test"), shares, strict=False))


def table_of(found: Sequence[Outcome]) -> Table:
    """Mean ± sample standard deviation over seeds: a row a model, task, split and score."""
    from lingraft import finetuned

    table = Table("model", "task", "split", "score", "mean ± sd", "seeds", "examples")
    notes: dict[str, list[str]] = {}
    for (model, task), outcomes in finetuned.by_cell(found).items():
        first = outcomes[0]
        for split in first.evaluation:
            for name in first.data["shown"]:
                summary = finetuned.summary([one.scores(split)[name] for one in outcomes])
                row = (model, task, split, name, summary.shown(), str(summary.seeds))
                table.add_row(*row, f"{first.n(split):,}")
        if first.split_note != "official":
            named = notes.setdefault(first.split_note, [])
            named += [task] if task not in named else []
    if notes:
        table.caption_justify = "left"
        table.caption = "\n".join(
            f"not the official splits of {', '.join(tasks)}: {note}"
            for note, tasks in notes.items()
        )
    return table
