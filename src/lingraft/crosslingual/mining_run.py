"""`lingraft data mine`: translations from two texts, for some models."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from lingraft.corpus.readers.lines import batched
from lingraft.crosslingual import layers, mining
from lingraft.crosslingual.encoder import sentence_vectors
from lingraft.crosslingual.layers import check_distinct, facts_of, keep_arrays, kept_arrays
from lingraft.crosslingual.search import Neighbours, both_ways
from lingraft.log import progress
from lingraft.report import numbers
from lingraft.report.row import RESULTS, Value, write
from lingraft.report.row import Score as Row
from lingraft.report.table import Column, row, table
from lingraft.rundir import FORMAT, fingerprint, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.layers import Array, Options
    from lingraft.crosslingual.mining import Mined, Score, Texts
    from lingraft.report.table import Table

SIDES = ("there", "back")
"""Directions of saved neighbours."""
METRICS = ("precision", "recall", "f1")
MOST_BYTES = 4 << 30
"""Of the vectors of both sides that are held at a time: texts are read again for more layers."""


@dataclass(frozen=True, eq=False)
class Task:
    """What is mined."""

    texts: Texts
    dev: Texts | None = None
    """With gold pairs; layer and threshold are chosen on them."""
    language: str = ""
    """Of a benchmark's texts; each language has a folder of its own."""

    def about(self) -> str:
        """A note on its size."""
        sides = " and ".join(
            f"{side.number_of_lines:,} sentences ({len(side.texts):,} different)"
            for side in (self.texts.source, self.texts.target)
        )
        gold = self.texts.gold
        note = "" if gold is None else f", {len(gold):,} pairs to be found"
        return f"{self.language}{': ' if self.language else ''}{sides}{note}."


@dataclass(frozen=True)
class Result:
    """What one model mined."""

    label: str
    task: Task
    layer: int
    layer_from: str
    threshold: float | None
    threshold_from: str
    mined: Mined
    score: Score | None
    dev: Score | None


class Miner:
    """One model on some texts; neighbours that are saved are kept."""

    def __init__(self, label: str, name: str, mark: str, out: Path, options: Options) -> None:
        self.label, self.name, self.mark = label, name, mark
        self.folder, self.options = out / label, options
        self._encoder: Encoder | None = None

    @property
    def encoder(self) -> Encoder:
        """Loaded once, and only where something has to be encoded."""
        if self._encoder is None:
            from lingraft.crosslingual.encoder import Encoder

            self._encoder = Encoder.load(self.name)
        return self._encoder

    def layers(self, dev: Texts | None) -> tuple[list[int], str]:
        """The layers that come into question, and who chooses."""
        depth = layers.depth_of(self.name)
        choice = self.options.asked_layer(depth, self.name, layers.XTREME_MINING_LAYERS)
        if choice is not None:
            return [choice[0]], choice[1]
        if dev is not None:
            return list(range(depth + 1)), "best on dev"
        return [layers.usual_layer(depth)], "two thirds up"

    def mined(self, texts: Texts, layer_ids: Sequence[int], split: str) -> Iterator[Mined]:
        """The pairs at each layer, highest margin first."""
        saved = {layer: self._load(texts, layer, split) for layer in layer_ids}
        missing = [layer for layer, neighbours in saved.items() if neighbours is None]
        sides, pool = (texts.source.texts, texts.target.texts), self.options.pool
        layer_bytes = 4 * self.encoder.width * max(1, sum(map(len, sides))) if missing else 1
        for some in batched(missing, max(1, MOST_BYTES // layer_bytes)):
            x_LND, y_LMD = (sentence_vectors(self.encoder, side, pool, some) for side in sides)
            for layer, x_ND, y_MD in zip(some, x_LND, y_LMD, strict=True):
                with progress(f"search, layer {layer}", len(x_ND), "sentences") as ticker:
                    nearest = both_ways(x_ND, y_MD, mining.NEIGHBOURS, ticker.update)
                self._save(nearest, texts, layer, split)
                saved[layer] = nearest
            del x_LND, y_LMD  # before the next ones are made
        for neighbours in saved.values():
            assert neighbours is not None
            mined = mining.mine(*neighbours)
            if self.options.parity:
                mined = mined.without(texts.source.repeated(), texts.target.repeated())
            yield mined

    def _place(self, texts: Texts, layer: int, split: str) -> tuple[Path, str]:
        parts = (FORMAT["mining"], self.mark, self.options.pool, layer, mining.NEIGHBOURS)
        inputs = fingerprint(*parts, texts.source.texts, texts.target.texts)
        return self.folder / f"neighbours-{split}-{layer}", inputs

    def _load(self, texts: Texts, layer: int, split: str) -> tuple[Neighbours, Neighbours] | None:
        arrays = kept_arrays(*self._place(texts, layer, split))
        if arrays is None:
            return None
        forward, backward = (Neighbours(arrays[name], arrays[f"{name}_places"]) for name in SIDES)
        return forward, backward

    def _save(
        self, neighbours: tuple[Neighbours, Neighbours], texts: Texts, layer: int, split: str
    ) -> None:
        arrays: dict[str, Array] = {}
        for name, side in zip(SIDES, neighbours, strict=True):
            arrays |= {name: side.scores_NK, f"{name}_places": side.places_NK}
        keep_arrays(*self._place(texts, layer, split), arrays)

    def run(self, task: Task) -> Result:
        """Choose on dev, mine, and score where the pairs are known."""
        texts, dev = task.texts, task.dev
        layer_ids, layer_from = self.layers(dev)
        threshold, threshold_from, on_dev = self.options.threshold, "given", None
        layer = layer_ids[0]
        if dev is not None:
            tried = []
            for layer_id, pairs in zip(layer_ids, self.mined(dev, layer_ids, "dev"), strict=True):
                limit = mining.best_threshold(pairs, dev)
                tried.append((mining.score(pairs.above(limit), dev), layer_id, limit, pairs))
            on_dev, layer, limit, pairs = max(tried, key=lambda item: item[0].f1 if item[0] else 0)
            if threshold is None:
                threshold, threshold_from = limit, "dev"
            else:
                on_dev = mining.score(pairs.above(threshold), dev)
        (mined,) = self.mined(texts, [layer], "test")
        if threshold is None and texts.gold is not None:
            threshold = mining.best_threshold(mined, texts)
            threshold_from = "these texts themselves (oracle)"
        if threshold is None:
            threshold_from = "none: all pairs"
        selection = mined if threshold is None else mined.above(threshold)
        score = mining.score(selection, texts)
        return Result(
            self.label, task, layer, layer_from, threshold, threshold_from, selection, score, on_dev
        )


def mine_texts(
    models: Mapping[str, str], tasks: Sequence[Task], out: Path, options: Options
) -> list[Result]:
    """Mine with every model, and write `OUT/LABEL/[LANGUAGE/]mined.tsv` and `OUT/results.jsonl`.

    Args:
        models: directory or Hub id by label.
        tasks: what is mined; layer and threshold are chosen for each by itself.
        out: the folder.
        options: pooling, layer, threshold.

    Raises:
        LingraftError: a model cannot be loaded, two are the same, or has no such layer.
    """
    marks = check_distinct(models)
    results: list[Result] = []
    rows: list[Row] = []
    for label, name in models.items():
        miner = Miner(label, name, marks[label], out, options)
        for task in tasks:
            miner.folder = out / label / task.language
            result = miner.run(task)
            write_text(miner.folder / "mined.tsv", mining.as_table(result.mined, task.texts))
            rows += _rows(result, facts_of(name, marks[label]), options)
            results.append(result)
    write(out / RESULTS, rows)
    return results


def _rows(result: Result, facts: dict[str, Value], options: Options) -> Iterator[Row]:
    axes: dict[str, Value] = {
        "task": options.task,
        "language": result.task.language or None,
        "layer": result.layer,
        "threshold": result.threshold,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "lingraft",
    }
    facts = {**facts, "chosen_on": result.layer_from, "threshold_from": result.threshold_from}

    def scored(split: str, metric: str, value: float, **more: Value) -> Row:
        return Row(
            model=result.label,
            data="-".join(filter(None, (options.task or "text", result.task.language))),
            split=split,
            metric=metric,
            value=value,
            n=len(result.mined),
            reported=split == "test",
            axes=axes,
            facts=facts | more,
        )

    for split, score in (("test", result.score), ("dev", result.dev)):
        if score is not None:
            values = asdict(score)
            metrics = {metric: values.pop(metric) for metric in METRICS}
            for metric, value in metrics.items():
                yield scored(split, metric, value, **values)
    if result.score is None:
        yield scored("test", "mined", len(result.mined))


def shown(results: Sequence[Result]) -> Table:
    """Models and what they mined, each language and their mean."""
    several = len({result.task.language for result in results}) > 1
    rows = []
    for label in dict.fromkeys(result.label for result in results):
        own = [result for result in results if result.label == label]
        for result in own:
            limit = numbers.ABSENT if result.threshold is None else f"{result.threshold:.4f}"
            cells = (f"{result.layer} ({result.layer_from})", f"{limit} ({result.threshold_from})")
            scores = (_cell([result.score], metric) for metric in METRICS)
            names = (label, *([result.task.language] if several else []))
            count = f"{len(result.mined):,}"
            rows.append(row(*names, *cells, _cell([result.dev], "f1"), count, *scores))
        if several:
            scores = (_cell([result.score for result in own], metric) for metric in METRICS)
            of_dev = _cell([result.dev for result in own], "f1")
            rows.append(row(label, "average", "", "", of_dev, "", *scores, role="total"))
    names = ("model", *(["language"] if several else []), "layer", "threshold (chosen on)")
    text = [Column(name, "text") for name in names]
    head: list[str | Column] = [*text, "dev F1", "pairs", "precision", "recall", "F1"]
    notes = [task.about() for task in dict.fromkeys(result.task for result in results)]
    return table("Mined translations", head, rows, notes)


def _cell(scores: Sequence[Score | None], metric: str) -> str:
    """The mean in percent; nothing where one is not known."""
    values = [getattr(score, metric) for score in scores if score is not None]
    return numbers.fixed(fmean(values), 1) if len(values) == len(scores) else numbers.ABSENT
