"""`lingraft retrieve --mine`: translations from two texts, for some models. SPEC C.5."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.crosslingual import layers, mining
from lingraft.crosslingual.layers import RESULTS, check_distinct, keep_arrays, kept_arrays, named
from lingraft.crosslingual.pooling import sentence_vectors
from lingraft.crosslingual.search import Neighbours, both_ways
from lingraft.log import progress
from lingraft.report import numbers
from lingraft.report.table import Column, row, table
from lingraft.rundir import fingerprint, write_rows, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.layers import Array, Options
    from lingraft.crosslingual.mining import Mined, Score, Texts
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

FORMAT = 1
"""Of saved neighbours."""
SIDES = ("there", "back")
"""Directions of saved neighbours."""
METRICS = ("precision", "recall", "f1")


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
        known = "" if gold is None else f", {len(gold):,} pairs to be found"
        return f"{self.language}{': ' if self.language else ''}{sides}{known}."


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
        asked = self.options.asked_layer(depth, self.name)
        if asked is not None:
            return [asked[0]], asked[1]
        if dev is not None:
            return list(range(depth + 1)), "best on dev"
        return [layers.usual_layer(depth)], "two thirds up"

    def mined(self, texts: Texts, wanted: Sequence[int], split: str) -> Iterator[Mined]:
        """The pairs at each layer, highest margin first."""
        saved = {layer: self._load(texts, layer, split) for layer in wanted}
        missing = [layer for layer, found in saved.items() if found is None]
        if missing:
            sides = (texts.source.texts, texts.target.texts)
            pool = self.options.pool
            x_LND, y_LMD = (sentence_vectors(self.encoder, one, pool, missing) for one in sides)
            for layer, x_ND, y_MD in zip(missing, x_LND, y_LMD, strict=True):
                with progress(f"search, layer {layer}", len(x_ND), "sentences") as ticker:
                    found = both_ways(x_ND, y_MD, mining.NEIGHBOURS, ticker.update)
                self._save(found, texts, layer, split)
                saved[layer] = found
        for neighbours in saved.values():
            assert neighbours is not None
            one = mining.mine(*neighbours)
            if self.options.parity:
                one = one.without(texts.source.repeated(), texts.target.repeated())
            yield one

    def _place(self, texts: Texts, layer: int, split: str) -> tuple[Path, str]:
        parts = (FORMAT, self.mark, self.options.pool, layer, mining.NEIGHBOURS)
        inputs = fingerprint(*parts, texts.source.texts, texts.target.texts)
        return self.folder / f"neighbours-{split}-{layer}.npz", inputs

    def _load(self, texts: Texts, layer: int, split: str) -> tuple[Neighbours, Neighbours] | None:
        kept = kept_arrays(*self._place(texts, layer, split))
        if kept is None:
            return None
        there, back = (Neighbours(kept[name], kept[f"{name}_places"]) for name in SIDES)
        return there, back

    def _save(
        self, found: tuple[Neighbours, Neighbours], texts: Texts, layer: int, split: str
    ) -> None:
        arrays: dict[str, Array] = {}
        for name, one in zip(SIDES, found, strict=True):
            arrays |= {name: one.scores_NK, f"{name}_places": one.places_NK}
        keep_arrays(*self._place(texts, layer, split), arrays)

    def run(self, task: Task) -> Result:
        """Choose on dev, mine, and score where the pairs are known."""
        texts, dev = task.texts, task.dev
        wanted, layer_from = self.layers(dev)
        threshold, threshold_from, on_dev = self.options.threshold, "given", None
        layer = wanted[0]
        if dev is not None:
            tried = []
            for each, found in zip(wanted, self.mined(dev, wanted, "dev"), strict=True):
                limit = mining.best_threshold(found, dev)
                tried.append((mining.score(found.above(limit), dev), each, limit, found))
            on_dev, layer, limit, found = max(tried, key=lambda one: one[0].f1 if one[0] else 0)
            if threshold is None:
                threshold, threshold_from = limit, "dev"
            else:
                on_dev = mining.score(found.above(threshold), dev)
        (mined,) = self.mined(texts, [layer], "test")
        if threshold is None and texts.gold is not None:
            threshold = mining.best_threshold(mined, texts)
            threshold_from = "these texts themselves (oracle)"
        if threshold is None:
            threshold_from = "none: all pairs"
        kept = mined if threshold is None else mined.above(threshold)
        score = mining.score(kept, texts)
        return Result(
            self.label, task, layer, layer_from, threshold, threshold_from, kept, score, on_dev
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
    rows: list[dict[str, Any]] = []
    for label, name in models.items():
        miner = Miner(label, name, marks[label], out, options)
        for task in tasks:
            miner.folder = out / label / task.language
            found = miner.run(task)
            write_text(miner.folder / "mined.tsv", mining.as_table(found.mined, task.texts))
            rows += _rows(found, named(label, name, marks[label]), options)
            results.append(found)
    write_rows(out / RESULTS, rows)
    return results


def _rows(
    found: Result, names: Mapping[str, str | None], options: Options
) -> Iterator[dict[str, Any]]:
    common = {
        **names,
        "task": options.task,
        "language": found.task.language or None,
        "layer": found.layer,
        "layer_from": found.layer_from,
        "threshold": found.threshold,
        "threshold_from": found.threshold_from,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "lingraft",
    }
    for split, score in (("test", found.score), ("dev", found.dev)):
        if score is not None:
            values = asdict(score)
            metrics = {metric: values.pop(metric) for metric in METRICS}
            for metric, value in metrics.items():
                yield common | {"split": split, "metric": metric, "value": value, **values}
    if found.score is None:
        yield common | {"split": "test", "metric": "mined", "value": len(found.mined)}


def shown(results: Sequence[Result]) -> Table:
    """Models and what they mined, each language and their mean."""
    several = len({one.task.language for one in results}) > 1
    rows = []
    for label in dict.fromkeys(one.label for one in results):
        own = [one for one in results if one.label == label]
        for one in own:
            limit = numbers.ABSENT if one.threshold is None else f"{one.threshold:.4f}"
            chosen = (f"{one.layer} ({one.layer_from})", f"{limit} ({one.threshold_from})")
            scores = (_cell([one.score], metric) for metric in METRICS)
            names = (label, *([one.task.language] if several else []))
            count = f"{len(one.mined):,}"
            rows.append(row(*names, *chosen, _cell([one.dev], "f1"), count, *scores))
        if several:
            scores = (_cell([one.score for one in own], metric) for metric in METRICS)
            of_dev = _cell([one.dev for one in own], "f1")
            rows.append(row(label, "average", "", "", of_dev, "", *scores, role="total"))
    names = ("model", *(["language"] if several else []), "layer", "threshold (chosen on)")
    text = [Column(name, "text") for name in names]
    head: list[str | Column] = [*text, "dev F1", "pairs", "precision", "recall", "F1"]
    notes = [one.about() for one in dict.fromkeys(one.task for one in results)]
    return table("Mined translations", head, rows, notes)


def _cell(scores: Sequence[Score | None], metric: str) -> str:
    """The mean in percent; nothing where one is not known."""
    values = [getattr(score, metric) for score in scores if score is not None]
    return numbers.fixed(fmean(values), 1) if len(values) == len(scores) else numbers.ABSENT
