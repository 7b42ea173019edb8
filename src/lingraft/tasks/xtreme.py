"""XTREME's averages over tasks, in percent; of languages: `finetuning.compared`."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.tasks import GROUPS, RETRIEVAL_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.tasks.sentences import Group

NINE = ("xnli", "pawsx", "udpos", "panx", "xquad", "mlqa", "tydiqa", "bucc2018", "tatoeba")
"""XTREME's tasks."""
SEVEN = NINE[:7]
"""Tasks that are fine-tuned, which table 1 of MetaXLM averages."""
GROUP_OF: dict[str, Group] = {task: (GROUPS | RETRIEVAL_GROUPS)[task] for task in NINE}


def transfer_gap(by_language: Mapping[str, float], train: Sequence[str]) -> float:
    """Return how much better the training language is than the mean of the others.

    Args:
        by_language: language → one score; those of `train` and another one.
        train: the training language; of several their mean counts.
    """
    others = fmean(score for language, score in by_language.items() if language not in train)
    return fmean(by_language[language] for language in train) - others


def category_averages(by_task: Mapping[str, float]) -> dict[str, float]:
    """Return the mean of each of XTREME's four groups of tasks of which all tasks are there.

    Args:
        by_task: task → its one number, averaged over languages.
    """
    members: dict[str, list[str]] = {}
    for task in NINE:
        members.setdefault(GROUP_OF[task].category, []).append(task)
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
