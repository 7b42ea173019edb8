"""Alignment error rate, precision and recall over a corpus, and their intervals; no torch here.

Shape letters: B sentences, R resamples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lingraft.crosslingual.links import Gold, Link

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Counts:
    """How many links there are in each sentence."""

    predicted_B: Array
    sure_B: Array
    found_sure_B: Array
    """Predicted ones that are sure."""
    found_possible_B: Array
    """Predicted ones that are possible."""

    @classmethod
    def of(cls, predicted: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> Counts:
        """The counts of predictions, sentence by sentence."""
        rows = []
        for links, right in zip(predicted, gold, strict=True):
            own = frozenset(links)
            hits = (len(own & right.sure), len(own & right.possible))
            rows.append((len(own), len(right.sure), *hits))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return cls(*table.T)

    def between(self, begin: int, end: int | None) -> Counts:
        """Those of some sentences."""
        return Counts(*(column_B[begin:end] for column_B in vars(self).values()))

    def precision(self) -> float | None:
        """Share of the predicted links that are possible; None where none is predicted."""
        predicted = self.predicted_B.sum()
        return float(self.found_possible_B.sum() / predicted) if predicted else None

    def recall(self) -> float | None:
        """Share of the sure links that are predicted; None where none is sure."""
        sure = self.sure_B.sum()
        return float(self.found_sure_B.sum() / sure) if sure else None

    def error_rate(self) -> float:
        """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), 0 where there are no links at all.

        Source: Och and Ney 2003, eq. 29; SPEC F.3.
        """
        return float(self.error_rates(np.ones((1, len(self.sure_B))))[0])

    def error_rates(self, draws_RB: Array) -> Array:
        """[R] The rate of each resample.

        Args:
            draws_RB: how often each resample draws each sentence.
        """
        hits_R = draws_RB @ (self.found_sure_B + self.found_possible_B)
        all_R = draws_RB @ (self.predicted_B + self.sure_B)
        return np.where(all_R > 0, 1 - hits_R / np.maximum(all_R, 1), 0.0)
