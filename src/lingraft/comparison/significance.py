"""Is a model better than the reference? The paired bootstrap of `stats`, on saved predictions.

Examples that share a passage or premise are drawn together, since they are not independent. Scores
that are no means (F1, correlations) are made anew on every draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.comparison.collect import answers
from lingraft.stats import Difference, Resampling
from lingraft.tasks.examples import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.comparison.collect import Comparison, Part, Run
    from lingraft.stats import Array, Key

RESAMPLES = 1_000
LEVEL = 0.05


@dataclass(frozen=True)
class Tested:
    """A model less the reference on one score."""

    title: str
    """Of the task."""
    key: str
    label: str
    found: Difference

    @property
    def seeds(self) -> int:
        """That both have."""
        return self.found.seeds

    @property
    def mark(self) -> str:
        """'*' where the difference is significant at `LEVEL`."""
        return "*" if self.found.p is not None and self.found.p < LEVEL else ""


def replicates(
    part: Part, runs: Iterable[Run], resampling: Resampling
) -> dict[tuple[str, str, int], Array]:
    """[R] By score, label and seed: what each run scores on every draw of documents."""
    numbers: dict[str, int] = {}
    place_N = [numbers.setdefault(document(one), len(numbers)) for one in part.examples]
    scores = {
        (key, run.label, run.seed): score
        for run in runs
        for key, score in answers(part, run).scores.items()
    }
    drawn: dict[tuple[str, str, int], list[Array]] = {name: [] for name in scores}
    for draws_RD in resampling.parts(len(numbers), "documents"):
        weights_RN = draws_RD[:, place_N]
        for name, score in scores.items():
            drawn[name].append(score(weights_RN))
    return {name: np.concatenate(values) for name, values in drawn.items()}


def differences(comparison: Comparison, resamples: int = RESAMPLES, seed: int = 0) -> list[Tested]:
    """Every model less the reference, on every score that both have for a common seed.

    Args:
        comparison: what is compared.
        resamples: how many draws.
        seed: of the draws.

    Raises:
        DataError: predictions are missing, or do not give the saved scores.
    """
    resampling, tested = Resampling(resamples, seed), []
    for part in comparison.parts:
        base = {run.seed: run for run in part.runs.get(comparison.reference, ())}
        rivals = {
            label: shared
            for label, runs in part.runs.items()
            if label != comparison.reference
            and (shared := {run.seed: run for run in runs if run.seed in base})
        }
        used = [run for runs in rivals.values() for run in runs.values()]
        used += [base[one] for one in {run.seed for run in used}]
        drawn = replicates(part, used, resampling) if used else {}
        for label, runs in rivals.items():
            for key in part.keys:
                gains: dict[Key, float] = {
                    (one,): run.scores[key] - base[one].scores[key] for one, run in runs.items()
                }
                gains_RS = np.stack(
                    [drawn[key, label, n] - drawn[key, comparison.reference, n] for n in runs],
                    axis=1,
                )
                found = resampling.difference(gains, gains_RS)
                tested.append(Tested(part.title, key, label, found))
    return tested
