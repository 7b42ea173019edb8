"""The rows of a study in order: cells that differ in the seed alone stand together.

From the folder of a finished step of a cell to its rows of results.jsonl.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from lingraft.evaluation import records
from lingraft.finetuning import outcomes
from lingraft.report import figure, variants
from lingraft.report.row import Blocks, Score
from lingraft.study.analysis import BITS, CURVE, LOSS, PERPLEXITY, TASK, Cell, SeedGroup
from lingraft.study.grid import FINETUNE, PLACES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.report.row import Value
    from lingraft.rundir import Run


REFERENCES = ("scratch", "xlm")
"""Methods from random weights, which others are measured against; the first that is there."""
WRITTEN = re.compile(r"(^|/)(spans|infilling)/")
"""Prefix of scores on hidden text that an encoder-decoder writes, shown as what others fill in."""


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
        """Return the method that the others are measured against, as labels name it."""
        methods = {group.method for group in self.groups}
        found = next((method for method in REFERENCES if method in methods), None)
        return found and variants.TITLES.get(found, found)

    def base_of(self, group: SeedGroup) -> str | None:
        """Return the label that a group is measured against: of the same values of the axes."""
        bases = [one for one in self.groups if one.label == f"{self.reference}{one.point}"]
        found = {one.point: one.label for one in bases if one.method != group.method}
        only = next(iter(found.values())) if len(found) == 1 else None
        return found.get(group.point, only)


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
    for row in _best_on_dev(rows, [axis for axis in select if axis.startswith(FINETUNE)]):
        cell = _key(row.axes, [axis for axis in row.axes if axis.startswith(FINETUNE)])
        if not row.data:
            name = WRITTEN.sub(r"\1mask-only/", row.metric)
            metrics.setdefault(cell, {})[name] = row.model_copy(update={"metric": name})
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
    training and of fine-tuning, among those that the fewest seeds lack: a seed may have diverged.
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
        best = max(points.values(), key=lambda own: (len(own), fmean(map(_dev, own))))
        for row in best:
            axes = {axis: value for axis, value in row.axes.items() if axis not in chosen}
            kept.append(row.model_copy(update={"axes": axes}))
    return kept


def _dev(row: Score) -> float:
    found = row.facts.get("dev")
    return -math.inf if found is None else float(found)


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
        sums = records.blocks(bits_W, length_W)
        update = {
            "value": float(bits_W.sum() / length_W.sum()),
            "n": int(common_W.sum()),
            "blocks": tuple(map(tuple, sums)) if np.isfinite(sums).all() else None,
        }
        changed[name] = cells[name] | {BITS: cells[name][BITS].model_copy(update=update)}
    return changed


def _groups(cells: Sequence[Cell], select: Sequence[str]) -> list[SeedGroup]:
    """Return the groups by size and label, of a selected axis the best value alone.

    That is the one of the lowest loss among those that the fewest seeds lack.
    """
    told = (*PLACES, *select)
    names = dict.fromkeys(axis for cell in cells for axis in cell.axes if axis not in told)
    varied = [a for a in names if len({repr(cell.axes.get(a, ...)) for cell in cells}) > 1]
    ends = [axis.rpartition(".")[2] for axis in varied]
    short = {a: e if ends.count(e) == 1 else a for a, e in zip(varied, ends, strict=True)}
    together: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        beside = together.setdefault(_key(cell.axes, [*select, "seed"]), {})
        beside.setdefault(_key(cell.axes, ["seed"]), []).append(cell)
    found = []
    for rivals in together.values():
        best = [min(rivals.values(), key=lambda of: (-len(of), fmean(c.valid_loss for c in of)))]
        for members in best if select else rivals.values():
            axes = members[0].axes
            method, size = str(axes.get("method", "model")), axes.get("sentences")
            parts = {axis: f"{short[axis]} {axes[axis]}" for axis in varied if axis in axes}
            own = [part for axis, part in parts.items() if not axis.startswith(FINETUNE)]
            title = variants.TITLES.get(method, method)
            chosen = [f"{axis.rpartition('.')[2]} {axes[axis]}" for axis in select if axis in axes]
            found.append(
                SeedGroup(
                    ", ".join([title, *parts.values()]),
                    method,
                    size if isinstance(size, int) else None,
                    tuple(sorted(members, key=lambda cell: cell.seed)),
                    ", ".join([title, *own]),
                    ", ".join(chosen),
                )
            )
    order = Results(tuple(found)).labels
    return sorted(found, key=lambda g: (g.sentences or math.inf, order.index(g.label)))


MACHINE_KEYS = ("cpu", "cores", "threads", "processes", "precision")


def training(common: dict[str, Any], run: Run) -> list[Score]:
    """Return the rows of a cell that was trained and evaluated.

    Args:
        common: model, inputs and axes of every row.
        run: the cell's folder.
    """
    (model, *_) = variants.models_of(run)
    environment = model.environment or {}
    stages = ("graft", *(phase.name for phase in model.phases), "evaluation")
    facts: dict[str, Value] = {
        "tokens": model.tokens or 0,
        "seconds": round(sum(run.stage(name).done()["seconds"] for name in stages), 2),
        "training_seconds": model.seconds or 0.0,
        "parameters": int(run.stage("graft").result()["parameters"]["total"]),
        "device": ", ".join(dict.fromkeys(map(str, environment.get("devices", ())))),
        **{key: environment[key] for key in MACHINE_KEYS if key in environment},
        **{key: str(environment[key]) for key in variants.VERSION_KEYS if key in environment},
    }
    own = common | {"facts": facts}
    rows = []
    for row in (*variants.scores(model), *_curve(model)):
        told = {"words": _words(run, model.recipe.scored[0].prefix)} if row.metric == BITS else {}
        rows.append(row.model_copy(update=own | told))
    return rows


def _words(run: Run, prefix: str) -> Blocks:
    words = records.read(run.stage("evaluation").path / f"{prefix}{records.WORDS_FILE}")
    return tuple(
        (records.rounded(word.nats / math.log(2)), float(word.characters if word.scored else 0))
        for word in words
    )


def _curve(model: variants.TrainedModel) -> list[Score]:
    """Return the validation loss over tokens of all phases.

    The value is the lowest of the last one, whose weights were evaluated.
    """
    points: list[tuple[float, float]] = []
    last, before = [], 0
    for phase in model.phases:
        loss = _target_loss(model, phase)
        last = [(before + row["tokens"], float(f"{row[loss]:.6g}")) for row in phase.valid]
        points += last
        before += phase.tokens or 0
    curve = tuple(zip(*figure.thinned(points), strict=True))
    if not curve:
        return []
    value = min((loss for _, loss in last if math.isfinite(loss)), default=math.inf)
    return [
        Score(
            model="", metric=CURVE, value=value, n=len(curve), seed=model.recipe.seed,
            reported=False, points=curve,
        )
    ]  # fmt: skip


def _target_loss(model: variants.TrainedModel, phase: variants.PhaseRecord) -> str:
    """Return the column of a phase's losses; of a causal model of several texts its first one's.

    The others, which may be replayed text of the source's language, are no part of what the model
    is judged by.
    """
    first = model.recipe.scored[0].name
    is_causal = variants.kind_of(model.result("evaluation")) == "causal"
    labels = [label for label in (phase.result or {}).get("streams") or {} if is_causal]
    return next((f"loss/{label}" for label in labels if label.split("/")[0] == first), "loss")


def fine_tunings(common: dict[str, Any], run: Run, job: dict[str, Any]) -> list[Score]:
    """Return the rows of a task's fine-tunings that are done.

    Args:
        common: model and axes of every row.
        run: the cell's folder.
        job: what was asked for: the place of its results, its seeds, its inputs and axes.
    """
    own = common | {"inputs": job["inputs"], "axes": common["axes"] | job["axes"]}
    found = []
    for seed in job["seeds"]:
        folder = run.path / job["place"] / "cell" / job["name"] / f"seed-{seed}"
        if (folder / outcomes.SCORES).is_file():
            outcome = outcomes.read_outcome(folder)
            found += [row.model_copy(update=own) for row in outcomes.rows_of(outcome)]
    return found
