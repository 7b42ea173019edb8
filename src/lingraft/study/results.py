"""The rows of a study in order: cells that differ in the seed alone stand together."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from lingraft.evaluation.records import blocks
from lingraft.recipe.records import METHODS
from lingraft.report import scored
from lingraft.report.variants import TITLES
from lingraft.study.analysis import BITS, CURVE, LOSS, PERPLEXITY, TASK, is_known
from lingraft.study.grid import FINETUNE, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.report.row import Score, Value
    from lingraft.stats import Key

REFERENCES = ("scratch", "xlm")
"""Methods from random weights, which others are measured against; the first that is there."""
logger = logging.getLogger(__name__)

WRITTEN = re.compile(r"(^|/)(spans|infilling)/")
"""Prefix of scores on hidden text that an encoder-decoder writes, shown as what others fill in."""


@dataclass(frozen=True)
class Cell:
    """A finished run of the study; with axes of fine-tuning, at one of their points."""

    name: str
    seed: int
    axes: Mapping[str, Value]
    metrics: Mapping[str, Score]
    tasks: dict[str, dict[int, Score]] = field(default_factory=dict)
    """By metric `task/NAME/SCORE` and seed of fine-tuning; those that papers report."""

    @property
    def facts(self) -> Mapping[str, Value]:
        """Return what rows tell of training and machine."""
        return next((row.facts for row in self.metrics.values()), {})

    @property
    def valid_loss(self) -> float:
        """Return the lowest validation loss of the last phase, whose weights were evaluated."""
        loss = self.metrics[CURVE].value if CURVE in self.metrics else math.inf
        return loss if math.isfinite(loss) else math.inf


@dataclass(frozen=True)
class SeedGroup:
    """Cells that differ in nothing but the seed."""

    label: str
    method: str
    sentences: int | None
    """None where all are taken, or none."""
    cells: tuple[Cell, ...]
    """By seed."""

    @property
    def is_untrained(self) -> bool:
        """Return whether its method trains nothing, so that it stands at every size."""
        return self.method in METHODS and not METHODS[self.method].phases

    def rows(self, metric: str) -> dict[Key, Score]:
        """Return the metric's rows by seed; of a task, by seed and that of fine-tuning."""
        if metric.startswith(TASK):
            return {
                (cell.seed, seed): row
                for cell in self.cells
                for seed, row in cell.tasks.get(metric, {}).items()
            }
        return {(cell.seed,): cell.metrics[metric] for cell in self.cells if metric in cell.metrics}

    def values(self, metric: str) -> list[float]:
        """Return the metric of each model."""
        return [row.value for row in self.rows(metric).values()]

    def mean(self, metric: str) -> float | None:
        """Return the mean over the seeds; of a task, of their means over fine-tunings."""
        return scored.mean(self.rows(metric))

    def deviation(self, metric: str) -> float | None:
        """Return the sample standard deviation over all models; None for one."""
        return scored.deviation(self.rows(metric))


@dataclass(frozen=True)
class Results:
    """All that is known of a study."""

    groups: tuple[SeedGroup, ...]
    """By size, and within a size in the order of the labels."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """By cell, why its last attempt failed."""

    @property
    def labels(self) -> list[str]:
        """Return the labels; those that name a method alone first."""
        return sorted({g.label for g in self.groups}, key=lambda label: (", " in label, label))

    @property
    def cells(self) -> list[Cell]:
        return [cell for group in self.groups for cell in group.cells]

    @property
    def sizes(self) -> list[int | None]:
        """Return the sizes from small to large; None, which is everything, last."""
        sized = [group.sentences for group in self.groups if not group.is_untrained]
        return list(dict.fromkeys(sized or [group.sentences for group in self.groups]))

    def at(self, size: int | None) -> list[SeedGroup]:
        """Return the groups of one size, and those that train nothing."""
        return [g for g in self.groups if g.sentences == size or g.is_untrained]

    def of(self, label: str | None) -> list[SeedGroup]:
        """Return the groups of one label that have a size, from small to large."""
        return [group for group in self.groups if group.label == label and group.sentences]

    @property
    def reference(self) -> str | None:
        """Return the label that the others are measured against."""
        plain = {g.method: g.label for g in reversed(self.groups) if ", " not in g.label}
        return next((plain[method] for method in REFERENCES if method in plain), None)


def collect(
    rows: Iterable[Score], select: Iterable[str] = (), failures: Mapping[str, str] | None = None
) -> Results:
    """Put the rows of a results file in order; bits per character are over words that all score.

    Args:
        rows: of the file; of rows of one cell and metric the last counts.
        select: axes of which the best value on validation text, or on development sets, is taken.
        failures: why cells failed, by name.
    """
    select = list(select)
    metrics: dict[str, dict[str, Score]] = {}
    tuned: dict[str, dict[str, Cell]] = {}
    unknown: dict[str, None] = {}
    for row in _best_on_dev(rows, [axis for axis in select if axis.startswith(FINETUNE)]):
        cell = _key(row.axes, [axis for axis in row.axes if axis.startswith(FINETUNE)])
        if not row.data:
            name = WRITTEN.sub(r"\1mask-only/", row.metric)
            metrics.setdefault(cell, {})[name] = row.model_copy(update={"metric": name})
            unknown |= {} if is_known(name) else {row.metric: None}
            if name == PERPLEXITY:
                loss = {"metric": LOSS, "value": math.log(row.value)}
                metrics[cell][LOSS] = row.model_copy(update=loss)
        elif row.reported:
            points = tuned.setdefault(cell, {})
            point = points.setdefault(_key(row.axes), Cell("", 0, row.axes, {}, {}))
            name = f"{TASK}{row.data}/{row.metric}"
            first = next(iter(point.tasks.get(name, {}).values()), row)
            if first.split != row.split:  # the second one of several, as GLUE's MNLI has
                name = f"{TASK}{row.data}/{row.split}/{row.metric}"
            point.tasks.setdefault(name, {})[row.seed] = row
    if unknown:
        logger.warning("rows of unknown metrics, left out of tables: %s", ", ".join(unknown))
    cells = []
    for key, own in _on_common(metrics).items():
        first = next(iter(own.values()))
        seed = first.axes.get("seed")
        at = tuned.get(key, {}).values() or [Cell("", 0, first.axes, {})]
        cells += [
            Cell(first.model, seed if isinstance(seed, int) else 0, one.axes, own, one.tasks)
            for one in at
        ]
    return Results(tuple(_groups(cells, select)), dict(failures or {}))


def _key(axes: Mapping[str, Value], without: Sequence[str] = ()) -> str:
    return repr(sorted((axis, value) for axis, value in axes.items() if axis not in without))


def _best_on_dev(rows: Iterable[Score], chosen: Sequence[str]) -> list[Score]:
    """Return the rows, those of fine-tuning without the chosen axes and at their best point.

    It is for each task that with the highest mean score on the development set, over the seeds of
    training and of fine-tuning.
    """
    kept: list[Score] = []
    rivals: dict[tuple[str, ...], dict[str, list[Score]]] = {}
    for row in rows:
        if not (row.data and chosen):
            kept.append(row)
            continue
        place = (row.data, row.split, row.metric, _key(row.axes, [*chosen, "seed"]))
        rivals.setdefault(place, {}).setdefault(_key(row.axes, ["seed"]), []).append(row)
    for points in rivals.values():
        best = max(points.values(), key=lambda own: fmean(_dev(row) for row in own))
        for row in best:
            axes = {axis: value for axis, value in row.axes.items() if axis not in chosen}
            kept.append(row.model_copy(update={"axes": axes}))
    return kept


def _dev(row: Score) -> float:
    return float(row.facts.get("dev") or -math.inf)


def _on_common(cells: dict[str, dict[str, Score]]) -> dict[str, dict[str, Score]]:
    """Return the metrics of cells with bits per character over the words that every cell scores.

    They stay as they are where a row does not tell of its words, where models were asked for
    other words, and where no word or every word is common.
    """
    words = {name: own[BITS].words for name, own in cells.items() if BITS in own}
    if not all(words.values()) or len({len(row or ()) for row in words.values()}) != 1:
        return cells
    scores_RW2 = np.array(list(words.values()))
    characters_RW = scores_RW2[..., 1]
    common_W = np.asarray((characters_RW > 0).all(0))
    same = ((characters_RW == characters_RW.max(0)) | (characters_RW == 0)).all()
    if not same or not common_W.any() or bool(((characters_RW > 0) == common_W).all()):
        return cells
    changed = dict(cells)
    for name, scores_W2 in zip(words, scores_RW2 * common_W[:, None], strict=True):
        bits_W, length_W = scores_W2.T
        sums = blocks(bits_W, length_W)
        update = {
            "value": float(bits_W.sum() / length_W.sum()),
            "n": int(common_W.sum()),
            "blocks": tuple(map(tuple, sums)) if np.isfinite(sums).all() else None,
        }
        changed[name] = cells[name] | {BITS: cells[name][BITS].model_copy(update=update)}
    return changed


def _groups(cells: Sequence[Cell], select: Sequence[str]) -> list[SeedGroup]:
    """Return the groups by size and label, of a selected axis the best value alone."""
    names = dict.fromkeys(axis for cell in cells for axis in cell.axes if axis not in PLACES)
    varied = [a for a in names if len({repr(cell.axes.get(a, ...)) for cell in cells}) > 1]
    ends = [axis.rpartition(".")[2] for axis in varied]
    short = {a: e if ends.count(e) == 1 else a for a, e in zip(varied, ends, strict=True)}
    together: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        beside = together.setdefault(_key(cell.axes, [*select, "seed"]), {})
        beside.setdefault(_key(cell.axes, ["seed"]), []).append(cell)
    found = []
    for rivals in together.values():
        best = [min(rivals.values(), key=lambda of: fmean(cell.valid_loss for cell in of))]
        for members in best if select else rivals.values():
            axes = members[0].axes
            method, size = str(axes.get("method", "model")), axes.get("sentences")
            parts = [f"{short[axis]} {axes[axis]}" for axis in varied if axis in axes]
            label = ", ".join([TITLES.get(method, method), *parts])
            ordered = tuple(sorted(members, key=lambda cell: cell.seed))
            found.append(SeedGroup(label, method, size if isinstance(size, int) else None, ordered))
    order = Results(tuple(found)).labels
    return sorted(found, key=lambda g: (g.sentences or math.inf, order.index(g.label)))
