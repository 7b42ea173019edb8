"""What alignments are worth: error rates as rows, and what is said of their tables; no torch.

Shape letters: R resamples, B sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.evaluation.records import by_place
from lingraft.report.row import Score, Value
from lingraft.report.scored import jackknife

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lingraft.crosslingual.by_layer import Reading
    from lingraft.crosslingual.links import Gold, Link
    from lingraft.report.table import Table


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

    def rates_in_percent(self, draws_RB: Array) -> Array:
        """[R] Return the rate of each resample in per cent."""
        return 100 * self.error_rates(draws_RB)


Array = np.ndarray[Any, Any]

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


def rows(results: Sequence[Result], names: Sequence[str], dev: int, method: str) -> Iterator[Score]:
    """Yield error rate, precision and recall of every layer and set, in per cent.

    Args:
        results: of every layer and baseline; of each model the layer is reported that has the
            smallest mean rate, on dev where there is one.
        names: of the gold sets.
        dev: sentences at the head of each set that choose the layer and are not scored.
        method: its title.
    """
    best = {(one.label, one.layer) for one in chosen(results, names, dev)}
    is_given = len({one.layer for one in results if one.layer is not None}) == 1
    chosen_on = "given" if is_given else "dev" if dev else "the scored sentences"
    for result in results:
        axes: dict[str, Value] = {"layer": result.layer, "method": method}
        for name in names:
            counts, facts = result.sets[name].counts.between(dev, None), result.sets[name].facts
            rate, sides = counts.error_rate(), (counts.precision(), counts.recall())
            values = dict(zip(("aer", "precision", "recall"), (rate, *sides), strict=True))
            n = len(counts.sure_B)
            links = {key: int(getattr(counts, f"{key}_B").sum()) for key in COUNTED}
            known = {fact: facts[fact] for fact in FACTS if fact in facts}
            blocks = jackknife(
                by_place(n).tolist(), {"aer": counts.rates_in_percent}, {"aer": 100 * rate}
            )
            for metric, value in values.items():
                if value is not None:
                    yield Score(
                        model=result.label,
                        data=name,
                        split="test",
                        metric=metric,
                        value=100 * value,
                        n=n,
                        reported=(result.label, result.layer) in best,
                        axes={} if result.reference else axes,
                        facts={"chosen_on": chosen_on, **links, **known},
                        blocks=blocks.get(metric),
                    )


def chosen(results: Sequence[Result], names: Sequence[str], dev: int) -> list[Result]:
    """Return of each model the layer with the smallest mean rate, on dev where there is one."""

    def rate(result: Result) -> tuple[float, int]:
        parts = (result.sets[name].counts.between(0, dev or None) for name in names)
        return fmean(part.error_rate() for part in parts), result.layer or 0

    by_label: dict[str, list[Result]] = {}
    for result in results:
        by_label.setdefault(result.label, []).append(result)
    return [min(of_model, key=rate) for of_model in by_label.values()]


def tables(
    found: Sequence[Score],
    reading: Reading,
    baselines: Mapping[str, str],
    dev: int,
    reference: str | None = None,
) -> list[Table]:
    """Return the main table, the differences to a reference, and the rates by layer.

    Args:
        found: all rows.
        reading: of those that are error rates.
        baselines: what is said of each.
        dev: sentences at the head of each set that are not scored.
        reference: the label of a model or baseline; None takes the first model.
    """
    models = [label for label, place in reading.chosen.items() if place[1] is not None]
    title = "AER; below 0 is better than it; paired bootstrap over the sentences"
    notes = _notes(found, reading, baselines, dev)
    made = [
        reading.main("Alignment error rate in %, lower is better", notes),
        reading.differences(title, reference or next(iter(models), None)),
        reading.by_layer("AER in % by layer; 0 is the embeddings"),
    ]
    return [one for one in made if one is not None]


def _notes(
    found: Sequence[Score], reading: Reading, baselines: Mapping[str, str], dev: int
) -> list[str]:
    notes = ["Brackets: 95 % by a bootstrap over blocks of sentences."]
    for label, place in reading.chosen.items():
        own = [one for one in found if one.model == label and one.reported]
        sides = [
            f"{side} {fmean(one.value for one in own if one.metric == side):.1f}"
            for side in ("precision", "recall")
            if any(one.metric == side for one in own)
        ]
        notes += [f"{label}: {', '.join(sides)}, means over the sets."] if sides else []
        long = {one.data: one.facts.get("too_long") for one in own if one.metric == "aer"}
        if place[1] is not None and any(long.values()):
            many = ", ".join(f"{count} of {name}" for name, count in long.items() if count)
            notes.append(f"{label}: sentence pairs longer than it reads, without links: {many}.")
    head = f"the first {dev} sentences of every set, which are not scored"
    oracle = "the very sentences that are scored: an oracle, better than one chosen beforehand"
    choice = f"Each model's layer has the smallest mean on {head if dev else oracle}"
    if len(reading.layers) == 1:
        choice = f"Layer {reading.layers[0]} was given" + (f"; without {head}" if dev else "")
    method = next((one.axes["method"] for one in found if "method" in one.axes), None)
    notes += [f"Links by {method}. {choice}."] if method else []
    return notes + [f"{name}: {note}." for name, note in baselines.items()]
