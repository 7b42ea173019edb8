"""Multiple choice by likelihood: files of questions, whatever their columns. No torch here.

A shape says how a record of a file becomes a context, the choices that may follow it, and which of
them is right. The shapes of well-known benchmarks are in `catalogue/choices.toml`, a user's own is
a TOML table of the same keys. Its texts are Jinja templates over the record's columns, as in a task
of lm-evaluation-harness, so that those can be copied.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jinja2
import jinja2.meta
import jinja2.sandbox

from lingraft.corpus.inputs import texts
from lingraft.errors import DataError, RecipeError
from lingraft.paths import path_of
from lingraft.recipe.base import Names, Section
from lingraft.recipe.decoding import checked, load
from lingraft.rundir import digest
from lingraft.tasks.catalogue import benchmark
from lingraft.tasks.reading import table_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.recipe import Evaluation
    from lingraft.tasks.reading import Row

UNFIT = (
    *(jinja2.TemplateError, re.error, TypeError, ValueError, LookupError),
    *(AttributeError, ArithmeticError),
)
"""What a template ends in where a record is not as it expects."""
PLAIN = "choices"
"""The shape of a file whose columns are called context, choices and label."""


class Shape(Section):
    """How the records of a file are read."""

    name: str
    title: str = ""
    language: str = "und"
    citation: str = ""
    like: str = ""
    """The task of lm-evaluation-harness that has the same texts."""
    context: str
    """What the model is given: a template over the columns."""
    choices: str | Names
    """What may follow it: a column that holds a list, or a template for each choice."""
    choice: str = "{{ choice }}"
    """A template over the columns and `choice`, for choices that are a column."""
    label: str
    """Which choice is right, from 0: a template, or with label_is = "text" that choice itself."""
    label_is: Literal["index", "text"] = "index"
    delimiter: str = " "
    """Stands between the context and a choice, as the harness's target_delimiter."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        listed = (self.choices,) if isinstance(self.choices, str) else ()
        templates = [self.context, self.label, self.choice if listed else "", *self._templates]
        parsed = (_environment().parse(text) for text in templates)
        names = set[str]().union(*map(jinja2.meta.find_undeclared_variables, parsed))
        return frozenset(names - ({"choice"} if listed else set()) | set(listed))

    @property
    def _templates(self) -> tuple[str, ...]:
        return () if isinstance(self.choices, str) else tuple(self.choices)


@dataclass(frozen=True)
class Question:
    """A context, and what may follow it."""

    id: str
    context: str
    choices: tuple[str, ...]
    label: int
    """Which of them is right, from 0."""
    delimiter: str
    where: str
    """File and line, for messages."""


@functools.cache
def shapes() -> dict[str, Shape]:
    """The built-in shapes by name."""
    tables = benchmark("choices")["shapes"]
    return {table["name"]: checked(Shape, table, "choices.toml") for table in tables}


def shape_named(name: str) -> Shape:
    """A built-in shape, or a user's own in a TOML file.

    Raises:
        RecipeError: there is none of that name, or the file's table is wrong.
    """
    if name in shapes():
        return shapes()[name]
    path = path_of(name)
    if path.suffix == ".toml":
        shape = checked(Shape, load(path), str(path))
        _compiled(shape, str(path))
        return shape
    raise RecipeError(
        f"shape '{name}': there are {', '.join(shapes())}; or give a TOML file with context, "
        "choices and label"
    )


def _compiled(shape: Shape, where: str) -> None:
    try:
        _ = shape.columns
    except jinja2.TemplateError as error:
        raise RecipeError(f"{where}: is no template ({error}); write {{{{ column }}}}") from None


def read(path: Path, shape: str | None = None, limit: int | None = None) -> list[Question]:
    """The questions of a JSONL, JSON, CSV or TSV file.

    Args:
        path: the file; may be packed (.gz .xz).
        shape: a name, or a TOML file; None takes the plain one.
        limit: at most the first so many.

    Raises:
        DataError: the file is broken or empty, or a record does not fit the shape.
        RecipeError: there is no such shape.
    """
    record_shape = shape_named(shape or PLAIN)
    questions: list[Question] = []
    for row in table_rows(path):
        if limit is not None and len(questions) == limit:
            break
        questions.append(_question(row, record_shape, explicit=shape is not None))
    if not questions:
        raise DataError(f"{path}: holds no questions; is it the right file?")
    return questions


def _question(row: Row, shape: Shape, *, explicit: bool) -> Question:
    missing = shape.columns - row.values.keys()
    if missing:
        raise row.error(_missing(row, shape, sorted(missing), explicit=explicit))
    if empty := sorted(name for name in shape.columns if row.values[name] is None):
        raise row.error(f"its column {empty[0]!r} is null; it must hold something")
    if isinstance(shape.choices, str):
        of_column = [_rendered(row, shape.choice, choice=c) for c in row.strings([shape.choices])]
        choices = tuple(of_column)
    else:
        choices = tuple(_rendered(row, template) for template in shape.choices)
    if len(choices) < 2:
        raise row.error(f"has {len(choices)} choices; a question needs two or more")
    if not all(choices):
        raise row.error("has an empty choice, which has no likelihood; leave the record out")
    context, label = _rendered(row, shape.context), _rendered(row, shape.label)
    right = _index(row, label, choices, shape)
    name = row.identifier(("id", "guid", "idx", "ind"))
    return Question(name, context, choices, right, shape.delimiter, row.where)


def _missing(row: Row, shape: Shape, missing: Sequence[str], *, explicit: bool) -> str:
    lacks = f"has no column {' and '.join(map(repr, missing))} of shape '{shape.name}'"
    fitting = [preset.name for preset in shapes().values() if preset.columns <= row.values.keys()]
    if fitting and not explicit:
        return f"{lacks}; its columns fit --shape {' or '.join(fitting)}"
    has = ", ".join(map(repr, row.values)) or "none"
    return f"{lacks}; it has {has}; name another shape, or write one (docs/causal-evaluation.md)"


def _rendered(row: Row, template: str, **more: Any) -> str:
    try:
        return _template(template).render(**row.values, **more)
    except UNFIT as error:
        raise row.error(f"the template {template!r:.60} cannot be filled ({error})") from None


def _index(row: Row, label: str, choices: Sequence[str], shape: Shape) -> int:
    if shape.label_is == "text":
        if label not in choices:
            raise row.error(f"its label {label!r:.60} is none of its choices")
        return choices.index(label)
    if not re.fullmatch(r"\s*\d+\s*", label) or int(label) >= len(choices):
        raise row.error(
            f"its label is {label!r:.60}; it must be 0 to {len(choices) - 1}, the place of the "
            'right choice (or set label_is = "text" in the shape)'
        )
    return int(label)


def _regex_replace(text: str, pattern: str, value: str = "") -> str:
    """As the filter of lm-evaluation-harness."""
    return re.sub(pattern, value, text)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.SandboxedEnvironment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["regex_replace"] = _regex_replace
    return environment


@functools.cache
def _template(text: str) -> jinja2.Template:
    return _environment().from_string(text)


def inputs(section: Evaluation) -> list[Any]:
    """What of the files that judge a causal model decides a result; nothing where none is named.

    Raises:
        DataError: a file is missing.
        RecipeError: there is no such shape.
    """
    parts: list[Any] = [texts(section.kept)] if section.kept else []
    for choice in section.choices:
        path = path_of(choice.file)
        if not path.is_file():
            raise DataError(f"evaluation.choices: {choice.file}: no such file; correct the path")
        parts.append([choice.title, digest(path), shape_named(choice.shape or PLAIN)])
    return parts
