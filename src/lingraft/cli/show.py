"""`lingraft show`: tables of what lingraft has, made from the code."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lingraft.cli import parsing
from lingraft.errors import RecipeError
from lingraft.models.embeddings import INITIALIZERS
from lingraft.recipe import catalogue
from lingraft.recipe.records import METHODS, PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lingraft.report.table import Table
    from lingraft.tasks import Group


def _listed(title: str, names: Iterable[str], rows: Sequence[Iterable[str]]) -> Table:
    from lingraft.report.table import Column, table

    return table(title, [Column(name, "long") for name in names], rows)


def _families() -> Table:
    from lingraft.models.families import FAMILIES

    rows = [
        (
            family.model_type,
            family.kind_of_positions,
            "pad + 1" if family.pad_decides_positions else "0",
            family.layers,
            family.kind,
            "yes" if family.identity else "no",
        )
        for family in FAMILIES.values()
    ]
    names = ("family", "positions", "first position", "layers", "kind", "identity")
    return _listed("model families (docs/reference/families.md)", names, rows)


def _explained(title: str, records: Mapping[str, Any]) -> Table:
    rows = [(name, record.summary, record.paper) for name, record in records.items()]
    return _listed(title, ("name", "what it does", "source"), rows)


def _presets() -> Table:
    rows = [(name, preset.summary) for name, preset in PRESETS.items()]
    return _listed("presets", ("name", "what it is"), rows)


def _objectives() -> Table:
    from lingraft.training.objectives import OBJECTIVES

    return _explained("objectives", OBJECTIVES)


def _methods() -> Table:
    rows = [
        (name, record.kind or "all", record.preset, record.summary)
        for name, record in METHODS.items()
    ]
    return _listed("methods", ("name", "models", "preset", "what it does"), rows)


def _tasks() -> Table:
    from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS, TASKS, names

    in_several = {f"{group.name}-{{lang}}": group for group in GROUPS.values()}
    rows: list[tuple[str, ...]] = []
    for name, record in names().items():
        group = in_several.get(name)
        task = TASKS[group.member(group.train_language) if group else record]
        languages = ", ".join(sorted(group.languages) if group else task.languages)
        row = (name, task.kind, languages, ", ".join(task.shown), ", ".join(task.evaluation))
        rows.append((*row, task.table.licence, task.files_from))
    rows += [_retrieval(group) for group in RETRIEVAL_GROUPS.values()]
    columns = ("name", "kind", "languages", "scores", "reported on", "licence", "from")
    how = "tasks: lingraft finetune MODEL --task NAME (docs/reference/tasks.md)"
    return _listed(how, columns, rows)


def _retrieval(group: Group) -> tuple[str, ...]:
    """Return the row of a benchmark that is not fine-tuned on."""
    from lingraft.tasks import RETRIEVALS

    record = RETRIEVALS[group.member(group.languages[0])]
    return (
        f"{group.name}-{{lang}}",
        "retrieval",
        ", ".join(sorted(group.languages)),
        ", ".join(group.scores),
        ", ".join(record.evaluation),
        record.licence,
        record.files_from.replace(f"-{record.language}-", "-{lang}-"),
    )


def _models() -> Table:
    # Columns of docs/reference/families.md that a terminal is too narrow for are left to that page.
    titles = [n for n in catalogue.COLUMNS if n not in ("title", "publisher", "source")]
    rows = [
        tuple(str(getattr(model, name)) for name in titles) for model in catalogue.models().values()
    ]
    how = "known models: a name goes wherever a model does, as --source xlm-r-base"
    return _listed(f"{how} (docs/reference/families.md)", titles, rows)


def _recipes() -> Table:
    rows = [(name, catalogue.summary(path)) for name, path in catalogue.files().items()]
    return _listed("recipes: lingraft show recipe NAME > my.toml", ("name", "what it is"), rows)


TABLES: dict[str, Callable[[], Table]] = {
    "methods": _methods,
    "initializers": partial(_explained, "embedding initializers", INITIALIZERS),
    "objectives": _objectives,
    "families": _families,
    "models": _models,
    "tasks": _tasks,
    "presets": _presets,
    "recipe": _recipes,
}


def table_of(name: str) -> Table:
    """Return one of the tables.

    Raises:
        RecipeError: there is no such table.
    """
    if name not in TABLES:
        raise RecipeError(f"show {name}: there is no such table; there are {', '.join(TABLES)}")
    return TABLES[name]()


def command(
    what: Annotated[str, typer.Argument(metavar="WHAT", help=f"One of {', '.join(TABLES)}.")],
    name: Annotated[
        str | None, typer.Argument(help="Of recipe: which one to print, comments and all.")
    ] = None,
) -> object:
    """Show what lingraft has, as a table made from the code; or a recipe to start from.

    lingraft show methods

    lingraft show recipe start > my.toml

    The files of demo and metaxlm-demo are copied by `lingraft demo --files-to demo`;
    the comments of other recipes say what they need.
    """
    if what == "recipe" and name is not None:
        text = catalogue.text(name)
        parsing.out.print(text, end="", soft_wrap=True, markup=False, highlight=False)
        return {"name": name, "recipe": text}
    if name is not None:
        raise RecipeError(f"{name}: only `show recipe` takes a name; leave it out")
    return parsing.show(table_of(what))
