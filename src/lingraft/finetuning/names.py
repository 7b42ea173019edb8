"""Names of tasks, splits and trainings across languages in results and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZED = "@"
"""In a task's name, before the number of training examples of a learning curve: `korsts@100`."""
MANY = 8
"""Languages; a name has no more of them."""


def unsized(task: str) -> str:
    """Return the name of a task without the size of its training set."""
    return task.partition(SIZED)[0]


def split_in(split: str, language: str) -> str:
    """Name a split of one of several languages, for scores.json and names of files."""
    return f"{split}-{language}"


def language_of(split: str) -> str:
    """Return the language of `split_in`'s name; empty for a task in one language."""
    return split.partition("-")[2]


def without_language(name: str) -> str:
    """Return the split of `split_in`'s name, or of one in one language."""
    return name.partition("-")[0]


def titled(task: str, split: str) -> str:
    """Return `pawsx (dev)` where splits are told apart; `pawsx` without a split."""
    return f"{task} ({split})" if split else task


def learnt(languages: Sequence[str]) -> str:
    """Name the training languages: `en`, `en+de`, or how many there are."""
    return f"{len(languages)}-languages" if len(languages) > MANY else "+".join(languages)
