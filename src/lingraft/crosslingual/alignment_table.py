"""What alignments are worth: error rates, their intervals, rows, tables and the figure; no torch.

Shape letters: R resamples, B sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.crosslingual import by_layer
from lingraft.crosslingual.by_layer import Scores
from lingraft.report import numbers
from lingraft.report.row import Score, Value
from lingraft.report.table import BEST, Cell, row, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lingraft.crosslingual.links import Gold, Link
    from lingraft.report.figure import Figure
    from lingraft.report.table import Table
    from lingraft.stats import Resampling


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

        Source: Och and Ney 2003, eq. 29.
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


Array = np.ndarray[Any, Any]

MEAN = "mean"
SIDES = ("precision", "recall")
COUNTED = ("predicted", "sure", "found_sure", "found_possible")
FACTS = ("tokens", "unknown", "too_long")


@dataclass(frozen=True)
class SetResult:
    """One layer of a model, or a baseline, on one gold set."""

    counts: Counts
    """Of all its sentences."""
    facts: Mapping[str, Any]
    """Of a model: tokens, unknown and too_long."""


@dataclass(frozen=True)
class Result:
    """One layer of a model, or a baseline, on every gold set."""

    label: str
    layer: int | None
    """None for what has none."""
    sets: dict[str, SetResult]
    reference: bool = False
    """No model."""


class Reading(Scores):
    """How results are read: error rates in percent.

    Args:
        names: of the gold sets.
        dev: sentences at the head of each set that choose the layer and are not scored.
        resampling: of the sentences.
        method: its title.
    """

    def __init__(self, names: Sequence[str], dev: int, resampling: Resampling, method: str) -> None:
        super().__init__(names, MEAN, resampling)
        self.dev, self.method = dev, method

    # -- numbers

    def scored(self, result: Result, name: str) -> Counts:
        """The counts of the sentences that are scored."""
        return result.sets[name].counts.between(self.dev, None)

    def _to_choose_by(self, result: Result) -> float:
        """Mean error rate over the sets, on dev where there is one."""
        parts = [result.sets[name].counts.between(0, self.dev or None) for name in self.names]
        return float(np.mean([part.error_rate() for part in parts]))

    def on_set(self, result: Result, name: str) -> float:
        return 100 * self.scored(result, name).error_rate()

    def on_draws(self, result: Result, name: str) -> Array:
        counts = self.scored(result, name)
        rates_R: Array = counts.error_rates(self.resampling.draws(len(counts.sure_B), name))
        return 100 * rates_R

    def number(self, result: Result, name: str) -> int:
        return len(self.scored(result, name).sure_B)

    def chosen(self, results: Sequence[Result]) -> list[Result]:
        """Of each model the layer with the smallest mean rate, on dev where there is one."""
        labels = dict.fromkeys(result.label for result in results)
        return [
            min(
                (result for result in results if result.label == label),
                key=lambda result: (self._to_choose_by(result), result.layer or 0),
            )
            for label in labels
        ]

    # -- rows

    def rows(self, results: Sequence[Result]) -> Iterator[Score]:
        """Yield error rate, precision and recall of every layer and set and of their mean."""
        best = {(result.label, result.layer) for result in self.chosen(results)}
        chosen_on = "dev" if self.dev else "the scored sentences"
        if len(_layers(results)) == 1:
            chosen_on = "given"
        for result in results:
            axes: dict[str, Value] = (
                {} if result.reference else {"layer": result.layer, "method": self.method}
            )
            for name in self.columns:
                low, high = self.interval(result, name)
                n, facts = self._facts(result, name)
                values: dict[str, float | None] = {"aer": self.value(result, name)}
                values |= {side: self._side(result, name, side) for side in SIDES}
                for metric, value in values.items():
                    if value is not None:
                        bounds = {"low": low, "high": high} if metric == "aer" else {}
                        yield Score(
                            model=result.label,
                            data=name,
                            split="test",
                            metric=metric,
                            value=value,
                            n=n,
                            reported=(result.label, result.layer) in best,
                            axes=axes,
                            facts={"chosen_on": chosen_on, **facts, **bounds},
                        )

    def _facts(self, result: Result, name: str) -> tuple[int, dict[str, Any]]:
        """Return how many sentences are scored, and the counts of links; of a mean those of all."""
        names = self.names if name == MEAN else [name]
        n = sum(self.number(result, one) for one in names)
        if name == MEAN:
            return n, {}
        counts, facts = self.scored(result, name), result.sets[name].facts
        links = {key: int(getattr(counts, f"{key}_B").sum()) for key in COUNTED}
        return n, links | {fact: facts[fact] for fact in FACTS if fact in facts}

    def _side(self, result: Result, name: str, side: str) -> float | None:
        """Return precision or recall in per cent."""
        if name == MEAN:
            share = self._average(result, side)
        else:
            share = getattr(self.scored(result, name), side)()
        return None if share is None else 100 * share

    def _average(self, result: Result, metric: str) -> float | None:
        values = [getattr(self.scored(result, name), metric)() for name in self.names]
        return None if None in values else float(np.mean(values))

    # -- tables

    def tables(
        self, results: Sequence[Result], baselines: Mapping[str, str], reference: str | None = None
    ) -> list[Table]:
        """The main table, the differences to a reference, and the means by layer.

        Args:
            results: of every layer and baseline.
            baselines: what is said of each.
            reference: the label of a model or baseline; None takes the first model.
        """
        chosen_results = self.chosen(results)
        layers = _layers(results)
        tables = [self._main(chosen_results, baselines, layers)]
        models = [result for result in chosen_results if not result.reference]
        firsts = [result for result in chosen_results if result.label == reference] or models
        if firsts and len(chosen_results) > 1:
            other_results = [result for result in chosen_results if result is not firsts[0]]
            title = "AER; below 0 is better than it; paired bootstrap over the sentences"
            tables.append(self.differences(firsts[0], other_results, "set", title))
        if len(layers) > 1:
            tables.append(self._by_layer(results))
        return tables

    def _main(
        self, results: Sequence[Result], baselines: Mapping[str, str], layers: Sequence[int]
    ) -> Table:
        best = {name: min(self.value(result, name) for result in results) for name in self.columns}
        rows = []
        for result in results:
            cells = [
                Cell(
                    numbers.fixed(self.value(result, name), 1),
                    self.bounds(result, name),
                    BEST if self.value(result, name) == best[name] and len(results) > 1 else 0,
                )
                for name in self.columns
            ]
            sides = [self._average(result, metric) for metric in SIDES]
            layer = numbers.ABSENT if result.layer is None else str(result.layer)
            rows.append(
                row(
                    result.label,
                    layer,
                    *cells,
                    *map(_percent, sides),
                    role="reference" if result.reference else "",
                )
            )
        title = "Alignment error rate in %, lower is better"
        return table(
            title, ["model", "layer", *self.columns, "precision", "recall"], rows,
            self._notes(results, baselines, layers),
        )  # fmt: skip

    def _notes(
        self, results: Sequence[Result], baselines: Mapping[str, str], layers: Sequence[int]
    ) -> list[str]:
        sizes = ", ".join(f"{name} {self.number(results[0], name):,}" for name in self.names)
        notes = [
            f"Sentences: {sizes}. Brackets: 95 % by a bootstrap over sentences. Precision and "
            "recall are means over the sets."
        ]
        models = [result for result in results if not result.reference]
        if models:
            head = f"the first {self.dev} sentences of every set, which are not scored"
            choice = (
                f"Each model's layer has the smallest mean on {head}."
                if self.dev
                else "Each model's layer has the smallest mean on the very sentences that are "
                "scored: an oracle, better than a layer chosen beforehand."
            )
            if len(layers) == 1:
                choice = f"Layer {layers[0]} was given"
                choice += f"; without {head}." if self.dev else "."
            notes.append(f"Links by {self.method}. {choice}")
        notes += [f"{name}: {note}." for name, note in baselines.items()]
        for result in models:
            long = {name: result.sets[name].facts["too_long"] for name in self.names}
            if text := ", ".join(f"{count} of {name}" for name, count in long.items() if count):
                notes.append(
                    f"{result.label}: sentence pairs longer than it reads, without links: {text}."
                )
        return notes

    # -- by layer

    def _curves(self, results: Sequence[Result]) -> dict[str, dict[int, float]]:
        """By model the mean rate at each layer, in percent."""
        curves: dict[str, dict[int, float]] = {}
        for result in results:
            if result.layer is not None:
                curves.setdefault(result.label, {})[result.layer] = self.value(result, MEAN)
        return curves

    def _by_layer(self, results: Sequence[Result]) -> Table:
        curves = [([label], curve) for label, curve in self._curves(results).items()]
        title = "Mean AER in % by layer; 0 is the embeddings"
        return by_layer.as_table(title, ["model"], curves, min)

    def figure(self, results: Sequence[Result]) -> Figure | None:
        """Mean rate by layer (figure 4 of Chi et al. 2022); None where no model has several."""
        curves = self._curves(results)
        if not any(len(curve) > 1 for curve in curves.values()):
            return None
        caption = (
            f"Mean alignment error rate by layer over {', '.join(self.names)}; layer 0 is the "
            "embeddings. Dotted: what needs no model."
        )
        levels = {r.label: self.value(r, MEAN) for r in results if r.reference}
        return by_layer.as_figure("aer", curves, "alignment error rate (%)", caption, levels)


def _layers(results: Sequence[Result]) -> list[int]:
    """Those of the models; a single one was asked for."""
    return sorted({result.layer for result in results if result.layer is not None})


def _percent(share: float | None) -> str:
    return numbers.fixed(None if share is None else 100 * share, 1)
