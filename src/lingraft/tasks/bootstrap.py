"""Is one model better than another? Paired bootstrap on saved predictions (Koehn 2004).

Test examples are drawn with replacement, the same ones for both models; the share of draws in which
the difference has the other sign tells how much of it is luck of the test set. It says
nothing about luck of the seed: compare several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.errors import DataError
from lingraft.tasks.predictions import align

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lingraft.tasks.examples import Example
    from lingraft.tasks.predictions import Prediction
    from lingraft.tasks.task import Task

    Array = np.ndarray[Any, Any]

CELLS = 4_000_000
"""Draws are made in blocks of about this many numbers."""


@dataclass(frozen=True)
class Difference:
    """First model minus second, in the score's own unit."""

    value: float
    low: float
    """2.5th percentile of the draws."""
    high: float
    """97.5th percentile."""
    p: float
    """Two-sided; never below 2 / (resamples + 1)."""
    resamples: int


def compare_means(
    first_N: Sequence[float] | Array,
    second_N: Sequence[float] | Array,
    resamples: int = 10_000,
    seed: int = 0,
) -> Difference:
    """For scores that are a mean over examples (accuracy, exact match, ROUGE-W).

    Args:
        first_N: the first model's value of every example.
        second_N: the second's, in the same order.
        resamples: how often examples are drawn.
        seed: of the draws.

    Raises:
        DataError: the numbers of examples differ, or there are none.
    """
    gain_N = np.asarray(first_N, dtype=float) - _same_length(first_N, second_N)
    generator = np.random.default_rng(seed)
    block = max(1, CELLS // len(gain_N))
    draws = [
        gain_N[
            generator.integers(len(gain_N), size=(min(block, resamples - done), len(gain_N)))
        ].mean(axis=1)
        for done in range(0, resamples, block)
    ]
    return of_draws(float(gain_N.mean()), np.concatenate(draws))


def _same_length(first: Sequence[float] | Array, second: Sequence[float] | Array) -> Array:
    if len(first) != len(second) or not len(first):
        raise DataError(
            f"cannot compare {len(first)} with {len(second)} values; both models must be scored on "
            "the same examples, at least one"
        )
    return np.asarray(second, dtype=float)


def compare(
    examples: Sequence[Example],
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    score: Callable[[Sequence[Example], Sequence[Prediction]], float],
    resamples: int = 1_000,
    seed: int = 0,
) -> Difference:
    """For any score of a whole test set (F1, correlation).

    Args:
        examples: of the test set.
        first: predictions of the first model, in the examples' order.
        second: of the second.
        score: of examples and predictions, which may repeat.
        resamples: how often examples are drawn; each takes two scores.
        seed: of the draws.

    Raises:
        DataError: the numbers of examples and predictions differ, or there are none.
    """
    if not len(examples) == len(first) == len(second) or not examples:
        raise DataError(
            f"cannot compare {len(first)} with {len(second)} predictions "
            f"of {len(examples)} examples"
        )
    generator = np.random.default_rng(seed)
    draws = []
    for _ in range(resamples):
        chosen = generator.integers(len(examples), size=len(examples)).tolist()
        some = [examples[i] for i in chosen]
        draws.append(
            score(some, [first[i] for i in chosen]) - score(some, [second[i] for i in chosen])
        )
    return of_draws(score(examples, first) - score(examples, second), np.asarray(draws))


def compare_on(
    task: Task,
    examples: Sequence[Example],
    first: Iterable[Prediction],
    second: Iterable[Prediction],
    key: str,
    resamples: int = 1_000,
    seed: int = 0,
) -> Difference:
    """`compare` on one score of a task, from predictions as they were saved.

    Raises:
        DataError: the task has no such score, or predictions and examples do not belong together.
    """
    sides = align(examples, first), align(examples, second)
    known = task.score_aligned(examples, sides[0])
    if key not in known:
        raise DataError(f"{task.name} has no score {key!r}; it has {', '.join(sorted(known))}")
    return compare(
        examples,
        *sides,
        lambda some, said: task.score_aligned(some, said)[key],
        resamples=resamples,
        seed=seed,
    )


def of_draws(value: float, draws: Array) -> Difference:
    """The interval of a difference and its two-sided p, from draws of it.

    p is twice the smaller share of draws on one side of zero, the sample itself counted in.

    Args:
        value: of the sample.
        draws: [R] of the bootstrap.
    """
    n = len(draws)
    below, above = int((draws <= 0).sum()), int((draws >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (n + 1))
    low, high = np.percentile(draws, [2.5, 97.5])
    return Difference(value, float(low), float(high), p, n)
