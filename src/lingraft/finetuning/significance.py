"""Is a model better than the reference? The paired bootstrap of `stats`, on saved predictions.

Examples that share a passage or premise are drawn together, since they are not independent. Scores
that are no means (F1, correlations) are made anew on every draw.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lingraft.finetuning.compared import answers
from lingraft.stats import FEWEST_BLOCKS, Difference, Resampling
from lingraft.tasks.examples import document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lingraft.finetuning.compared import Comparison, Part, Run
    from lingraft.stats import Array, Key

    Gains = tuple[dict[Key, float], Array | None]

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
    def mark(self) -> str:
        """'*' where the difference is significant at `LEVEL`."""
        p = self.found.larger_p
        return "*" if p is not None and p < LEVEL else ""


def differences(comparison: Comparison, resamples: int = RESAMPLES, seed: int = 0) -> list[Tested]:
    """Test every model against the reference, on every score that both have for a common seed.

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
    by_setting: defaultdict[tuple[str, str, str], list[Gains]] = defaultdict(list)
    languages = Counter(part.setting for part in comparison.parts)
    for part in comparison.parts:
        for (label, key), gains in _gains(part, comparison.reference, resampling).items():
            tested.append(Tested(part.title, key, label, resampling.difference(*gains)))
            if part.languages:
                by_setting[part.setting, label, key].append(gains)
    for (setting, label, key), several in by_setting.items():
        values, drawn = zip(*several, strict=True)
        if languages[setting] == len(several) > 1 and len({tuple(of) for of in values}) == 1:
            means = {run: float(np.mean([of[run] for of in values])) for run in values[0]}
            known = all(gains_RS is not None for gains_RS in drawn)
            mean_RS = np.mean(drawn, axis=0) if known else None
            tested.append(Tested(setting, key, label, resampling.difference(means, mean_RS)))
    return tested


def _gains(part: Part, reference: str, resampling: Resampling) -> dict[tuple[str, str], Gains]:
    """By model and score, what it has more than the reference for the seeds that both have.

    On the whole test set, by seed; and on every draw, None where there are too few documents.
    """
    base = {run.seed: run for run in part.runs.get(reference, ())}
    rivals = {
        label: shared
        for label, runs in part.runs.items()
        if label != reference and (shared := {run.seed: run for run in runs if run.seed in base})
    }
    used = [run for runs in rivals.values() for run in runs.values()]
    used += [base[seed] for seed in {run.seed for run in used}]
    drawn = replicates(part, used, resampling) if used else {}
    gains: dict[tuple[str, str], Gains] = {}
    for label, runs in rivals.items():
        for key in part.keys:
            values: dict[Key, float] = {
                (s,): run.scores[key] - base[s].scores[key] for s, run in runs.items()
            }
            more = [drawn[key, label, s] - drawn[key, reference, s] for s in runs if drawn]
            gains[label, key] = values, np.stack(more, axis=1) if more else None
    return gains


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
        for key, score in answers(part, run)[1].items()
    }
    if len(numbers) < FEWEST_BLOCKS:
        return {}
    samples: defaultdict[tuple[str, str, int], list[Array]] = defaultdict(list)
    for draws_RD in resampling.parts(len(numbers), "documents"):
        weights_RN = draws_RD[:, place_N]
        for name, score in scores.items():
            samples[name].append(score(weights_RN))
    return {name: np.concatenate(values) for name, values in samples.items()}


def marks_of(tested: Iterable[Tested]) -> dict[tuple[str, str], dict[str, str]]:
    """Signs behind the numbers of tables, by title and score, of each model."""
    marks: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for test in tested:
        marks[test.title, test.key][test.label] = test.mark
    return dict(marks)
