"""Significance of differences from the reference: the paired bootstrap of `stats` over blocks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.report.scored import gains, percent
from lingraft.stats import Difference, Resampling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.finetuning.compared import Comparison
    from lingraft.report.scored import Gains

RESAMPLES = 1_000
LEVEL = 0.05


@dataclass(frozen=True)
class Tested:
    """A model less the reference on one score."""

    title: str
    """Title of the task."""
    key: str
    label: str
    found: Difference

    @property
    def mark(self) -> str:
        """Return '*' where the difference is significant at `LEVEL`."""
        p = self.found.larger_p
        return "*" if p is not None and p < LEVEL else ""


def differences(comparison: Comparison, resamples: int = RESAMPLES, seed: int = 0) -> list[Tested]:
    """Test every model against the reference, on every score that both have for a common seed.

    Of a task in several languages the mean over the languages is tested too, under the title of the
    part without a language; where languages have the same blocks, as parallel test sets do, their
    draws are the same.

    Args:
        comparison: what is compared.
        resamples: how many draws.
        seed: of the draws.
    """
    resampling, tested = Resampling(resamples, seed), []
    by_setting: defaultdict[tuple[str, str, str], list[Gains]] = defaultdict(list)
    languages = Counter(part.setting for part in comparison.parts)
    for part in comparison.parts:
        for label in (label for label in part.runs if label != comparison.reference):
            for key in part.keys:
                base = part.rows(comparison.reference, key)
                found = gains(part.rows(label, key), base, percent, resampling)
                if found is None:
                    continue
                tested.append(Tested(part.title, key, label, resampling.difference(*found)))
                if part.languages:
                    by_setting[part.setting, label, key].append(found)
    for (setting, label, key), several in by_setting.items():
        values, drawn = zip(*several, strict=True)
        if languages[setting] == len(several) > 1 and len({tuple(of) for of in values}) == 1:
            means = {run: float(np.mean([of[run] for of in values])) for run in values[0]}
            known = all(gains_RS is not None for gains_RS in drawn)
            mean_RS = np.mean(drawn, axis=0) if known else None
            tested.append(Tested(setting, key, label, resampling.difference(means, mean_RS)))
    return tested


def marks_of(tested: Iterable[Tested]) -> dict[tuple[str, str], dict[str, str]]:
    """Return signs behind the numbers of tables, by title and score, of each model."""
    marks: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for test in tested:
        marks[test.title, test.key][test.label] = test.mark
    return dict(marks)
