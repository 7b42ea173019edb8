"""Rows of models that differ in the seed alone: mean, deviation, blocks, paired differences.

Shape letters: R resamples, S runs, B blocks, N examples.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lingraft.evaluation.records import BLOCKS
from lingraft.stats import FEWEST_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingraft.report.row import Blocks, Score
    from lingraft.stats import Array, Key, Resampling

    Rows = Mapping[Key, Score]
    "By seed; of fine-tuned models by that of training and that of fine-tuning."
    Gains = tuple[dict[Key, float], Array | None]
    "On the whole test set by run, and on every draw of its blocks [R, S]; None without blocks."
    Scale = Callable[[Array], Array]


def percent(mean: Array) -> Array:
    """Return shares in per cent."""
    return 100 * mean


def mean(rows: Rows) -> float | None:
    """Return the mean over the seeds of training, of each its mean over fine-tunings."""
    by_seed: dict[int, list[float]] = {}
    for key, row in rows.items():
        by_seed.setdefault(key[0], []).append(row.value)
    return fmean(map(fmean, by_seed.values())) if by_seed else None


def deviation(rows: Rows) -> float | None:
    """Return the sample standard deviation over all runs; None for one."""
    values = [row.value for row in rows.values()]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def shared_blocks(rows: Sequence[Score]) -> Array | None:
    """[B] Return which blocks hold something for every row.

    None where a row has no blocks, or all share few.
    """
    if len({len(row.blocks or ()) for row in rows}) > 1 or not rows[0].blocks:
        return None
    counts = np.array([[count for _, count in row.blocks or ()] for row in rows])
    shared: Array = np.asarray((counts > 0).all(axis=0))
    return shared if shared.sum() >= FEWEST_BLOCKS else None


def replicates(rows: Sequence[Score], scale: Scale, used_B: Array, resampling: Resampling) -> Array:
    """[R, S] Return the value of each row, once for each resample of the blocks."""
    blocks_SB2 = np.array([row.blocks for row in rows])[:, used_B]
    draws_RB = resampling.draws(int(used_B.sum()), "blocks")
    return scale((draws_RB @ blocks_SB2[..., 0].T) / (draws_RB @ blocks_SB2[..., 1].T))


def gains(ours: Rows, theirs: Rows, scale: Scale, resampling: Resampling) -> Gains | None:
    """Return what models have more than others, for the seeds that both have; None without one.

    Args:
        ours: a fine-tuned model is paired with that of equal seeds of training and fine-tuning.
        theirs: what they are measured against.
        scale: what becomes of the mean of the blocks.
        resampling: the same blocks are drawn for both.
    """
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    values = {key: ours[key].value - theirs[key].value for key in common}
    sides = [[side[key] for key in common] for side in (ours, theirs)]
    used_B = shared_blocks([row for rows in sides for row in rows])
    if used_B is None:
        return values, None
    first_RS, second_RS = (replicates(rows, scale, used_B, resampling) for rows in sides)
    return values, first_RS - second_RS


def jackknife(
    blocks_N: Sequence[int], functions: Mapping[str, Scale], values: Mapping[str, float]
) -> dict[str, Blocks]:
    """Return values of blocks of a test set whose mean is the score, whatever it is.

    Resampling them stands for resampling the examples and scoring anew (Efron & Tibshirani 1993,
    An Introduction to the Bootstrap, chapter 11): a block is worth as much more than the mean as
    the score loses without it. Shares, not per cent. Nothing of few blocks.

    Args:
        blocks_N: which of `BLOCKS` each example is in.
        functions: by score, its values in per cent from weights [R, N] of the examples.
        values: the scores.
    """
    present, place_N = np.unique(blocks_N, return_inverse=True)
    if len(present) < FEWEST_BLOCKS:
        return {}
    without_BN = (np.arange(len(present))[:, None] != place_N).astype(float)
    shares = {}
    for name, function in functions.items():
        left_B = function(without_BN)
        worth_B = values[name] + (len(present) - 1) * (left_B.mean() - left_B)
        blocks = [(0.0, 0.0)] * BLOCKS
        for block, worth in zip(present, worth_B.tolist(), strict=True):
            blocks[block] = (round(worth / 100, 9), 1.0)
        shares[name] = tuple(blocks)
    return shares
