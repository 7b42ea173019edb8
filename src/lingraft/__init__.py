"""lingraft grafts a language onto a pretrained language model.

`lingraft.adapt(...)` does what `lingraft adapt` does. Importing the package is quick: torch is
loaded when work starts.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from lingraft import starting  # the first of ours: Ctrl-C from here on
from lingraft.errors import (
    DataError,
    LingraftError,
    RecipeError,
    TrainingError,
    UnsupportedModelError,
)
from lingraft.guest import as_guest
from lingraft.recipe import Recipe
from lingraft.recipe.methods import read_recipe, recipe_from
from lingraft.rundir import Run
from lingraft.threads import stay_within_quota, wait_passively

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from lingraft.recipe.shorthand import ShortForm
    from lingraft.report.results import Results

wait_passively()
stay_within_quota()

try:
    __version__ = version("lingraft")
except PackageNotFoundError:  # a checkout on the path that is not installed
    __version__ = "0+unknown"

__all__ = [
    "DataError",
    "LingraftError",
    "RecipeError",
    "Run",
    "TrainingError",
    "UnsupportedModelError",
    "__version__",
    "adapt",
    "evaluate",
    "load",
    "read_recipe",
    "recipe_from",
    "results",
]


def adapt(
    recipe: Recipe | dict[str, Any] | str | Path | None = None,
    out: str | Path | None = None,
    *,
    settings: Sequence[str] = (),
    update: bool = False,
    force: bool = False,
    **short: Unpack[ShortForm],
) -> Run:
    """Adapt a model: from raw text to RUN/model and RUN/report.html.

    With a recipe: `adapt("recipes/demo.toml", out="runs/demo")`. Without one:
    `adapt(source="FacebookAI/roberta-base", text="ko.txt", language="ko", hours=8,
    out="runs/ko")`. More time for a finished run: `adapt("runs/ko", hours=16)`.

    Args:
        recipe: a recipe file, its tables as a dict, a `Recipe`, or a finished run's folder.
        out: the run's folder; with a recipe runs/NAME by default.
        settings: overrides such as "phases.0.budget.value=10".
        update: bring a run of another recipe up to this one.
        force: delete what `out` holds first.
        short: the short form, in place of a recipe: see `ShortForm`.

    Returns:
        The run; `run.model_path` is the checkpoint, `lingraft.results(run)` what was measured.

    Raises:
        LingraftError: whatever the caller can mend.
        KeyboardInterrupt: Ctrl-C; where it trains, with a checkpoint from which the same call goes
            on.
    """
    from lingraft.commands.from_python import larger_budget, recipe_of
    from lingraft.pipeline import adapt as pipeline

    if isinstance(settings, str):
        settings = [settings]
    if isinstance(recipe, (str, Path)) and Run(Path(recipe)).recipe_path.is_file():
        others = {"out": out, "settings": settings, "update": update, "force": force}
        with as_guest():
            return pipeline.go_on(Path(recipe), larger_budget(Path(recipe), short, others))
    if recipe is None:
        recipe = recipe_of(short, out, settings)
    elif short:
        raise RecipeError(
            f"adapt: {next(iter(short))}= belongs to the form without a recipe; with one, use "
            "settings="
        )
    elif isinstance(recipe, (str, Path)):
        recipe = read_recipe(Path(recipe), settings)
    elif isinstance(recipe, dict):
        recipe = recipe_from(recipe, settings)
    elif not isinstance(recipe, Recipe):
        raise RecipeError(
            f"adapt: a recipe is a file, its tables as a dict, or a Recipe; got {recipe!r:.100}"
        )
    elif settings:
        raise RecipeError("settings: give them with a recipe file or a dict; a Recipe is complete")
    folder = Path("runs") / recipe.name if out is None else Path(out)
    with as_guest():
        return pipeline.adapt(recipe, folder, update=update, force=force)


def results(run: Run | str | Path) -> Results:
    """What a run measured: numbers, rows for pandas and figures; reads files only.

    Args:
        run: what `adapt` returned, or the run's folder.

    Raises:
        DataError: the folder holds no run.
    """
    from lingraft.report.results import results as read

    return read(run if isinstance(run, Run) else Run.existing(Path(run)))


def load(model: str | Path, revision: str | None = None) -> PreTrainedModel:
    """A model in fp32 on the CPU, with the modules that lingraft put into it, if any.

    Models without such modules load as well with transformers alone.

    Args:
        model: directory or Hub id.
        revision: branch, tag or commit on the Hub.

    Raises:
        LingraftError: there is no such model, or it is broken or of another family.
    """
    from lingraft.models.source import load_model

    with as_guest():
        return load_model(str(model), revision).model


def evaluate(
    model: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    language: str = "und",
    **options: Any,
) -> dict[str, Any]:
    """Intrinsic metrics of any stock masked or causal language model on text files.

    Args:
        model: directory or Hub id.
        text: a file or a directory, or several.
        language: of the text, for sentence splitting.
        options: `sentences` (10,000 at most), `precision` ("auto"), and of a masked model `rate`
            (0.15), `seed` (0) and `num_words` (2,000), as `lingraft evaluate` has them.

    Raises:
        LingraftError: the model or the text cannot be used; an option is not for such a model.
    """
    from lingraft.pipeline import standalone

    paths = [text] if isinstance(text, str | Path) else text
    with as_guest():
        return standalone.evaluate(str(model), list(map(str, paths)), language=language, **options)
