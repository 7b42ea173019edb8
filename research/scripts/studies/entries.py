"""The cells of a study's tables: how names, means, deviations and differences are written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lingraft.report import numbers
from lingraft.report.table import TableCell
from studies.metrics import TASK, metric_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from studies.analysis import Difference
    from studies.metrics import Metric
    from studies.results import Group

MIXED = "§"


def named(group: Group) -> str:
    """The label of a group, marked where its seeds were trained in different precision."""
    return group.label + (MIXED if len(set(group.precisions.values())) > 1 else "")


def mixed_means(groups: Iterable[Group]) -> list[str]:
    """A note for every group whose means are over seeds of different precision."""
    notes = []
    for group in groups:
        if named(group) != group.label:
            seeds = ", ".join(f"{seed} {name}" for seed, name in group.precisions.items())
            notes.append(
                f"{MIXED} {group.label}: trained in different precision (seed {seeds}); mean and "
                "deviation hold that too."
            )
    return notes


MIXED_PAIRS = f"{MIXED} the two were trained in different precision at one seed or more."


def spread(group: Group, metric: str) -> TableCell:
    """Mean ± sample standard deviation over the seeds, which is left out for a single one."""
    record, mean, deviation = metric_named(metric), group.mean(metric), group.deviation(metric)
    if mean is None or deviation is None:
        return TableCell(record.show(mean))
    return TableCell(record.show(mean), f"± {like(mean, deviation, record)}")


def like(mean: float, value: float, record: Metric) -> str:
    """A value with as many decimals as the mean that it stands beside."""
    return numbers.fixed(value, len(record.show(mean).partition(".")[2]))


def interval(gap: Difference, mean: float, metric: str) -> TableCell:
    """A difference as `−118.2 [−130.1, −110.4] p < 0.001, over 3 seeds 0.023`.

    With one seed, `p < 0.001, text alone`.
    """
    record = metric_named(metric)
    value = TableCell(_signed(gap.value, mean, record), mark=MIXED if gap.mixed else "")
    if gap.low is None or gap.high is None or gap.p is None:
        return value
    low, high = (_signed(bound, mean, record) for bound in (gap.low, gap.high))
    return replace(value, under=f"[{low}, {high}] {_tested(gap, gap.p, metric)}")


def _tested(gap: Difference, p: float, metric: str) -> str:
    """The bootstrap's p, and what it is of."""
    if gap.trained == 1:
        tuned = metric.startswith(TASK) and gap.seeds > 1
        return f"{numbers.probability(p)}, text {'and fine-tunings ' if tuned else ''}alone"
    return numbers.tested(p, gap.p_seeds, gap.trained)


def _signed(value: float, mean: float, record: Metric) -> str:
    return numbers.with_sign(value, like(mean, abs(value), record))
