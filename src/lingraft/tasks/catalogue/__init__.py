"""The built-in tasks: a TOML file a benchmark, in the schema of a user's own task (`definition`).

What stands at the top of a file holds for all of its `[[tasks]]`, whose own values go before it; an
empty list or table of a task takes away what the top has. `languages` makes a task for each;
`{lang}`, the names in `fill`, and those that `each` has for a language are put into every text.
A table `group` makes one benchmark of a file's tasks (`retrieval.Group`).
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any

from lingraft.recipe.decoding import checked
from lingraft.tasks.decoding import decode, task_of
from lingraft.tasks.sentences import Group, Retrieval

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lingraft.tasks.task import Task

BENCHMARKS = (
    "klue", "pawsx", "xnli", "udpos", "panx", "xquad", "mlqa", "tydiqa", "korean", "glue",
)  # fmt: skip
"""Files of this folder, in the order of `lingraft show tasks`."""
RETRIEVALS = ("bucc2018", "tatoeba")
"""Files of tasks without training (`lingraft.tasks.sentences`)."""


@functools.cache
def benchmark(name: str) -> dict[str, Any]:
    """Return the content of a file of this folder."""
    path = resources.files(__name__).joinpath(f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def tasks() -> dict[str, Task]:
    """Return all built-in tasks by name."""
    found = (task_of(decode(table, name)) for name, table in _all(BENCHMARKS))
    return {task.name: task for task in found}


def retrievals() -> dict[str, Retrieval]:
    """Return all built-in records of retrieval by name."""
    found = [checked(Retrieval, table, name) for name, table in _all(RETRIEVALS)]
    return {record.name: record for record in found}


def groups(benchmarks: Sequence[str]) -> dict[str, Group]:
    """Return the tasks of these files that are there in several languages, by name."""
    by_name = {}
    for name in benchmarks:
        if "group" in (content := benchmark(name)):
            languages = [table["language"] for table in tables(content)]
            group = checked(Group, content["group"] | {"languages": languages}, name)
            by_name[group.name] = group
    return by_name


def _all(benchmarks: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, table) for name in benchmarks for table in tables(benchmark(name)))


def tables(benchmark: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the tables of a benchmark's tasks, each complete."""
    top = {key: value for key, value in benchmark.items() if key not in ("tasks", "group", "each")}
    by_language = benchmark.get("each", {})
    for own in benchmark["tasks"]:
        table = _joined(top, own)
        names = table.pop("fill", {})
        for language in table.pop("languages", None) or [table["language"]]:
            values = names | {"lang": language} | by_language.get(language, {})
            yield _filled(table | {"language": language}, values | _filled(names, values))


def _joined(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(top)
    for key, value in own.items():
        if isinstance(value, dict) and value and isinstance(joined.get(key), dict):
            joined[key] = _joined(joined[key], value)
        elif value in ([], {}):
            joined.pop(key, None)
        else:
            joined[key] = value
    return joined


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return value.format_map(names)
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    return value
