"""Mining of translations from two texts by the ratio margin.

Artetxe and Schwenk (2019), "Margin-based parallel corpus mining": the cosine of two sentences over
the mean of the cosines to the k nearest of both. The best of each sentence in either direction are
candidates; from the highest margin down, each sentence is taken once. BUCC (Zweigenbaum et al.
2017) asks for those above a threshold, which is chosen on other texts.

Shape letters: L layers, N sentences of one side, M of the other, D width, K neighbours, P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.corpus.readers.lines import batched
from lingraft.crosslingual import layers
from lingraft.files import write_text
from lingraft.log import progress
from lingraft.report import numbers
from lingraft.report.row import RESULTS, Score, Value, write
from lingraft.report.table import Column, row, table
from lingraft.rundir import FORMAT, Step, fingerprint
from lingraft.tasks.sentences import pair_f1

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Neighbours
    from lingraft.crosslingual.layers import Model
    from lingraft.crosslingual.settings import Mining
    from lingraft.report.table import Table
    from lingraft.tasks.sentences import Bitext, Pair

    Array = np.ndarray[Any, Any]

NEIGHBOURS = 4
SMALLEST = 1e-6
"""Smallest denominator of a margin; cosines to all neighbours may be 0 or less."""
METRICS = ("precision", "recall", "f1")
MOST_BYTES = 4 << 30
"""Bytes of both sides' vectors that are held at a time: texts are read again for more layers."""


@dataclass(frozen=True)
class Side:
    """The sentences of one side; equal sentences are one."""

    ids: tuple[tuple[str, ...], ...]
    """By sentence: all ids that it has."""
    texts: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Mapping[str, str]) -> Side:
        """Return the side of these sentences by id."""
        ids: dict[str, list[str]] = {}
        for name, text in sentences.items():
            ids.setdefault(text, []).append(name)
        return cls(tuple(map(tuple, ids.values())), tuple(ids))

    def repeated(self) -> list[int]:
        """Return the sentences that stand there more than once."""
        return [place for place, ids in enumerate(self.ids) if len(ids) > 1]

    def first_of(self) -> dict[str, str]:
        """Return for every id the first one of its sentence."""
        return {name: ids[0] for ids in self.ids for name in ids}


@dataclass(frozen=True)
class Texts:
    """Two texts, and the pairs in them where they are known."""

    source: Side
    target: Side
    gold: frozenset[Pair] | None

    @classmethod
    def of(cls, bitext: Bitext, *, by_id: bool = False) -> Texts:
        """Return the texts of two sides of sentences.

        Args:
            bitext: the sides.
            by_id: count every gold pair of ids, as XTREME does, also of equal sentences; else
                those of equal sentences are one.
        """
        source, target, gold = Side.of(bitext.source), Side.of(bitext.target), bitext.gold
        if gold is not None and not by_id:
            sources, targets = source.first_of(), target.first_of()
            gold = frozenset((sources[left], targets[right]) for left, right in gold)
        return cls(source, target, gold)

    def fingerprint(self) -> str:
        """Return the fingerprint of the sentences and the pairs."""
        gold = None if self.gold is None else sorted(self.gold)
        return fingerprint(*((side.ids, side.texts) for side in (self.source, self.target)), gold)

    def ids_of(self, mined: Mined) -> list[Pair]:
        """Return the ids of mined pairs; of equal sentences the first."""
        places = zip(mined.sources_P.tolist(), mined.targets_P.tolist(), strict=True)
        return [(self.source.ids[left][0], self.target.ids[right][0]) for left, right in places]


@dataclass(frozen=True)
class Mined:
    """Pairs of sentences, the highest margin first; places among the distinct sentences."""

    margins_P: Array
    sources_P: Array
    targets_P: Array

    def __len__(self) -> int:
        return len(self.margins_P)

    def above(self, threshold: float) -> Mined:
        """Return those whose margin is as high or higher."""
        count = int((self.margins_P >= np.float64(threshold)).sum())  # in fp64, as it was chosen
        return Mined(self.margins_P[:count], self.sources_P[:count], self.targets_P[:count])

    def without(self, sources: Sequence[int], targets: Sequence[int]) -> Mined:
        """Return those that have none of these sentences."""
        mask = ~np.isin(self.sources_P, sources) & ~np.isin(self.targets_P, targets)
        return Mined(self.margins_P[mask], self.sources_P[mask], self.targets_P[mask])


def mine(forward: Neighbours, backward: Neighbours) -> Mined:
    """Return one-to-one pairs by the ratio margin.

    Args:
        forward: [N, K] nearest of the source's sentences in the target, by cosine.
        backward: [M, K] of the target's in the source.
    """
    mean_N, mean_M = forward.scores_NK.mean(axis=1), backward.scores_NK.mean(axis=1)
    forward_NK = _margins(forward, mean_N, mean_M)
    backward_MK = _margins(backward, mean_M, mean_N)
    numbers_N, numbers_M = np.arange(len(mean_N)), np.arange(len(mean_M))
    best_N, best_M = forward_NK.argmax(axis=1), backward_MK.argmax(axis=1)
    sources = np.concatenate([numbers_N, backward.places_NK[numbers_M, best_M]])
    targets = np.concatenate([forward.places_NK[numbers_N, best_N], numbers_M])
    margins = np.concatenate([forward_NK.max(axis=1), backward_MK.max(axis=1)])
    used_N, used_M = np.zeros(len(mean_N), dtype=bool), np.zeros(len(mean_M), dtype=bool)
    indices = []
    for at in np.argsort(-margins, kind="stable").tolist():
        source, target = sources[at], targets[at]
        if not used_N[source] and not used_M[target]:
            used_N[source] = used_M[target] = True
            indices.append(at)
    return Mined(margins[indices], sources[indices], targets[indices])


def _margins(neighbours: Neighbours, own_N: Array, other_M: Array) -> Array:
    """[N, K] Return of each neighbour its cosine over the mean of both sides' nearest."""
    means_NK = (own_N[:, None] + other_M[neighbours.places_NK]) / 2
    return neighbours.scores_NK / np.maximum(means_NK, SMALLEST)


def score(mined: Mined, texts: Texts) -> dict[str, float]:
    """Return precision, recall and F1 of mined pairs in percent, and counts; of no gold nothing."""
    if texts.gold is None:
        return {}
    pairs = texts.ids_of(mined)
    counts = {"found": len(texts.gold.intersection(pairs)), "gold": len(texts.gold)}
    return {**pair_f1(texts.gold, pairs), **counts}


def best_threshold(mined: Mined, texts: Texts) -> float:
    """Return the threshold of the highest F1: half-way between the last pair it takes and the next.

    Where no gold pair was mined it is infinite: nothing is taken.
    """
    gold = texts.gold or frozenset()
    right_P = np.cumsum([pair in gold for pair in texts.ids_of(mined)])
    if not len(right_P) or not right_P[-1]:
        return float("inf")
    ranks_P = np.arange(1, len(mined) + 1)
    f1_P = 2 * right_P / (ranks_P + len(gold))
    same_P = np.append(mined.margins_P[1:] == mined.margins_P[:-1], False)
    last = int(np.argmax(np.where(same_P, -1, f1_P)))  # equal margins go together
    after = min(last + 1, len(mined) - 1)
    return (float(mined.margins_P[last]) + float(mined.margins_P[after])) / 2


@dataclass(frozen=True, eq=False)
class MiningTask:
    """Texts to mine."""

    texts: Texts
    dev: Texts | None = None
    """With gold pairs; layer and threshold are chosen on them."""
    language: str = ""
    """Language of a benchmark's texts; each language has a folder of its own."""


def mine_texts(
    by_label: Mapping[str, str],
    tasks: Sequence[MiningTask],
    out: Path,
    asked: Mining,
    *,
    benchmark: str | None = None,
    force: bool = False,
) -> Table:
    """Mine with every model, and write `OUT/LABEL/[LANGUAGE/]mined.tsv` and `OUT/results.jsonl`.

    Args:
        by_label: directory or Hub id of each model.
        tasks: what is mined; layer and threshold are chosen for each by itself.
        out: the folder.
        asked: pooling, layer, threshold.
        benchmark: the tasks' name, for `lingraft report`.
        force: put these results in place of another call's.

    Raises:
        LingraftError: a model cannot be loaded, or has no such layer.
    """
    models = layers.open_models(by_label)
    for model in models:
        model.asked_layer(asked, layers.XTREME_MINING_LAYERS)
    record = {
        "models": {model.label: model.mark for model in models},
        **asked.model_dump(exclude={"gold", "dev"}),
        "texts": {
            task.language: [texts and texts.fingerprint() for texts in (task.texts, task.dev)]
            for task in tasks
        },
    }
    rows: list[Score] = []
    with layers.claimed(out, "retrieve", record, force=force):
        for model in models:
            for task in tasks:
                rows += _mine(model, task, out / model.label / task.language, asked, benchmark)
            model.unload()
        write(out / RESULTS, rows)
    return shown(rows)


def _mine(
    model: Model, task: MiningTask, folder: Path, asked: Mining, benchmark: str | None
) -> Iterator[Score]:
    """Choose on dev, mine, and score where the pairs are known."""
    texts, dev, threshold, threshold_from = task.texts, task.dev, asked.threshold, "given"
    choice = model.asked_layer(asked, layers.XTREME_MINING_LAYERS)
    layer, chosen_on = choice or (round(layers.MIDDLE * model.depth), "two thirds up")
    on_dev: dict[str, float] = {}
    if dev is not None:
        wanted = [layer] if choice else range(model.depth + 1)
        chosen_on, tried = chosen_on if choice else "best on dev", []
        for layer_id, pairs in _by_layer(model, dev, wanted, folder, "dev", asked):
            limit = best_threshold(pairs, dev)
            tried.append((score(pairs.above(limit), dev), layer_id, limit, pairs))
        on_dev, layer, limit, pairs = max(tried, key=lambda item: item[0]["f1"])
        if threshold is None:
            threshold, threshold_from = limit, "dev"
        else:
            on_dev = score(pairs.above(threshold), dev)
    ((_, mined),) = _by_layer(model, texts, [layer], folder, "test", asked)
    if threshold is None and texts.gold is not None:
        threshold = best_threshold(mined, texts)
        threshold_from = "these texts themselves (oracle)"
    if threshold is None:
        threshold_from = "none: all pairs"
    else:
        mined = mined.above(threshold)
    write_text(folder / "mined.tsv", as_table(mined, texts))
    axes: dict[str, Value] = {
        "task": benchmark,
        "language": task.language or None,
        "layer": layer,
        "threshold": threshold,
        "pool": _pool(asked),
        "protocol": "xtreme" if asked.parity else "lingraft",
    }
    facts = {**model.facts, "chosen_on": chosen_on, "threshold_from": threshold_from}
    data = "-".join(filter(None, (benchmark or "text", task.language)))
    on_test = score(mined, texts) or {"mined": float(len(mined))}
    for split, values in (("test", on_test), ("dev", on_dev)):
        metrics = [metric for metric in METRICS if metric in values] or list(values)
        for metric in metrics:
            yield Score(
                model=model.label,
                data=data,
                split=split,
                metric=metric,
                value=values[metric],
                n=len(mined),
                reported=split == "test",
                axes=axes,
                facts=facts | {key: values[key] for key in values if key not in metrics},
            )


def _pool(asked: Mining) -> Any:
    return asked.pool or ("cls" if asked.parity else "mean")


def _by_layer(
    model: Model, texts: Texts, wanted: Sequence[int], folder: Path, split: str, asked: Mining
) -> Iterator[tuple[int, Mined]]:
    """Yield the pairs at each layer, highest margin first; those that are kept are read."""
    sides = (texts.source.texts, texts.target.texts)
    steps = {}
    for layer in wanted:
        inputs = fingerprint(FORMAT["mining"], model.mark, _pool(asked), layer, NEIGHBOURS, *sides)
        steps[layer] = (folder / f"mined-{split}-{layer}", inputs)
    missing = [layer for layer, (path, inputs) in steps.items() if not Step(path).is_done(inputs)]
    layer_bytes = 4 * model.encoder.width * max(1, sum(map(len, sides))) if missing else 1
    for some in batched(missing, max(1, MOST_BYTES // layer_bytes)):
        for layer, mined in _mined_at(model, sides, some, asked):
            layers.keep_arrays(*steps[layer], vars(mined))
    for layer, (path, _) in steps.items():
        mined = Mined(**layers.kept_arrays(path))
        if asked.parity:
            mined = mined.without(texts.source.repeated(), texts.target.repeated())
        yield layer, mined


def _mined_at(
    model: Model, sides: tuple[Sequence[str], Sequence[str]], wanted: Sequence[int], asked: Mining
) -> Iterator[tuple[int, Mined]]:
    """Encode both sides and yield the pairs at each layer."""
    from lingraft.crosslingual.encoder import both_ways, sentence_vectors  # torch

    vectors = (sentence_vectors(model.encoder, side, _pool(asked), wanted) for side in sides)
    for layer, x_ND, y_MD in zip(wanted, *vectors, strict=True):
        with progress(f"search, layer {layer}", len(x_ND), "sentences") as ticker:
            yield layer, mine(*both_ways(x_ND, y_MD, NEIGHBOURS, ticker.update))


def as_table(mined: Mined, texts: Texts) -> str:
    """Return TSV: margin, ids and sentences; of equal sentences the first id."""
    lines = ["margin\tsource id\ttarget id\tsource\ttarget"]
    columns = (mined.margins_P, mined.sources_P, mined.targets_P)
    rows = zip(*(column.tolist() for column in columns), texts.ids_of(mined), strict=True)
    for margin, left, right, ids in rows:
        sides = (texts.source.texts[left], texts.target.texts[right])
        lines.append("\t".join([f"{margin:.6f}", *ids, *(" ".join(t.split()) for t in sides)]))
    return "\n".join(lines) + "\n"


def shown(rows: Sequence[Score]) -> Table:
    """Return a table of models and what they mined, set by set."""
    own = {(score.model, score.data, score.split, score.metric): score.value for score in rows}
    keys = (("dev", "f1"), *(("test", metric) for metric in METRICS))
    lines = []
    for (model, data), last in {(score.model, score.data): score for score in rows}.items():
        limit, facts = last.axes["threshold"], last.facts
        number = numbers.ABSENT if limit is None else f"{limit:.4f}"
        layer = f"{last.axes['layer']} ({facts['chosen_on']})"
        cells = (numbers.fixed(own.get((model, data, *key)), 1) for key in keys)
        threshold = f"{number} ({facts['threshold_from']})"
        lines.append(row(model, data, layer, threshold, f"{last.n:,}", *cells))
    text = [Column(name, "text") for name in ("model", "set", "layer", "threshold (chosen on)")]
    head = [*text, *map(Column, ("pairs", "dev F1", "precision", "recall", "F1"))]
    return table("Mined translations", head, lines)
