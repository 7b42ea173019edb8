"""Rows of tasks whose truth is known: accuracy that rises by four points a doubling of the data."""

import math

import numpy as np
from synthetic_study import EFFICIENCY, cell_rows, common_of

from lingraft.report.row import Score

ACCURACY = "task/nsmc/accuracy"
BLOCKS = 50
SIZES = (1_000, 4_000, 16_000, 64_000)


def accuracy(sentences, efficiency=1.0):
    """Per cent, after training on so many sentences."""
    return 50 + 4 * math.log2(efficiency * sentences / 500)


def of_seed(seed, method):
    """Points of a seed of training: not the same to each method, as they never are."""
    return seed + (0.01 * (2 * seed - 1) if method == "scratch" else 0.0)


def task_row(common, task, score, value, seed=0, *, masks="m", dev=0.0, **axes):
    shared = np.random.default_rng(7).normal(0, 3, BLOCKS)
    own = np.random.default_rng([seed, len(common["model"])]).normal(0, 1, BLOCKS)
    worth = (value + shared + own - (shared + own).mean()) / 100
    return Score(
        model=common["model"], data=task, split="test", metric=score, value=value, n=1_000,
        seed=seed, masks=masks, inputs=f"{common['inputs']} {task} {axes}",
        axes=common["axes"] | axes, facts={"dev": dev},
        blocks=tuple((20 * float(share), 20.0) for share in worth),
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
