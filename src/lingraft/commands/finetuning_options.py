"""Command-line options of everything that fine-tunes, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

Data = Annotated[str | None, typer.Option(help="Directory of the tasks' files, or 'hub'.")]
Seeds = Annotated[int | None, typer.Option(min=1, max=10_000, help="How many seeds (10).")]
FirstSeed = Annotated[int | None, typer.Option(min=0, help="The first of them (0).")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a=b,c=d",
        help="Other settings than the paper's, e.g. --set learning_rate=1e-5,epochs=5",
    ),
]
Paper = Annotated[str | None, typer.Option(help="Another paper's settings, where a task has them.")]
Cut = Annotated[
    str | None,
    typer.Option(help="Cut the one labelled split there is: TRAIN,DEV[,TEST] as shares."),
]
TrainExamples = Annotated[int | None, typer.Option(min=1, help="Train on this many examples only.")]
Precision = Annotated[str | None, typer.Option(help="auto, bf16 or fp32.")]
Resume = Annotated[bool, typer.Option("--resume", help="Do seeds anew whose inputs have changed.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Do the seeds of this call anew.")]


def given(**values: Any) -> dict[str, Any]:
    """The options that were given."""
    return {key: value for key, value in values.items() if value not in (None, [])}


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
