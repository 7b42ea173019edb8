"""The files and columns of a task's table, however they are spelt."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from lingraft.recipe.base import Section


def _spellings(value: Any) -> Any:
    """A string is a list of one."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(value)
    if not isinstance(value, str | tuple):
        raise ValueError(f"must be a string or a list of strings; got {value!r:.80}")
    return (value,) if isinstance(value, str) else value


def _parts(value: Any) -> Any:
    """A name, or a list of its spellings, is a list of one part."""
    if isinstance(value, list) and value and all(isinstance(part, list) for part in value):
        return tuple(map(_spellings, value))
    return (_spellings(value),)


def _short(value: Any) -> Any:
    """The same with what is alone in a list taken out of it."""
    while isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return value


Some = Annotated[tuple[str, ...], Field(min_length=1)]
Spellings = Annotated[Some, BeforeValidator(_spellings), PlainSerializer(_short)]
"""What a column is called: one name, or several of which the first that is there counts."""
Parts = Annotated[tuple[Some, ...], BeforeValidator(_parts), PlainSerializer(_short)]
"""A file; a list of spellings of its name; or a list of such lists: files that are all needed.

In a benchmark's, a spelling with * stands for all files that it fits, as one part."""


def _headers(value: Any) -> Any:
    """A list of names is a list of one header."""
    if not isinstance(value, list | tuple) or not all(
        isinstance(name, str | list | tuple) for name in value
    ):
        raise ValueError(f"must be a list of names, or a list of such lists; got {value!r:.80}")
    is_header = all(isinstance(name, str) for name in value)
    return ((tuple(value),) if value else ()) if is_header else tuple(map(_spellings, value))


Headers = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_headers)]
"""The columns of TSV files that may lack a header: one list, or one a number of columns."""


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is no regular expression ({error}); got {value!r:.60}") from None
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression."""


class Files(Section):
    """The files of a task: a user's own relative to the recipe, a benchmark's to its folders."""

    train: Parts | None = None
    """None: a language that a benchmark only tests; one's own task must have it."""
    dev: Parts | None = None
    """Chooses the best checkpoint; None cuts 5 % of train for it."""
    dev_mismatched: Parts | None = None
    """GLUE's MNLI has two development sets."""
    test: Parts | None = None
    """What is reported; None reports dev."""


class Columns(Section):
    """The names of the columns, in the official files, in conversions and on the Hub."""

    text: Spellings = ("text",)
    pair: Spellings = ("pair",)
    """The second text of a pair; the translation."""
    label: Spellings = ("label",)
    score: Spellings = ("score",)
    id: Annotated[tuple[str, ...], BeforeValidator(_spellings), PlainSerializer(_short)] = ("id",)
    """Rows without one are numbered."""
    words: Spellings = ("words",)
    """Tagging in JSONL: a list of strings."""
    tags: Spellings = ("tags",)
    translation: Spellings = ("translation",)
    """The text in another language, for models that are plugged in (docs/guides/translation.md)."""
    translation_pair: Spellings = ("translation_pair",)
    """And the second text."""
