"""`lingraft retrieve --mine`: translations from two texts, for some models. SPEC C.5."""

from __future__ import annotations

import logging
import zipfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.crosslingual import mining
from lingraft.crosslingual.pooling import sentence_vectors
from lingraft.crosslingual.retrieval import check_distinct, check_layer, xtreme_layer
from lingraft.crosslingual.search import Neighbours, both_ways
from lingraft.log import progress
from lingraft.report import numbers
from lingraft.report.table import Column, table
from lingraft.rundir import fingerprint, write_rows, write_text, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.mining import Gold, Mined, Score, Side
    from lingraft.crosslingual.pooling import Pool
    from lingraft.report.table import Table

logger = logging.getLogger(__name__)

FORMAT = 1
"""Of saved neighbours."""
MIDDLE = 2 / 3
"""Where in a model's depth sentences are taken from, if nothing says better: XTREME's 8 of 12."""


@dataclass(frozen=True)
class Texts:
    """Two texts, and the pairs in them where they are known."""

    source: Side
    target: Side
    gold: Gold | None

    @classmethod
    def read(cls, source: Path, target: Path, gold: Path | None, *, parity: bool) -> Texts:
        """Read both sides and the gold pairs.

        Raises:
            DataError: a file is not there, broken, or belongs to others.
        """
        sides = mining.read_side(source), mining.read_side(target)
        known = None if gold is None else mining.read_gold(gold, *sides, by_id=parity)
        return cls(*sides, known)


@dataclass(frozen=True)
class Options:
    """How translations are mined."""

    pool: Pool = "mean"
    layer: int | None = None
    """None: the best on dev; without dev, two thirds up."""
    threshold: float | None = None
    """None: the best on dev; without dev, the best on the text itself (said so), or none."""
    parity: bool = False
    """XTREME: its layer, and sentences that stand twice in a text are left out."""


@dataclass(frozen=True)
class Result:
    """What one model mined."""

    label: str
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

    @property
    def depth(self) -> int:
        from lingraft.pretrained.load import load_config

        return int(load_config(self.name).num_hidden_layers)

    def layers(self, dev: Texts | None) -> tuple[list[int], str]:
        """The layers that come into question, and who chooses."""
        asked = self.options.layer
        if asked is not None:
            return [check_layer(asked, self.depth, self.name)], "given"
        if self.options.parity:
            return [xtreme_layer(self.depth, self.name)], "XTREME's"
        if dev is not None:
            return list(range(self.depth + 1)), "best on dev"
        return [round(MIDDLE * self.depth)], "two thirds up"

    def mined(self, texts: Texts, layers: Sequence[int], split: str) -> Iterator[Mined]:
        """The pairs at each layer, highest margin first."""
        saved = {layer: self._load(texts, layer, split) for layer in layers}
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
        path, inputs = self._place(texts, layer, split)
        try:
            with np.load(path) as file:
                if str(file["inputs"]) != inputs:
                    return None
                there = Neighbours(file["there"], file["there_places"])
                return there, Neighbours(file["back"], file["back_places"])
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None

    def _save(
        self, found: tuple[Neighbours, Neighbours], texts: Texts, layer: int, split: str
    ) -> None:
        path, inputs = self._place(texts, layer, split)
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial.npz")
        there, back = found
        try:
            with writing(path):
                np.savez(
                    partial,
                    inputs=inputs,
                    there=there.scores_NK,
                    there_places=there.places_NK,
                    back=back.scores_NK,
                    back_places=back.places_NK,
                )
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def run(self, texts: Texts, dev: Texts | None) -> Result:
        """Choose on dev, mine, and score where the pairs are known."""
        layers, layer_from = self.layers(dev)
        threshold, threshold_from, on_dev = self.options.threshold, "given", None
        layer = layers[0]
        if dev is not None and dev.gold is not None:
            tried = []
            for each, found in zip(layers, self.mined(dev, layers, "dev"), strict=True):
                limit = mining.best_threshold(found, dev.gold)
                tried.append((mining.score(found.above(limit), dev.gold), each, limit, found))
            on_dev, layer, limit, found = max(tried, key=lambda one: one[0].f1)
            if threshold is None:
                threshold, threshold_from = limit, "dev"
            else:
                on_dev = mining.score(found.above(threshold), dev.gold)
        (mined,) = self.mined(texts, [layer], "test")
        if threshold is None and texts.gold is not None:
            threshold = mining.best_threshold(mined, texts.gold)
            threshold_from = "these texts themselves (oracle)"
        if threshold is None:
            threshold_from = "none: all pairs"
        kept = mined if threshold is None else mined.above(threshold)
        score = None if texts.gold is None else mining.score(kept, texts.gold)
        return Result(self.label, layer, layer_from, threshold, threshold_from, kept, score, on_dev)


def mine_texts(
    models: Mapping[str, str], texts: Texts, dev: Texts | None, out: Path, options: Options
) -> list[Result]:
    """Mine with every model, and write `OUT/LABEL/mined.tsv` and `OUT/results.jsonl`.

    Args:
        models: directory or Hub id by label.
        texts: what is mined.
        dev: other texts with gold pairs, on which layer and threshold are chosen.
        out: the folder.
        options: pooling, layer, threshold.

    Raises:
        LingraftError: a model cannot be loaded, two are the same, or has no such layer.
    """
    marks = check_distinct(models)
    results, rows = [], []
    for label, name in models.items():
        found = Miner(label, name, marks[label], out, options).run(texts, dev)
        write_text(
            out / label / "mined.tsv", mining.as_table(found.mined, texts.source, texts.target)
        )
        rows += list(_rows(found, marks[label], options))
        results.append(found)
    write_rows(out / "results.jsonl", rows)
    return results


def _rows(found: Result, mark: str, options: Options) -> Iterator[dict[str, Any]]:
    common = {
        "model": found.label,
        "model_fingerprint": mark,
        "layer": found.layer,
        "layer_from": found.layer_from,
        "threshold": found.threshold,
        "threshold_from": found.threshold_from,
        "pool": options.pool,
        "protocol": "xtreme" if options.parity else "lingraft",
    }
    for split, score in (("test", found.score), ("dev", found.dev)):
        if score is not None:
            counts = {key: value for key, value in asdict(score).items() if key in COUNTS}
            for metric in ("precision", "recall", "f1"):
                value = getattr(score, metric)
                yield common | {"split": split, "metric": metric, "value": value, **counts}
    if found.score is None:
        yield common | {"split": "test", "metric": "mined", "value": len(found.mined)}


COUNTS = ("found", "mined", "gold")


def shown(results: Sequence[Result], texts: Texts) -> Table:
    """Models and what they mined."""
    rows = []
    for one in results:
        limit = numbers.ABSENT if one.threshold is None else f"{one.threshold:.4f}"
        of_dev = numbers.ABSENT if one.dev is None else numbers.fixed(one.dev.f1, 1)
        scores = (
            [numbers.ABSENT] * 3
            if one.score is None
            else [
                numbers.fixed(v, 1) for v in (one.score.precision, one.score.recall, one.score.f1)
            ]
        )
        layer = f"{one.layer} ({one.layer_from})"
        threshold = f"{limit} ({one.threshold_from})"
        rows.append((one.label, layer, threshold, of_dev, f"{len(one.mined):,}", *scores))
    sides = " and ".join(
        f"{side.number_of_lines:,} sentences ({len(side.texts):,} different)"
        for side in (texts.source, texts.target)
    )
    gold = "" if texts.gold is None else f", {texts.gold.total:,} pairs to be found"
    text = [Column(name, "text") for name in ("model", "layer", "threshold (chosen on)")]
    head: list[str | Column] = [*text, "dev F1", "pairs", "precision", "recall", "F1"]
    return table("Mined translations", head, rows, [f"{sides}{gold}."])
