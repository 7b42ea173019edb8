"""Scores of some models on several sets and on their mean, and how sure they are. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.report import numbers
from lingraft.report.table import Column, table
from lingraft.stats import FEWEST_BLOCKS, interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.report.table import Table
    from lingraft.stats import Array, Difference, Resampling


class Scores(ABC):
    """Of models that have a `label` and a `layer`, in percent; all are drawn the same sentences.

    Args:
        names: of the sets.
        whole: what the mean over them is called.
        resampling: of the sentences.
    """

    def __init__(self, names: Sequence[str], whole: str, resampling: Resampling) -> None:
        self.names, self.whole, self.resampling = list(names), whole, resampling
        self.columns = [*self.names, *([whole] if len(self.names) > 1 else [])]
        self._drawn: dict[tuple[str, int | None, str], Array] = {}

    @abstractmethod
    def on_set(self, one: Any, name: str) -> float:
        """A model's score on a set."""

    @abstractmethod
    def on_draws(self, one: Any, name: str) -> Array:
        """[R] The same on every draw of the set's sentences."""

    @abstractmethod
    def number(self, one: Any, name: str) -> int:
        """How many sentences of the set are scored."""

    def value(self, one: Any, name: str) -> float:
        """The score on a set, or the mean over the sets."""
        names = self.names if name == self.whole else [name]
        return float(np.mean([self.on_set(one, each) for each in names]))

    def drawn(self, one: Any, name: str) -> Array:
        """[R] As `value`, on every draw."""
        key = (one.label, one.layer, name)
        if key not in self._drawn:
            whole = name == self.whole
            each = [self.drawn(one, each) for each in self.names] if whole else []
            self._drawn[key] = np.mean(each, axis=0) if whole else self.on_draws(one, name)
        return self._drawn[key]

    def bounds(self, one: Any, name: str) -> str:
        """The 95 % interval."""
        return numbers.between(*interval(self.drawn(one, name)), 1)

    def difference(self, first: Any, other: Any, name: str) -> Difference:
        """How much higher `other` scores; of very few sentences without interval and p."""
        gain = self.value(other, name) - self.value(first, name)
        names = self.names if name == self.whole else [name]
        few = min(self.number(first, each) for each in names) < FEWEST_BLOCKS
        gains_R = self.drawn(other, name) - self.drawn(first, name)
        return self.resampling.difference({(0,): gain}, None if few else gains_R[:, None])

    def differences(self, first: Any, others: Sequence[Any], what: str, title: str) -> Table:
        """Each other one less the first, on every set (which is a `what`) and their mean."""
        rows, notes = [], list[str]()
        for name in self.columns:
            for one in others:
                found = self.difference(first, one, name)
                bounds = numbers.between(found.low, found.high, 1, sign=True) or numbers.ABSENT
                if found.p is None:
                    notes = [f"Fewer than {FEWEST_BLOCKS} sentences give neither interval nor p."]
                p = numbers.ABSENT if found.p is None else f"{found.p:.4f}"
                rows.append((name, one.label, numbers.signed(found.value, 1), bounds, p))
        head = (Column(what, "text"), Column("model", "text"), "points", "95 % interval", "p")
        return table(f"Less {first.label} ({title})", head, rows, notes)
