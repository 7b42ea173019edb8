"""`lingraft.adapt(...)` without a recipe: its arguments, read as those of `lingraft adapt`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lingraft.commands import budgets
from lingraft.commands.options import recipe_name
from lingraft.errors import RecipeError
from lingraft.recipe.shorthand import ShortForm, complete, tables
from lingraft.recipe.streams import CODE, named_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe import Budget, Recipe
    from lingraft.recipe.shorthand import Paths

NEEDED = ("source", "text", "language")


def recipe_of(form: ShortForm, out: str | Path | None, settings: Sequence[str] = ()) -> Recipe:
    """The recipe that the arguments of `lingraft.adapt` stand for.

    Args:
        form: what was given.
        out: the run's folder, by which the recipe is named.
        settings: overrides such as "phases.0.budget.value=10".

    Raises:
        RecipeError: an argument is unknown, missing or wrong.
    """
    for name in form:
        if name not in ShortForm.__annotations__:
            near = difflib.get_close_matches(name, ShortForm.__annotations__, 1)
            hint = f"did you mean {near[0]}=?" if near else "see help(lingraft.adapt)"
            raise RecipeError(f"adapt: there is no argument {name}=; {hint}")
    form = cast("ShortForm", {name: _plain(value) for name, value in form.items()})
    text = form.get("text")
    several = isinstance(text, Mapping)
    missing = [
        f"{name}=" for name in NEEDED if not form.get(name) and not (several and name == "language")
    ]
    if missing:
        raise RecipeError(
            f"adapt: give a recipe, or source=, text= and language=; missing: {', '.join(missing)}"
        )
    if several and form.get("language"):
        raise RecipeError("adapt: text= names its languages; leave language= out")
    if out is None:
        raise RecipeError("adapt: name the run's folder, for example out='runs/ko'")
    texts = _texts(text, form.get("language"))
    assignments = [*settings, *([] if form.get("seed") is None else [f"seed={form['seed']}"])]
    form = {
        **form,
        "lexicons": _several(form.get("lexicons")),
        "kept": _several(form.get("kept")),
        "baselines": _several(form.get("baselines")),
    }
    data = tables(form, texts, budgets.chosen(form))
    data = {"name": recipe_name(Path(out), data)} | data
    return complete(data, assignments, "lingraft.adapt")


def larger_budget(folder: Path, form: ShortForm, others: Mapping[str, Any]) -> Budget:
    """Return the budget that `lingraft.adapt` is to give to the finished run in a folder.

    Args:
        folder: of the run.
        form: what was given of the short form.
        others: what else was given.

    Raises:
        RecipeError: it is more than a budget, or none.
    """
    given = [name for name in form if name not in budgets.UNITS]
    given += [name for name, value in others.items() if value]
    if given:
        raise RecipeError(
            f"adapt: {given[0]}=: a run that goes on keeps its own recipe ({folder}); leave it out"
        )
    return budgets.larger(folder, form)


def _plain(value: Any) -> Any:
    """Of a number of numpy, as a sweep has them, Python's own; else what was given."""
    return value.item() if isinstance(value, Number) and hasattr(value, "item") else value


def _texts(text: Any, language: str | None) -> dict[str, Any]:
    if isinstance(text, Mapping):
        if wrong := [code for code in text if not CODE.fullmatch(str(code))]:
            raise RecipeError(
                f"adapt: text= has '{wrong[0]}' in the place of a language code; write ko, say, or "
                "pt-BR"
            )
        paths = {code: _paths(text[code]) for code in text}
        if empty := [code for code in paths if not paths[code]]:
            raise RecipeError(
                f"adapt: text= names no file for '{empty[0]}'; give one, or leave it out"
            )
        return named_texts([f"{code}={path}" for code in paths for path in paths[code]], None)
    return named_texts(_paths(text), language)


def _several(names: Paths | None) -> list[str] | None:
    """Names as a list; one by itself is a list too, and no list of letters."""
    return None if names is None else _paths(names)


def _paths(text: Paths) -> list[str]:
    return [str(path) for path in ([text] if isinstance(text, str | Path) else text)]
