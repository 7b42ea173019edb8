"""Recipes in TOML: reading, overriding, checking, writing.

Decoding is strict: an unknown key, a wrong type or a value out of range is one line with its path,
what is allowed and the nearest name.
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
from lingraft.recipe import Recipe, Section, renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


MAX_DEPTH = 32
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
"""The integers that TOML promises (TOML 1.0.0, Integer), which numpy and torch hold too."""
TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep; write tables and lists less deep"
MAX_SHOWN, MAX_DIGITS = 80, 9
TOO_LARGE = "is a whole number beyond 64 bits; numbers are from -2^63 to 2^63 - 1"


def load(path: Path) -> dict[str, Any]:
    """Read a TOML recipe as plain data.

    Raises:
        RecipeError: the file is missing, not UTF-8 or not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows may put a mark before the text
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe; give the path of a TOML file") from None
    except IsADirectoryError:
        raise RecipeError(f"{path}: is a directory; name a recipe file (.toml)") from None
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: not UTF-8 at byte {error.start}; a recipe is a UTF-8 text file"
        ) from None
    try:
        return _parsed(text, str(path))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None


def _parsed(text: str, where: str) -> dict[str, Any]:
    """Parse TOML as plain data that everything downstream can hold.

    Raises:
        TOMLDecodeError: it is not TOML.
        RecipeError: it is nested too deep, or has a number or a string that nothing
            can use.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise RecipeError(f"{where}: {TOO_DEEP}") from None
    except ValueError:  # Python reads no decimal number of more than 4,300 digits
        raise RecipeError(f"{where}: {TOO_LARGE}") from None
    _check_plain(data, where)
    return data


def _check_plain(data: Any, where: str, *path: str) -> None:
    """Refuse what numpy, torch or the file system cannot hold, in whatever table it is.

    Raises:
        RecipeError: data is nested too deep, or has a number beyond 64 bits or a NUL character.
    """
    if len(path) > MAX_DEPTH:
        raise RecipeError(f"{where}: {TOO_DEEP}")
    place = f"{where}: {'.'.join(path)}" if path else where
    if isinstance(data, int) and not MIN_INTEGER <= data <= MAX_INTEGER:
        raise RecipeError(f"{place}: {TOO_LARGE}")
    if isinstance(data, str) and "\0" in data:
        raise RecipeError(f"{place}: has a NUL character, which no name has; leave it out")
    listed = enumerate(data) if isinstance(data, list | tuple) else ()
    entries = data.items() if isinstance(data, dict) else listed
    for key, value in entries:
        if "\0" in str(key):
            raise RecipeError(f"{place}: a key has a NUL character, which no name has")
        _check_plain(value, where, *path, str(key)[:MAX_SHOWN])


S = TypeVar("S", bound=Section)


def checked(kind: type[S], data: Any, where: str) -> S:
    """Check plain data and freeze it as a table of some kind.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    _check_plain(data, where)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise RecipeError(f"{where}: {explain(error, kind)}") from None


def decode(data: dict[str, Any], where: str = "recipe") -> Recipe:
    """Check plain data and freeze it.

    Args:
        data: the tables of a recipe.
        where: named in messages, a file for instance.

    Raises:
        RecipeError: the first thing that is wrong, on one line.
    """
    corpus = data.get("corpus")
    if data.get("streams") and isinstance(corpus, dict) and corpus and "text" not in corpus:
        key = next(iter(corpus))
        raise RecipeError(
            f"{where}: corpus.{key}: is of a run with one text, and this one has several streams; "
            f"set it for each, as in streams.0.corpus.{key}"
        )
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
        excerpt = assignment if len(assignment) <= MAX_SHOWN else f"{assignment[:MAX_SHOWN]}…"
        if not equals or not path.strip():
            raise RecipeError(f"{excerpt}: write it as path.to.key=value")
        keys = path.strip().split(".")
        if len(keys) > MAX_DEPTH:
            raise RecipeError(f"{excerpt}: {TOO_DEEP}")
        _assign(changed, keys, _parse_value(text, excerpt), excerpt)
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
            written.append(f"{key}={json.dumps(value, ensure_ascii=False, default=_plain)}")
    return written


def _plain(value: Any) -> Any:
    """Return a number of numpy as Python's own, a path as text."""
    return value.item() if hasattr(value, "item") else str(value)


def _parse_value(text: str, where: str) -> Any:
    try:
        return _parsed(f"value = {text}", where)["value"]
    except tomllib.TOMLDecodeError:
        return text


def _assign(data: Any, keys: list[str], value: Any, assignment: str) -> None:
    for position, key in enumerate(keys):
        last = position == len(keys) - 1
        if isinstance(data, list):
            if not key.isdecimal() or len(key) > MAX_DIGITS or int(key) >= len(data):
                raise RecipeError(f"{assignment}: '{key}' must be an index below {len(data)}")
            index: Any = int(key)
        elif isinstance(data, dict):
            index = key
        else:
            raise RecipeError(f"{assignment}: '{keys[position - 1]}' is a value, not a table")
        if last:
            data[index] = value
        else:
            data = data[index] if isinstance(data, list) else data.setdefault(index, {})


def to_toml(recipe: Recipe) -> str:
    """Write the recipe as TOML, every value written out; decoding it gives an equal recipe."""
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
"""Advice by pydantic's kinds of errors, in the words of TOML."""


def explain(error: ValidationError, root: type[Section] = Recipe) -> str:
    """Return the first thing that is wrong, on one line; `root` is what was decoded."""
    first = error.errors(include_url=False)[0]
    path = [str(step) for step in first["loc"]]
    where = ".".join(path) or root.__name__.lower()
    if first["type"] == "extra_forbidden":
        if root is Recipe and (instead := renamed.told(where, first["input"])):
            return instead
        return f"{where}: no such key.{_nearest(path, root)}"
    if first["type"] == "missing":
        return f"{where}: is missing; the {root.__name__.lower()} must give it"
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        return f"{where}: {message}" if path else message
    expected = TYPES.get(first["type"]) or first["msg"].partition(" should ")[2]
    expected = expected.removeprefix("be ").replace(" after validation", "")
    verb = "must" if expected.startswith(("match", "have")) else "must be"
    return f"{where}: {verb} {expected}; got {repr(first['input'])[:80]}"


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
        section = _section_of(argument)
        if section is not None:
            return section
    return None
