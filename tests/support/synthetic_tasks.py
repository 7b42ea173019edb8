"""Rows of tasks whose truth is known: accuracy that rises by four points a doubling of the data."""

import math

import numpy as np
from synthetic_study import EFFICIENCY, cell_rows, common_of

from lingraft.study.rows import Score, TaskRow

ACCURACY = "task/nsmc/accuracy"
BLOCKS = 50
SIZES = (1_000, 4_000, 16_000, 64_000)


def accuracy(sentences, efficiency=1.0):
    """Per cent, after training on so many sentences."""
    return 50 + 4 * math.log2(efficiency * sentences / 500)


def of_seed(seed, method):
    """Points of a seed of training: not the same to each method, as they never are."""
    return seed + (0.01 * (2 * seed - 1) if method == "scratch" else 0.0)


def task_row(common, task, score, value, seed=0, *, fingerprint="t", masks="m", blocks=True):
    shared = np.random.default_rng(7).normal(0, 3, BLOCKS)
    own = np.random.default_rng([seed, len(common["cell"])]).normal(0, 1, BLOCKS)
    worth = (value + shared + own - (shared + own).mean()) / 100
    name = f"task/{task}/{score}"
    one = Score(
        metric=name, value=value, n=1_000, masks=masks,
        blocks=tuple((20 * float(share), 20.0) for share in worth) if blocks else None,
    )  # fmt: skip
    return TaskRow(
        **common, task=task, task_fingerprint=fingerprint, seed=seed, status="done", scores=(one,),
        shown=(name,), splits="official", train_examples=500, seconds=9.0,
        rules={"most frequent label": {score: 50.2}},
    )  # fmt: skip


def task_rows(methods=("scratch", "xpt"), sizes=SIZES, seeds=(0, 1)):
    return [
        task_row(
            common_of(method, size, seed), "nsmc", "accuracy",
            accuracy(size, EFFICIENCY[method]) + of_seed(seed, method) + 0.1 * tuning, tuning,
        )
        for method in methods for size in sizes for seed in seeds for tuning in (0, 1, 2)
    ]  # fmt: skip


def floor_rows():
    common = common_of("untrained", None, 0)
    return [*cell_rows("untrained", None, 0, 6.5), task_row(common, "nsmc", "accuracy", 50.0)]
