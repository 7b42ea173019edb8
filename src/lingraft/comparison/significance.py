"""Is a model better than the reference? Paired bootstrap over test examples and seeds.

Every draw takes the same examples for both models (Koehn 2004) and the same seeds, which both were
fine-tuned with. Examples that share a passage or premise are drawn together, since they are not
independent. With one seed, an interval tells of the test set alone. Shape letters: R draws, S
seeds, N examples, D documents.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.comparison.weighted import weighted
from lingraft.tasks.bootstrap import of_draws
from lingraft.tasks.examples import document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lingraft.comparison.collect import Comparison, Part, Run
    from lingraft.tasks.bootstrap import Difference
    from lingraft.tasks.examples import Example

    Array = np.ndarray[Any, Any]

RESAMPLES = 1_000
LEVEL = 0.05
CELLS = 2_000_000
"""Draws are made in blocks of about this many numbers."""


@dataclass(frozen=True)
class Tested:
    """A model less the reference on one score."""

    title: str
    """Of the task."""
    key: str
    label: str
    found: Difference
    seeds: int
    """That both have."""

    @property
    def mark(self) -> str:
        """'*' where the difference is significant at `LEVEL`."""
        return "*" if self.found.p < LEVEL else ""


def weights(examples: Sequence[Example], resamples: int, seed: int) -> Iterator[Array]:
    """Blocks of [R, N] how often every example is drawn; as many documents as there are."""
    number: dict[str, int] = {}
    place_N = np.array([number.setdefault(document(one), len(number)) for one in examples])
    generator = np.random.default_rng([seed, len(examples), len(number)])
    block = max(1, CELLS // len(examples))
    for done in range(0, resamples, block):
        rows = min(block, resamples - done)
        drawn_RD = generator.integers(len(number), size=(rows, len(number)))
        yield np.stack([np.bincount(one, minlength=len(number))[place_N] for one in drawn_RD])


def replicates(part: Part, run: Run, resamples: int, seed: int = 0) -> dict[str, Array]:
    """[1 + R] by score: the run's on all examples, and on every draw.

    Raises:
        DataError: the run's predictions are missing, or do not give its scores.
    """
    said = run.predictions(part.examples)
    forms = {
        key: weighted(part.task, key, part.examples, said, run.scores[key]) for key in part.keys
    }
    whole = np.ones((1, len(part.examples)))
    found = {key: [form(whole)] for key, form in forms.items()}
    for block in weights(part.examples, resamples, seed):
        drawn_RN = block.astype(float)
        for key, form in forms.items():
            found[key].append(form(drawn_RN))
    return {key: np.concatenate(values) for key, values in found.items()}


def differences(comparison: Comparison, resamples: int = RESAMPLES, seed: int = 0) -> list[Tested]:
    """Every model less the reference, on every score that both have for a common seed.

    Args:
        comparison: what is compared.
        resamples: how many draws.
        seed: of the draws.

    Raises:
        DataError: predictions are missing, or do not give the saved scores.
    """
    tested = []
    for part in comparison.parts:
        base = {run.seed: run for run in part.runs.get(comparison.reference, ())}
        rivals = {
            label: [run for run in runs if run.seed in base]
            for label, runs in part.runs.items()
            if label != comparison.reference
        }
        needed = {run.seed for runs in rivals.values() for run in runs}
        drawn = {one: replicates(part, base[one], resamples, seed) for one in sorted(needed)}
        for label, runs in rivals.items():
            if not runs:
                continue
            own = {run.seed: replicates(part, run, resamples, seed) for run in runs}
            for key in part.keys:
                gains_SR = np.stack([own[one][key] - drawn[one][key] for one in own])
                found = over_seeds(gains_SR, f"{part.title} {key} {label}", seed)
                tested.append(Tested(part.title, key, label, found, len(own)))
    return tested


def over_seeds(gains_SR: Array, name: str, seed: int) -> Difference:
    """The mean over the seeds, with draws of seeds on top of those of examples.

    Args:
        gains_SR: the first column is of all examples.
        name: of what is tested, which the draws of seeds depend on.
        seed: of the draws.
    """
    value = float(gains_SR[:, 0].mean())
    draws_SR = gains_SR[:, 1:]
    seeds, resamples = draws_SR.shape
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    share_SR = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples).T / seeds
    return of_draws(value, (draws_SR * share_SR).sum(0))
