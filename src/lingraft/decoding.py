"""Recipes in TOML: reading, overriding, checking, writing.

Decoding is strict: an unknown key, a wrong type or a value out of range is one line with its path,
what is allowed and the nearest name.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
import typing
from typing import TYPE_CHECKING, Any

import tomli_w
from pydantic import ValidationError

from lingraft.errors import RecipeError
from lingraft.recipe import Recipe, Section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def load(path: Path) -> dict[str, Any]:
    """Read a TOML recipe as plain data.

    Raises:
        RecipeError: the file is missing, not UTF-8 or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe; give the path of a TOML file") from None
    except IsADirectoryError:
        raise RecipeError(f"{path}: is a directory; name a recipe file (.toml)") from None
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: not UTF-8 at byte {error.start}; a recipe is a UTF-8 text file"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None


def decode(data: dict[str, Any], where: str = "recipe") -> Recipe:
    """Check plain data and freeze it.

    Args:
        data: the tables of a recipe.
        where: named in messages, a file for instance.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{where}: {explain(error)}") from None


def override(data: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Apply `a.b=c` assignments (values in TOML; a bare word is a string) to plain data.

    Raises:
        RecipeError: an assignment without '=', or a path that runs through something that is no
            table.
    """
    changed = copy.deepcopy(data)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise RecipeError(f"--set {assignment}: write it as path.to.key=value")
        _assign(changed, path.strip().split("."), _parse_value(text), assignment)
    return changed


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _assign(data: Any, keys: list[str], value: Any, assignment: str) -> None:
    for position, key in enumerate(keys):
        last = position == len(keys) - 1
        if isinstance(data, list):
            if not key.isdigit() or int(key) >= len(data):
                raise RecipeError(f"--set {assignment}: '{key}' must be an index below {len(data)}")
            index: Any = int(key)
        elif isinstance(data, dict):
            index = key
        else:
            raise RecipeError(f"--set {assignment}: '{keys[position - 1]}' is a value, not a table")
        if last:
            data[index] = value
        else:
            data = data[index] if isinstance(data, list) else data.setdefault(index, {})


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, every value written out; decoding it gives an equal recipe."""
    return tomli_w.dumps(_without_none(recipe.model_dump(mode="json")))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


TYPES = {
    "tuple_type": 'a list, such as ["…"]',
    "dict_type": "a table",
    "model_type": "a table",
    "string_type": "a string",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}
"""What pydantic's kinds of errors call for, in the words of TOML."""


def explain(error: ValidationError, root: type[Section] = Recipe) -> str:
    """The first thing that is wrong, on one line; `root` is what was decoded."""
    first = error.errors(include_url=False)[0]
    path = [str(step) for step in first["loc"]]
    where = ".".join(path) or root.__name__.lower()
    if first["type"] == "extra_forbidden":
        return f"{where}: no such key.{_nearest(path, root)}"
    if first["type"] == "missing":
        return f"{where}: is missing; the {root.__name__.lower()} must give it"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{where}: {message}" if path else message
    wanted = TYPES.get(first["type"]) or first["msg"].partition(" should ")[2]
    wanted = wanted.removeprefix("be ").replace(" after validation", "")
    verb = "must" if wanted.startswith(("match", "have")) else "must be"
    return f"{where}: {verb} {wanted}; got {repr(first['input'])[:80]}"


def _nearest(path: list[str], root: type[Section]) -> str:
    section: Any = root
    for step in path[:-1]:
        if step.isdigit():
            continue
        field = section.model_fields.get(step)
        section = _section_of(field.annotation) if field else None
        if section is None:
            return ""
    allowed = list(section.model_fields)
    close = difflib.get_close_matches(path[-1], allowed, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Allowed: {', '.join(allowed)}"


def _section_of(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for argument in typing.get_args(annotation):
        found = _section_of(argument)
        if found is not None:
            return found
    return None
