"""XTREME's averages: over the scores of a task, over languages, and over tasks (SPEC C.1).

All scores are in percent. A language average has the training language in it, as in XTREME's
tables; a transfer gap compares it with the others (Chi et al. 2021, section 5.1).
"""

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


def mean(scores: Iterable[float]) -> float:
    """The unweighted mean.

    Raises:
        DataError: there is nothing to average.
    """
    values = list(scores)
    if not values:
        raise DataError("no scores to average")
    return fmean(values)


def task_score(task: str, scores: Mapping[str, float]) -> float:
    """The one number of a task: of answers the mean of exact match and F1, else its score.

    Args:
        task: one of the nine.
        scores: by name, of one language or averaged over languages.

    Raises:
        DataError: a score is missing.
    """
    names = group_of(task).scores
    if absent := [name for name in names if name not in scores]:
        raise DataError(f"{task}: has no score {', '.join(absent)}; it has {', '.join(scores)}")
    return mean(scores[name] for name in names)


def language_averages(by_language: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean over languages, the training language included, of each score.

    Args:
        by_language: language → score → value.

    Raises:
        DataError: there is no language, or one lacks a score that another has.
    """
    if not by_language:
        raise DataError("no languages to average over")
    names = dict.fromkeys(name for scores in by_language.values() for name in scores)
    for language, scores in by_language.items():
        if absent := [name for name in names if name not in scores]:
            raise DataError(f"language {language}: has no score {', '.join(absent)}")
    return {name: mean(scores[name] for scores in by_language.values()) for name in names}


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
    return mean(by_language[language] for language in trained) - mean(other_scores)


def category_averages(by_task: Mapping[str, float]) -> dict[str, float]:
    """The mean of each of XTREME's four groups of tasks of which all tasks are there.

    Args:
        by_task: task → its one number (`task_score`), averaged over languages.
    """
    members: dict[str, list[str]] = {}
    for task in NINE:
        members.setdefault(group_of(task).category, []).append(task)
    return {
        category: mean(by_task[task] for task in tasks)
        for category, tasks in members.items()
        if all(task in by_task for task in tasks)
    }


def average(by_task: Mapping[str, float], tasks: Iterable[str] = NINE) -> float | None:
    """XTREME's average; None if one of the tasks is missing.

    Args:
        by_task: task → its one number (`task_score`), averaged over languages.
        tasks: that count; `SEVEN` gives the average of MetaXLM's table 1.
    """
    names = list(tasks)
    return mean(by_task[task] for task in names) if set(names) <= by_task.keys() else None
