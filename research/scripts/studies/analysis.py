"""Differences between methods, over blocks of the test text and the seeds that both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft import stats
from lingraft.errors import DataError
from lingraft.report import scored
from studies.metrics import TASK, metric_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.stats import Array, Resampling
    from studies.results import Group
    from studies.rows import MetricRow


@dataclass(frozen=True)
class Difference(stats.Difference):
    """How much higher a metric is for one group than for another."""

    mixed: bool
    """Whether the two were trained in different precision at a seed."""


def replicates(
    rows: Sequence[MetricRow], metric: str, used_B: Array, resampling: Resampling
) -> Array:
    """[R, S] The metric of each row, once for each resample.

    Args:
        rows: with blocks.
        metric: its name.
        used_B: which blocks take part.
        resampling: of the blocks.
    """
    return scored.replicates(rows, metric_named(metric).scale, used_B, resampling)


def incomparable(groups: Sequence[Group], metric: str) -> str | None:
    """Why a metric of these groups does not compare; None if it does."""
    missing = [group.label for group in groups if not group.rows(metric)]
    if missing:
        return f"{missing[0]} has no {metric_named(metric).title}"
    if metric.startswith(TASK) or metric_named(metric).by_own:
        tests = {row.masks for group in groups for row in group.rows(metric).values()}
        return None if len(tests) == 1 else f"{metric} was scored on {len(tests)} different tests"
    sets = {group.masks() for group in groups}
    if metric_named(metric).by_tokens and len(sets) > 1:
        names = ", ".join(dict.fromkeys(group.label for group in groups))
        return (
            f"{metric_named(metric).title} of {names} was measured on {len(sets)} different sets "
            "of masked tokens (another vocabulary, text or seed) and does not compare; compare "
            "bits per character"
        )
    return None


def checked(groups: Sequence[Group], metric: str) -> None:
    """Refuse groups that do not compare.

    Raises:
        DataError: with the reason of `incomparable`.
    """
    reason = incomparable(groups, metric)
    if reason is not None:
        raise DataError(reason)


def shared_blocks(rows: Sequence[MetricRow]) -> Array | None:
    """[B] Blocks that hold something for every row; None if a row has no blocks, or all share few.

    Raises:
        DataError: the rows have different numbers of blocks.
    """
    if any(row.blocks is None for row in rows):
        return None
    numbers = {len(row.blocks or ()) for row in rows}
    if len(numbers) > 1:
        raise DataError(
            f"{rows[0].metric}: cells have {' and '.join(map(str, sorted(numbers)))} blocks of "
            "test text, so they were tested on different texts and do not compare; run them again"
        )
    counts = np.array([[count for _, count in row.blocks or ()] for row in rows])
    shared = np.asarray((counts > 0).all(axis=0))
    return shared if shared.sum() >= stats.FEWEST_BLOCKS else None


def difference(group: Group, base: Group, metric: str, resampling: Resampling) -> Difference:
    """How much higher a metric is for `group` than for `base`, over the seeds that both have.

    Of a task, a model is paired with that of equal seeds of training and of fine-tuning.

    Raises:
        DataError: they do not compare, or have no seed in common.
    """
    checked((group, base), metric)
    group_rows, base_rows = group.rows(metric), base.rows(metric)
    common = sorted(group_rows.keys() & base_rows.keys())
    if not common:
        raise DataError(
            f"{group.label} and {base.label} have no seed in common; run both with the same seeds"
        )
    sides = [[side[key] for key in common] for side in (group_rows, base_rows)]
    gains = {key: group_rows[key].value - base_rows[key].value for key in common}
    mixed = any(group.precisions.get(key[0]) != base.precisions.get(key[0]) for key in common)
    used_B = shared_blocks([row for rows in sides for row in rows])
    gains_RS = None
    if used_B is not None:
        values = [replicates(rows, metric, used_B, resampling) for rows in sides]
        gains_RS = values[0] - values[1]
    return Difference(**vars(resampling.difference(gains, gains_RS)), mixed=mixed)
