"""Where sources stand after training on one target: only what intervals tell apart is ranked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from studies.analysis import difference
from studies.metrics import BITS
from studies.results import collect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from studies.results import Group
    from studies.rows import AnyRow

    from lingraft.stats import Resampling

AXIS = "source.model"


@dataclass(frozen=True)
class Standing:
    """Where a candidate stands."""

    candidate: str
    bits: float
    """Per character of the held-out words, mean over the seeds."""
    rank: int
    """1 + how many candidates are better with an interval that does not hold 0."""
    ahead_of: tuple[str, ...]
    """Candidates that are worse with such an interval."""


def by_candidate(rows: Iterable[AnyRow]) -> dict[str, Group]:
    """Return the groups by candidate; of seeds that failed nothing is there."""
    groups = [group for group in collect(rows).groups if group.rows(BITS)]
    return {str(group.cells[0].end.axes[AXIS]): group for group in groups}


def standings(groups: Mapping[str, Group], resampling: Resampling) -> list[Standing]:
    """Rank candidates by bits per character, as far as intervals of differences tell them apart.

    The draws are the same for all: blocks of the test text and seeds, in pairs (`stats`).

    Args:
        groups: by candidate, with bits per character over the same words.
        resampling: how intervals are drawn.
    """
    worse: dict[str, list[str]] = {name: [] for name in groups}
    means = {name: group.mean(BITS) or math.inf for name, group in groups.items()}
    names = sorted(groups, key=means.__getitem__)
    for at, name in enumerate(names):
        for other in names[at + 1 :]:
            result = difference(groups[name], groups[other], BITS, resampling)
            if result.high is not None and result.high < 0:
                worse[name].append(other)
            elif result.low is not None and result.low > 0:
                worse[other].append(name)
    ranking = [
        Standing(
            name,
            means[name],
            1 + sum(name in rivals for rivals in worse.values()),
            tuple(worse[name]),
        )
        for name in names
    ]
    return sorted(ranking, key=lambda standing: (standing.rank, standing.bits))


def verdict(ranking: Sequence[Standing]) -> str:
    """Say what the intervals allow to say of two candidates or more."""
    first = [standing.candidate for standing in ranking if standing.rank == 1]
    rest = [standing for standing in ranking if standing.rank > 1]
    if not rest:
        return f"No candidate can be told from the others: {_listed(first)} tie."
    if len(first) == 1:
        others = [one.candidate for one in rest if one.candidate not in ranking[0].ahead_of]
        if others:
            return (
                f"No candidate is ahead of {first[0]} ({ranking[0].bits:.3f} bits per character), "
                f"but its difference to {_listed(others)} may be luck."
            )
        return (
            f"{first[0]} is best of {len(ranking)}: every interval of its difference to another "
            f"candidate lies below 0 ({ranking[0].bits:.3f} bits per character)."
        )
    are = "is" if len(rest) == 1 else "are"
    behind = _listed(standing.candidate for standing in rest)
    return f"{_listed(first)} tie for the first place; {behind} {are} behind one of them or more."


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
