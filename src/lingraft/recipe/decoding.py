"""Recipes in TOML: reading, overriding, checking, writing.

Decoding is strict: an unknown key, a wrong type or a value out of range is one line with its path.
"""

from __future__ import annotations

import copy
import difflib
import json
import tomllib
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import tomli_w
from pydantic import ValidationError

from lingraft.errors import RecipeError
from lingraft.recipe import Recipe, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

S = TypeVar("S", bound=Section)
MAX_DEPTH, MAX_SHOWN, MAX_INTEGER = 32, 80, 2**63 - 1


def load(path: Path) -> dict[str, Any]:
    """Read a TOML recipe as plain data.

    Raises:
        RecipeError: the file is missing, not UTF-8 or not TOML.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows may put a mark first
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecipeError(f"{path}: cannot be read as a recipe (TOML): {reason}") from None
    _check_plain(data, str(path))
    return data


def _check_plain(data: Any, where: str, *path: str) -> None:
    """Refuse what numpy, torch or the file system cannot hold, in whatever table it is.

    Raises:
        RecipeError: data is nested too deep, or has a number beyond 64 bits or a NUL character.
    """
    place = f"{where}: {'.'.join(path)}" if path else where
    if len(path) > MAX_DEPTH:
        raise RecipeError(f"{where}: is nested more than {MAX_DEPTH} levels deep")
    if isinstance(data, int) and not -MAX_INTEGER - 1 <= data <= MAX_INTEGER:
        raise RecipeError(f"{place}: is a whole number beyond 64 bits")
    if isinstance(data, str) and "\0" in data:
        raise RecipeError(f"{place}: has a NUL character; leave it out")
    listed = enumerate(data) if isinstance(data, list | tuple) else ()
    for key, value in data.items() if isinstance(data, dict) else listed:
        _check_plain(key, place)
        _check_plain(value, where, *path, str(key)[:MAX_SHOWN])


def checked(kind: type[S], data: Any, where: str) -> S:
    """Check plain data and freeze it as a table of some kind.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    _check_plain(data, where)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{where}: {_explain(error, kind)}") from None


def decode(data: dict[str, Any], where: str = "recipe") -> Recipe:
    """Check the tables of a recipe and freeze them; `where` is named in messages.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    return checked(Recipe, data, where)


def override(data: dict[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Apply `a.b=c` assignments (values in TOML; a bare word is a string) to plain data.

    Raises:
        RecipeError: an assignment without '=', or a path that runs through something that is no
            table.
    """
    _check_plain(data, "recipe")
    changed = copy.deepcopy(data)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys, shown = path.strip().split("."), assignment[:MAX_SHOWN]
        if not equals or not path.strip() or len(keys) > MAX_DEPTH:
            raise RecipeError(f"{shown}: write it as path.to.key=value")
        try:
            _assign(changed, keys, _parse_value(text))
        except (ValueError, TypeError, LookupError, AttributeError):
            raise RecipeError(f"{shown}: leads to no table of the recipe") from None
    return changed


def assignments(settings: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Return settings as `a.b=c`; values by key, as Python has them, are written as TOML."""
    if isinstance(settings, str):
        return [settings]
    if not isinstance(settings, Mapping):
        return list(settings)
    written = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            written += assignments({f"{key}.{name}": of for name, of in value.items()})
        elif value is not None:
            written.append(f"{key}={inline(value)}")
    return written


def inline(value: Any) -> str:
    """Write a value in TOML, on one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)} = {inline(item)}" for key, item in value.items())
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's own, a path as text."""
    return value.item() if hasattr(value, "item") else str(value)


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _assign(data: Any, keys: list[str], value: Any) -> None:
    *path, last = keys
    for key in path:
        if isinstance(data, dict) and key.isdecimal() and key not in data:
            raise LookupError(key)  # a list that is not there, such as phases before they are made
        data = data[int(key)] if isinstance(data, list) else data.setdefault(key, {})
    data[int(last) if isinstance(data, list) else last] = value


def to_toml(recipe: Recipe) -> str:
    """Write the recipe as TOML, every value written out; decoding it gives an equal recipe."""
    return tomli_w.dumps(_without_none(recipe.model_dump(mode="json")))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value


def _explain(error: ValidationError, root: type[Section]) -> str:
    """Return pydantic's first message with its place; of an unknown key the nearest one."""
    first = error.errors(include_url=False)[0]
    path = [str(step) for step in first["loc"]]
    message = first["msg"].removeprefix("Value error, ").replace("Input should", "must")
    if first["type"] == "extra_forbidden":
        message = f"no such key{_nearest(path, root)}"
    elif first["type"] not in ("missing", "value_error"):
        message += f"; got {repr(first['input'])[:MAX_SHOWN]}"
    return f"{'.'.join(path)}: {message}" if path else message


def _nearest(path: list[str], root: type[Section]) -> str:
    section: type[Section] | None = root
    for step in filter(lambda step: not step.isdigit(), path[:-1]):
        field = section.model_fields.get(step) if section else None
        section = _section_of(field.annotation) if field else None
    allowed = list(section.model_fields) if section else []
    close = difflib.get_close_matches(path[-1], allowed, n=1)
    return f". Did you mean '{close[0]}'?" if close else f". Allowed: {', '.join(allowed)}"


def _section_of(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_of, typing.get_args(annotation))), None)
