"""Tasks that exist in several languages: one record a language, called NAME-LANGUAGE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.paths import path_of
from lingraft.recipe.decoding import load
from lingraft.tasks import GROUPS, TASKS, catalogue
from lingraft.tasks.definition import decode, task_of
from lingraft.tasks.splits import find_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lingraft.tasks import Task

ALL = "all"
"""As a list of languages: those whose files are here."""


@dataclass(frozen=True)
class Family:
    """A task in several languages."""

    name: str
    tasks: Mapping[str, Task]
    """By language."""

    def check(self, languages: Sequence[str], key: str) -> None:
        """Make sure that the task exists in these languages.

        Raises:
            RecipeError: it does not.
        """
        for language in languages:
            if language not in self.tasks:
                raise RecipeError(
                    f"{key}: {self.name} has no language {language!r}; "
                    f"it has {', '.join(self.tasks)}"
                )


def families() -> dict[str, Family]:
    """Return the built-in tasks that have several languages, by name."""
    return {
        name: Family(name, {code: TASKS[group.member(code)] for code in group.languages})
        for name, group in GROUPS.items()
    }


def named(name: str, base: Path, train: Sequence[str]) -> Family:
    """Return the family of this name, or that of a TOML file of a user's own.

    Args:
        name: as `lingraft show tasks` has it, without the language.
        base: the folder that a file's path is relative to.
        train: languages whose training files are there; (ALL,) for those that have one.

    Raises:
        RecipeError: there is none, or the file is not valid.
        DataError: a training file, which says the labels, cannot be read.
    """
    if name.endswith(".toml"):
        return _own(base / path_of(name), train)
    by_name = families()
    if name in by_name:
        return by_name[name]
    reason = "is in one language" if name in TASKS else "is not known"
    raise RecipeError(
        f"tasks: {name} {reason}; with train_languages (--train-language) give one of "
        f"{', '.join(by_name)}, or the TOML file of your own with languages = [...] "
        "(docs/guides/fine-tune.md)"
    )


def _own(path: Path, train: Sequence[str]) -> Family:
    """Read a user's own task, with `languages` and `{lang}` in the names of its files."""
    table, base = load(path), path.resolve().parent
    languages: Any = table.get("languages")
    is_list = isinstance(languages, list) and all(isinstance(code, str) for code in languages)
    if not is_list or len(set(languages)) != len(languages) or len(languages) < 2:
        raise RecipeError(
            f"{path}: languages is {languages}; a task in several languages has two or more, each "
            'once, as ["en", "de"], and {lang} in the names of its files'
        )
    name = str(table.get("name", path.stem))
    try:
        filled = list(catalogue.tables(table | {"name": f"{name}-{{lang}}", "tasks": [{}]}))
    except (KeyError, ValueError, IndexError):
        raise RecipeError(
            f"{path}: braces in a text stand for the language, {{lang}}, and for nothing else"
        ) from None
    tables = {entry["language"]: entry for entry in filled}
    definitions = {code: decode(entry, str(path)) for code, entry in tables.items()}
    trained = [code for code in train if code in tables]
    if tuple(train) == (ALL,):
        parts = {code: table.files.train or () for code, table in definitions.items()}
        trained = [code for code in tables if any(find_part(p, base, ()) for p in parts[code])]
    learnt = [task_of(definitions[code], base) for code in trained]
    labels = {label for task in learnt for label in task.labels}
    more: dict[str, Any] = {}
    if labels and "labels" not in table:  # found in the training files: all languages have them
        more = {"labels": sorted(labels, key=lambda label: (label == "O", label))}
    if learnt and learnt[0].kind == "tagging" and "metrics" not in table:
        more["metrics"] = min((list(task.metrics) for task in learnt), key=len)  # if any is IOB1
    tasks = {
        language: task_of(decode(entry | more, str(path)), base, read_tags=False)
        for language, entry in tables.items()
    }
    return Family(name, tasks)
