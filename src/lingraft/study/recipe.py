"""A study file: a base recipe, what is set in every cell, and the axes of one grid or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import Field, ValidationError, model_validator

from lingraft.decoding import explain, load
from lingraft.errors import RecipeError
from lingraft.recipe import Section

if TYPE_CHECKING:
    from pathlib import Path

Axis = Annotated[tuple[Any, ...], Field(strict=False, min_length=1)]


class Rule(Section):
    """Settings for some of the cells."""

    when: Annotated[dict[str, Any], Field(min_length=1)]
    """Values of axes; a cell matches that has all of them."""
    set: Annotated[dict[str, Any], Field(min_length=1)]
    """Dotted paths of the recipe, and their values."""


class Study(Section):
    """Many runs of one recipe side by side."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = "study"
    """Names the study: letters, digits, '.', '_' and '-'."""
    base: str | dict[str, Any]
    """A recipe: a path, relative to the study's file, or the recipe itself as a table. Its
    [[phases]] and [[baselines]] are left out: each cell's method fills in the phases."""
    keep: Literal["all", "final", "none"] = "final"
    """Weights that stay on disk once a cell has been evaluated: of the graft and of every phase, of
    the last phase, or none."""
    initial_loss: bool = False
    """Also measure the validation loss before the first step."""
    set: dict[str, Any] = {}
    """Dotted paths of the recipe and their values, in every cell."""
    grids: Annotated[tuple[dict[str, Axis], ...], Field(strict=False, min_length=1)]
    """Axes and their values; a grid is all combinations, a study the union of its grids. `method`
    is method.name, `sentences` is method.sentences, anything else a dotted path of the recipe."""
    rules: Annotated[tuple[Rule, ...], Field(strict=False)] = ()
    """Applied in order, after `set` and before the axes."""

    @model_validator(mode="after")
    def _rules_name_axes(self) -> Study:
        axes = sorted({axis for grid in self.grids for axis in grid})
        for number, rule in enumerate(self.rules):
            for key in rule.when:
                if key not in axes:
                    raise ValueError(
                        f"rules.{number}.when: '{key}' is no axis of a grid; "
                        f"axes: {', '.join(axes) or 'none'}"
                    )
        return self


def decode(data: dict[str, Any], where: str = "study") -> Study:
    """Check plain data and freeze it.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{where}: {explain(error, Study)}") from None


def read_study(path: Path) -> Study:
    """Read a study file; `base` becomes a path that is good from the current folder.

    Raises:
        RecipeError: whatever is wrong with it, on one line.
    """
    data = load(path)
    if isinstance(data.get("base"), str):
        data["base"] = str(path.parent / data["base"])
    elif "base" not in data and "source" in data:
        raise RecipeError(
            f"{path}: is a recipe, not a study; lingraft adapt runs it, and a study names it as "
            'its base: base = "…"'
        )
    return decode(data, str(path))


def to_toml(study: Study) -> str:
    """The study as TOML, every value written out."""
    return tomli_w.dumps(study.model_dump(mode="json", exclude_none=True))
