"""Is a model better than the reference? The paired bootstrap of `stats`, on saved predictions.

Examples that share a passage or premise are drawn together, since they are not independent. Scores
that are no means (F1, correlations) are made anew on every draw.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.comparison.collect import answers
from lingraft.stats import FEWEST_BLOCKS, Difference, Resampling
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
        p = self.found.larger_p
        return "*" if p is not None and p < LEVEL else ""


def replicates(
    part: Part, runs: Iterable[Run], resampling: Resampling
) -> dict[tuple[str, str, int], Array]:
    """[R] By score, label and seed: what each run scores on every draw of documents.

    Nothing of a test set of fewer than `FEWEST_BLOCKS` documents: draws of so few tell too little.
    """
    numbers: dict[str, int] = {}
    place_N = [numbers.setdefault(document(example), len(numbers)) for example in part.examples]
    scores = {
        (key, run.label, run.seed): score
        for run in runs
        for key, score in answers(part, run).scores.items()
    }
    if len(numbers) < FEWEST_BLOCKS:
        return {}
    samples: dict[tuple[str, str, int], list[Array]] = {name: [] for name in scores}
    for draws_RD in resampling.parts(len(numbers), "documents"):
        weights_RN = draws_RD[:, place_N]
        for name, score in scores.items():
            samples[name].append(score(weights_RN))
    return {name: np.concatenate(values) for name, values in samples.items()}


@dataclass(frozen=True)
class _Gains:
    """What a model has more than the reference on one score, for the seeds that both have."""

    values: dict[Key, float]
    """On the whole test set, by seed."""
    drawn_RS: Array | None
    """On every draw; None where the test set has too few documents."""


def differences(comparison: Comparison, resamples: int = RESAMPLES, seed: int = 0) -> list[Tested]:
    """Every model less the reference, on every score that both have for a common seed.

    Of a task in several languages the mean over the languages is tested too, under the title of the
    part without a language. Where the languages have the same number of passages, as parallel test
    sets have, their draws are the same.

    Args:
        comparison: what is compared.
        resamples: how many draws.
        seed: of the draws.

    Raises:
        DataError: predictions are missing, or do not give the saved scores.
    """
    resampling, tested = Resampling(resamples, seed), []
    gains: dict[str, dict[tuple[str, str], list[_Gains]]] = {}
    parts = Counter(part.setting for part in comparison.parts if part.languages)
    for part in comparison.parts:
        for (label, key), gain in _gains(part, comparison.reference, resampling).items():
            difference = resampling.difference(gain.values, gain.drawn_RS)
            tested.append(Tested(part.title, key, label, difference))
            if part.languages:
                gains.setdefault(part.setting, {}).setdefault((label, key), []).append(gain)
    for setting, of_setting in gains.items():
        for (label, key), several in of_setting.items():
            seeds = {tuple(gain.values) for gain in several}
            if parts[setting] == len(several) > 1 and len(seeds) == 1:
                values = {
                    seed_key: float(np.mean([gain.values[seed_key] for gain in several]))
                    for seed_key in several[0].values
                }
                draws = [gain.drawn_RS for gain in several if gain.drawn_RS is not None]
                mean_RS = np.mean(draws, axis=0) if len(draws) == len(several) else None
                difference = resampling.difference(values, mean_RS)
                tested.append(Tested(setting, key, label, difference))
    return tested


def _gains(part: Part, reference: str, resampling: Resampling) -> dict[tuple[str, str], _Gains]:
    """By model and score."""
    base = {run.seed: run for run in part.runs.get(reference, ())}
    rivals = {
        label: shared
        for label, runs in part.runs.items()
        if label != reference and (shared := {run.seed: run for run in runs if run.seed in base})
    }
    used = [run for runs in rivals.values() for run in runs.values()]
    used += [base[seed] for seed in {run.seed for run in used}]
    samples = replicates(part, used, resampling) if used else {}
    return {
        (label, key): _Gains(
            {(seed,): run.scores[key] - base[seed].scores[key] for seed, run in runs.items()},
            np.stack([samples[key, label, n] - samples[key, reference, n] for n in runs], axis=1)
            if samples
            else None,
        )
        for label, runs in rivals.items()
        for key in part.keys
    }
