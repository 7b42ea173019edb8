"""Reference pages and tables of the site, made from the code."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import types
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic_core import PydanticUndefined
from typer.cli import get_docs_for_click

from lingraft.cli import app as cli
from lingraft.cli.show import TABLES as SHOWN
from lingraft.models.families import FAMILIES
from lingraft.recipe import Recipe
from lingraft.recipe.base import Section
from lingraft.recipe.catalogue import COLUMNS, SOURCES, models as known_models
from lingraft.report.table import markdown, plain
from lingraft.study.recipe import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic.fields import FieldInfo

NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}
LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
RECIPE_INTRODUCTION = """# Recipes

A recipe is a TOML file with every setting of a run. This page is made from the code.

- `lingraft show recipe start` prints a short recipe, `lingraft check RECIPE` shows what one does.
- On the command line, `KEY=VALUE` sets one key, such as `tokenizer.vocab_size=8000`.
- A key without a default (“–”) is required. “none” means that it is not set.

This page also lists [methods](#methods), [presets](#presets), [initializers](#initializers),
[objectives](#objectives), and the keys of [study files](#study-files).
"""
STUDY_INTRODUCTION = """## Study files

A study is a grid of runs in one TOML file ([Studies](../guides/studies.md)).
"""
CLI_INTRODUCTION = """# Command line

This page is made from the code; `lingraft COMMAND --help` prints the same.
`lingraft --install-completion` sets up completion in your shell.

These options stand before the name of a command: `--quiet` (warnings and errors only),
`--verbose` (more), `--device`, `--version`.
"""
EXAMPLE = re.compile(
    r"^(?:(?P<says>[A-Z][\w ]*): +)?(?P<code>lingraft .*(?:\n +.*)*)$", re.MULTILINE
)
"""A line of a command's docstring that says how to call it; it may go on, indented."""


Seen = dict[type[Section], tuple[str, str]]


def _cell(text: str) -> str:
    """Text for a table: Markdown reads `code` as it is, and nothing else as HTML or a link."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("[", "\\[") for part in parts[::2]]
    return "`".join(parts)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _options(kind: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else itself."""
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(each for member in get_args(kind) for each in _options(member))
    return (kind,)


def _sections(kind: Any) -> Iterator[tuple[type[Section], bool]]:
    """The tables in the type of a field, and whether there can be several."""
    for option in _options(kind):
        if get_origin(option) is tuple:
            yield from ((one, True) for one, _ in _sections(get_args(option)[0]))
        elif isinstance(option, type) and issubclass(option, Section):
            yield option, False


def type_name(kind: Any) -> str:
    """The type of a field in plain words, for TOML."""
    return " or ".join(dict.fromkeys(_type_name(o) for o in _options(kind) if o is not type(None)))


def _type_name(kind: Any) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inside)
    if origin is tuple:
        several = len(inside) == 2 and inside[1] is Ellipsis
        listed = inside[:1] if several else inside
        return "list: " + ", ".join(type_name(one) for one in listed)
    if origin is dict or kind is dict:
        return "table"
    if isinstance(kind, type) and issubclass(kind, Section):
        return "table"
    return NAMES.get(kind, "any")


def _limits(field: FieldInfo) -> str:
    found = []
    for rule in field.metadata:
        for name, sign in LIMITS.items():
            value = getattr(rule, name, None)
            if value is not None:
                found.append(f"{sign} {value:,}" if isinstance(value, int) else f"{sign} {value:g}")
    return ", ".join(found)


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "–" if field.is_required() else "made"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if not isinstance(value, tuple) else f"`{list(value)}`"


def docstrings(section: type[Section]) -> dict[str, str]:
    """What stands under the keys of a table; pydantic would read it whenever lingraft starts."""
    texts = {}
    for owner in filter(lambda kind: issubclass(kind, Section), reversed(section.mro())):
        tree: Any = ast.parse(inspect.getsource(owner))
        for key, below in itertools.pairwise(tree.body[0].body):
            match key, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    texts[name] = inspect.cleandoc(text)
    return texts


def _table(section: type[Section]) -> str:
    lines = []
    texts = docstrings(section)
    for name, field in section.model_fields.items():
        if any(_sections(field.annotation)):
            continue
        kind = ", ".join(filter(None, (type_name(field.annotation), _limits(field))))
        lines.append(_row((f"`{name}`", kind, _default(field), _cell(texts.get(name, "")))))
    head = _row(("key", "type", "default", "what it is")) + _row(("---",) * 4)
    return head + "".join(lines) if lines else ""


def _chapters(
    section: type[Section], path: str, several: bool, seen: Seen, own: str = ""
) -> Iterator[str]:
    """A table of a recipe, then those inside it.

    Args:
        section: the table.
        path: its name with dots.
        several: whether there can be more than one.
        seen: the tables that are written, with name and anchor.
        own: of another kind of file, what its anchors begin with.
    """
    anchor = f"{own}{path}".replace(".", "-")
    if path:
        title = f"[[{path}]]" if several else f"[{path}]"
        depth = min(path.count(".") + 2 + bool(own), 4)
        yield f"{'#' * depth} `{title}` {{ #{anchor} }}\n"
        yield " ".join((section.__doc__ or "").split()) + "\n"
    else:
        yield f"##{'#' * bool(own)} At the top of the file {{ #{own}top }}\n"
    if section in seen:
        first, place = seen[section]
        yield f"Its keys are those of [`{first}`](#{place}).\n"
        return
    seen[section] = path, anchor
    yield _table(section)
    for name, field in section.model_fields.items():
        for inner, many in _sections(field.annotation):
            yield from _chapters(inner, f"{path}.{name}" if path else name, many, seen, own)


def recipes() -> str:
    """Every key of a recipe and of a study, and the names that their values can have."""
    seen: Seen = {}
    keys = [*_chapters(Recipe, "", False, seen)]
    study = [STUDY_INTRODUCTION, *_chapters(Study, "", False, seen, "study-")]
    wanted = ("methods", "presets", "initializers", "objectives")
    lists = [f"## {name.capitalize()}\n\n{TABLES[name]()}\n" for name in wanted]
    return "\n".join([RECIPE_INTRODUCTION, *keys, *lists, *study])


def command_line() -> str:
    """Every command with its arguments and options, as typer documents them."""
    group = cli.COMMAND_LINE
    context = typer.Context(group, info_name="lingraft")
    text = get_docs_for_click(obj=group, ctx=context, name="lingraft")
    # the summaries in the list of commands are cut short; the page's contents name them
    _, _, commands = text.partition("\n## ")
    commands = re.sub(r"^\* `--help`: .*\n", "", commands, flags=re.MULTILINE)
    commands = EXAMPLE.sub(_example, commands)
    return f"{CLI_INTRODUCTION}\n## {commands}"


def _example(match: re.Match[str]) -> str:
    says = f"{match['says']}:\n\n" if match["says"] else ""
    return f"{says}```text\n{' '.join(match['code'].split())}\n```"


FAMILY = ("family", "kind", "positions", "silent layers", "4.57", "notes")


def families() -> str:
    """What the record of a family says that a user should know."""
    rows = [
        (
            f"`{name}`",
            family.kind,
            family.kind_of_positions,
            "yes" if family.identity else "no",
            "yes" if family.older else "no class",
            family.note,
        )
        for name, family in FAMILIES.items()
    ]
    return _row(FAMILY) + _row(("---",) * len(FAMILY)) + "".join(map(_row, rows))


def models() -> str:
    """The known models, and where their values are from."""
    rows = [
        [_cell(str(getattr(known, column))) for column in COLUMNS]
        for known in known_models().values()
    ]
    titles = [name.replace("_", " ") for name in COLUMNS]
    lines = [_row(titles), _row(("---",) * len(titles)), *map(_row, rows)]
    return "".join([*lines, "\nSources:\n\n", *(f"- {k}: {v}.\n" for k, v in SOURCES.items())])


def _listed(name: str) -> str:
    """A table of `lingraft show`."""
    return markdown(SHOWN[name](), plain)


TABLES: dict[str, Callable[[], str]] = {
    "families": families,
    "models": models,
    **{
        name: partial(_listed, name)
        for name in ("methods", "presets", "initializers", "objectives")
    },
}
"""What `<!-- table: NAME -->` in a page becomes."""
