"""XTREME's averages over tasks, in percent (SPEC C.1); of languages: `comparison.across`."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.errors import DataError
from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.tasks.group import Group

NINE = ("xnli", "pawsx", "udpos", "panx", "xquad", "mlqa", "tydiqa", "bucc2018", "tatoeba")
"""XTREME's tasks."""
SEVEN = NINE[:7]
"""Those that are fine-tuned, which table 1 of MetaXLM averages."""


def group_of(task: str) -> Group:
    """One of the nine, by name.

    Raises:
        DataError: it is none of them.
    """
    if task not in NINE:
        raise DataError(f"{task!r} is none of XTREME's tasks, which are {', '.join(NINE)}")
    return (GROUPS | RETRIEVAL_GROUPS)[task]


def transfer_gap(by_language: Mapping[str, float], train: str | Sequence[str] = "en") -> float:
    """How much better the training language is than the mean of the others.

    Args:
        by_language: language → one score.
        train: the training language; of several their mean counts.

    Raises:
        DataError: the training language or all others are missing.
    """
    trained = (train,) if isinstance(train, str) else tuple(train)
    other_scores = [score for language, score in by_language.items() if language not in trained]
    if not trained or not set(trained) <= by_language.keys() or not other_scores:
        raise DataError(
            f"a transfer gap needs the training language {', '.join(trained)} and another; "
            f"there are scores of {', '.join(by_language) or 'none'}"
        )
    return fmean(by_language[language] for language in trained) - fmean(other_scores)


def category_averages(by_task: Mapping[str, float]) -> dict[str, float]:
    """The mean of each of XTREME's four groups of tasks of which all tasks are there.

    Args:
        by_task: task → its one number, averaged over languages.
    """
    members: dict[str, list[str]] = {}
    for task in NINE:
        members.setdefault(group_of(task).category, []).append(task)
    return {
        category: fmean(by_task[task] for task in tasks)
        for category, tasks in members.items()
        if all(task in by_task for task in tasks)
    }


def average(by_task: Mapping[str, float], tasks: Iterable[str] = NINE) -> float | None:
    """XTREME's average; None if one of the tasks is missing.

    Args:
        by_task: task → its one number, averaged over languages.
        tasks: that count; `SEVEN` gives the average of MetaXLM's table 1.
    """
    names = list(tasks)
    return fmean(by_task[task] for task in names) if set(names) <= by_task.keys() else None
