"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that a recipe may have."""

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a.b=c",
        help="Change a value of the recipe, as in --set phases.0.budget.value=10.",
    ),
]

# of what makes a run
Seed = Annotated[int | None, typer.Option(help="The seed of weights, order and masks.")]
ResumeRun = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the run in --out, and do again what has changed."),
]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Delete the run in --out first.")]

# of what leaves results in --out
Replace = Annotated[
    bool, typer.Option("--overwrite", help="Replace what another call has left in --out.")
]
ResultsFolder = Annotated[Path, typer.Option("--out", help="The folder of the results.")]

# of study
Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        max=1_024,
        help="How many cells run at a time. They share the cores, or take GPUs in turn.",
    ),
]
ResumeStudy = Annotated[
    bool,
    typer.Option(
        "--resume", help="Let this study replace the one in --out, and keep what both share."
    ),
]
OverwriteStudy = Annotated[
    bool, typer.Option("--overwrite", help="Delete the study in --out first.")
]

# of what compares models, or files of systems
Labels = Annotated[
    list[str] | None, typer.Option(help="What tables call the models: NAME[,NAME…].")
]
Draws = Annotated[int, typer.Option(min=100, max=1_000_000, help="Draws of the paired bootstrap.")]

# of everything that fine-tunes
Data = Annotated[str | None, typer.Option(help="The folder of the tasks' files, or 'hub'.")]
Seeds = Annotated[
    int | None, typer.Option(min=1, max=10_000, help="How many seeds to train with. Default: 10.")
]
FirstSeed = Annotated[int | None, typer.Option(min=0, help="The first seed. Default: 0.")]
TaskSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a=b,c=d",
        help="Change the paper's settings, as in --set learning_rate=1e-5,epochs=5.",
    ),
]
Paper = Annotated[
    str | None, typer.Option(help="Take another paper's settings, where a task has several.")
]
Cut = Annotated[
    str | None,
    typer.Option(
        help="Cut the one split with labels into TRAIN,DEV[,TEST], as shares. "
        "dev=0.5,test=0.5 cuts the development set alone."
    ),
]
TrainExamples = Annotated[int | None, typer.Option(min=1, help="Train on so many examples only.")]
TrainSizes = Annotated[
    str | None,
    typer.Option(
        metavar="N,N…", help="Train on so many examples, and on so many …: a learning curve."
    ),
]
LearningRates = Annotated[
    str | None,
    typer.Option(
        metavar="R,R…",
        help="Try each of these learning rates once for each model and task, and take the best "
        "on the development set for all seeds.",
    ),
]
Precision = Annotated[str | None, typer.Option(help="auto, bf16, fp16 or fp32, of training.")]
ResumeSeeds = Annotated[
    bool, typer.Option("--resume", help="Train seeds again whose inputs have changed.")
]
OverwriteSeeds = Annotated[
    bool, typer.Option("--overwrite", help="Train all seeds of this call again.")
]


def command_line() -> str:
    """How this process was called, for the record."""
    return shlex.join(["lingraft", *sys.argv[1:]])


def recipe_name(folder: Path | None, data: dict[str, Any]) -> str:
    """What a recipe without a name is called: as its run's folder, or by its languages.

    Args:
        folder: what of its name cannot be in a recipe's becomes '-'.
        data: the recipe's tables.
    """
    codes = [data.get("language"), *(stream.get("language") for stream in data.get("streams", ()))]
    languages = "-".join(dict.fromkeys(str(code) for code in codes if code))
    names = (folder.resolve().name if folder else "", languages, "run")
    return next(filter(None, map(_plain, names)))


def _plain(name: str) -> str:
    """A name as a recipe may have it; '' where nothing is left."""
    if PLAIN.fullmatch(name):
        return name
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")


SAME = "the same command"


def going_on(message: str) -> str:
    """What a message says of the same command, which with --overwrite would begin afresh."""
    same = f"{SAME} without --overwrite"
    return message.replace(SAME, same) if "--overwrite" in sys.argv else message


def is_first_process() -> bool:
    """Whether this process speaks; under torchrun there are others."""
    return int(os.environ.get("RANK", "0")) == 0


def check_beside_recipe(
    context: typer.Context,
    alone: Iterable[str],
    mend: str = "with one, use --set (say --set seed=1)",
) -> None:
    """Refuse options that do not go with a recipe.

    Args:
        context: of this call.
        alone: parameters of the form without a recipe.
        mend: what to do.

    Raises:
        RecipeError: one was given.
    """
    check_idle(context, alone, f"belongs to the form without a recipe; {mend}")


def check_idle(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options that would have no effect.

    Args:
        context: of this call.
        names: of their parameters.
        why: what is said behind the first that was given.

    Raises:
        RecipeError: one was given.
    """
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for name in names:
        value = context.params[name]
        if value not in (None, (), [], parameters[name].get_default(context)):
            spelt = parameters[name].secondary_opts if value is False else parameters[name].opts
            raise RecipeError(f"{spelt[0]}: {why}")


def pair_of(text: str) -> tuple[str, str]:
    """Name and value of --executor-option name=value.

    Raises:
        RecipeError: it is no such pair.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RecipeError(f"--executor-option {text}: write it as name=value")
    return name, value


def names_in(values: str | Sequence[str] | None) -> list[str]:
    """The names in `A,B` and several options of it."""
    texts = [values] if isinstance(values, str) else values or []
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def numbers_in(text: str | None, option: str) -> list[float]:
    """The numbers in `1e-4,3e-4`; whole ones as integers.

    Raises:
        RecipeError: something else is among them.
    """
    try:
        numbers = [float(name) for name in names_in(text)]
    except ValueError:
        raise RecipeError(f"{option} {text}: write numbers with commas between them") from None
    return [int(number) if number.is_integer() else number for number in numbers]


def shares_in(text: str | None) -> dict[str, float] | None:
    """Shares by split, of `0.8,0.1,0.1` or `dev=0.5,test=0.5`.

    Raises:
        RecipeError: they are neither.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    names: tuple[str, ...] = ("train", "dev", "test")
    if all("=" in part for part in parts):
        names = tuple(part.partition("=")[0].strip() for part in parts)
        parts = [part.partition("=")[2] for part in parts]
    try:
        shares = [float(part) for part in parts]
    except ValueError:
        shares = []
    wrong = not {*names} <= {"train", "dev", "test"} or len({*names}) != len(names)
    if len(shares) not in (2, 3) or wrong:
        raise RecipeError(
            f"--cut {text}: write the shares of train, dev and (if wanted) test, as 0.8,0.1,0.1, "
            "or those of dev and test, as dev=0.5,test=0.5"
        )
    return dict(zip(names, shares, strict=False))


def labelled(models: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Models, as directories or Hub ids, by what tables and folders call them.

    Raises:
        RecipeError: labels are too many or too few, no name of a folder, or two models have the
            same label or are the same.
    """
    from lingraft.finetuning.recipe import label_of
    from lingraft.recipe import catalogue

    if labels and len(labels) != len(models):
        raise RecipeError(
            f"--label: {len(labels)} names for {len(models)} models; give one a model"
        )
    by_label: dict[str, str] = {}
    for model, label in zip(models, labels or map(label_of, models), strict=True):
        check_folder_name(label, "--label")
        name = catalogue.resolve(model)
        if name in by_label.values():
            raise RecipeError(f"models: {model} is named twice; give each model once")
        if label.casefold() in map(str.casefold, by_label):  # on a Mac Base is base
            raise RecipeError(
                f"two models would be called '{label}'; name them with labels (--label A,B)"
            )
        by_label[label] = name
    return by_label


def named_file(entry: str, option: str) -> tuple[str, Path]:
    """Name and file of NAME=FILE; of a file alone no name.

    Raises:
        RecipeError: the name cannot be that of a folder.
    """
    name, equals, file = entry.partition("=")
    if not equals or Path(entry).exists():
        return "", Path(entry)
    check_folder_name(name, option)
    return name, Path(file)


def check_folder_name(name: str, option: str) -> None:
    """Refuse what cannot be the name of a folder of results.

    Raises:
        RecipeError: it cannot.
    """
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise RecipeError(
            f"{option} '{name}': names a folder: letters, digits, '.', '_', '+' and '-'"
        )
