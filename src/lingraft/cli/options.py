"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from lingraft.errors import RecipeError
from lingraft.files import check_folder_name

if TYPE_CHECKING:
    from collections.abc import Sequence

RecipeKeys = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Any key of the recipe, as seed=1 or corpus.test=0.1."
    ),
]
OwnKeys = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="The keys below.")]
SomeKeys = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE")]

# of what makes a run
Source = Annotated[str | None, typer.Option(help="The model to start from: a folder or a Hub id.")]
Text = Annotated[
    list[str] | None,
    typer.Option(help="Files, folders or hub:DATASET; of several languages LANGUAGE=PATH each."),
]
Lang = Annotated[str | None, typer.Option(help="Language of the text: a BCP 47 code such as ko.")]
BudgetText = Annotated[
    str | None,
    typer.Option("--budget", help="Of the whole run: 30m, 8h, 5Mtok, 300steps, or paper."),
]
MethodName = Annotated[
    str | None, typer.Option("--method", help="How to adapt: one of `show methods`.")
]
Tokenizer = Annotated[
    str | None, typer.Option(help="One that exists, in the place of a new one: folder or Hub id.")
]
Baseline = Annotated[
    list[str] | None, typer.Option(help="Methods to train on the same budget, such as scratch.")
]
Seed = Annotated[int | None, typer.Option(help="The seed of weights, order and masks.")]
UpdateRun = Annotated[
    bool, typer.Option("--update", help="Bring what is in --out up to what has changed.")
]
ForceRun = Annotated[bool, typer.Option("--force", help="Delete the run in --out and begin anew.")]

# of what leaves results in --out
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A folder, a Hub id or a name.")]
Encoders = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="Stock encoders; all are compared with the first."),
]
Replace = Annotated[
    bool, typer.Option("--force", help="Replace what another call has left in --out.")
]
ResultsFolder = Annotated[Path, typer.Option("--out", help="The folder of the results.")]
NewFolder = Annotated[Path, typer.Option("--out", help="The folder, made here.")]
Files = Annotated[list[str] | None, typer.Option(metavar="LANGUAGE=FILE")]

# of tasks and of what compares models
Task = Annotated[
    list[str] | None, typer.Option(help="Tasks of `show tasks`, or TOML files of your own.")
]
Data = Annotated[str | None, typer.Option(help="The folder of the tasks' files, or 'hub'.")]
TaskFiles = Annotated[Path | None, typer.Option(help="The folder of the task's files.")]
TaskLanguages = Annotated[
    list[str] | None, typer.Option("--lang", help="Languages of the task; all by default.")
]
Labels = Annotated[list[str] | None, typer.Option(help="What tables call the models, in order.")]
Resamples = Annotated[int, Field(ge=100, le=1_000_000)]
"""Draws of a paired bootstrap, as a key."""


def group(about: str) -> typer.Typer:
    """Return a command with commands of its own.

    Args:
        about: its help.
    """
    return typer.Typer(
        help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )


def command_line() -> str:
    """Return how this process was called, for the record."""
    return shlex.join(["lingraft", *sys.argv[1:]])


SAME = "the same command"


def going_on(message: str) -> str:
    """Return a message on going on with the same command, which --force would begin afresh."""
    same = f"{SAME} without --force"
    return message.replace(SAME, same) if "--force" in sys.argv else message


def is_first_process() -> bool:
    """Return whether this process speaks; under torchrun there are others."""
    return int(os.environ.get("RANK", "0")) == 0


def labelled(models: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Return models, as directories or Hub ids, by what tables and folders call them.

    Raises:
        RecipeError: labels are too many or too few, no name of a folder, or two models have the
            same label or are the same.
    """
    from lingraft.finetuning.recipe import labels_of
    from lingraft.recipe import catalogue

    names = list(map(catalogue.resolve, models))
    if len({*names}) < len(names):
        raise RecipeError("models: one is named twice; give each model once")
    return dict(zip(labels_of(models, labels), names, strict=True))


def named_file(entry: str, option: str) -> tuple[str, Path]:
    """Return name and file of NAME=FILE; of a file alone no name.

    Raises:
        RecipeError: the name cannot be that of a folder.
    """
    name, equals, file = entry.partition("=")
    if not equals or Path(entry).exists():
        return "", Path(entry)
    check_folder_name(name, option)
    return name, Path(file)
