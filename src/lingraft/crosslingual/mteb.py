"""Results that mteb has written, as a table. No torch, and no mteb.

mteb writes one JSON file a task: `results/MODEL/REVISION/TASK.json` with `scores`, which holds, by
split, one object a subset with `hf_subset` and `main_score` (0 … 1). Before version 1.11 the splits
stood at the top, with an object a language or the scores themselves; both forms are read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lingraft.errors import DataError
from lingraft.report import numbers
from lingraft.report.table import BEST, Cell, Column, row, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lingraft.report.table import Table

META = "model_meta.json"
MAIN = "main_score"
WHOLE = "default"
"""mteb's name of a task's only subset."""


@dataclass(frozen=True)
class Measured:
    """One score."""

    model: str
    task: str
    split: str
    subset: str
    value: float
    """Percent."""


def read(folder: Path) -> list[Measured]:
    """All main scores below a folder.

    Args:
        folder: what `mteb run --output-folder` wrote, or one model's folder in it.

    Raises:
        DataError: there are none, or a file is broken.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such directory; give the folder of mteb's results")
    scores: list[Measured] = []
    for path in sorted(folder.rglob("*.json")):
        if path.name == META:
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: is no JSON ({error}); delete it, or copy it again") from None
        if isinstance(data, dict):
            name = data.get("task_name") or data.get("mteb_dataset_name")
            scores += _scores(data, _model(path, folder), str(name or path.stem))
    if not scores:
        raise DataError(
            f"{folder}: holds no results of mteb; expected are files MODEL/REVISION/TASK.json with "
            "'scores'"
        )
    keys: set[tuple[str, ...]] = set()
    for score in scores:
        key = (score.model, score.task, score.split, score.subset)
        if key in keys:
            raise DataError(
                f"{folder}: {score.task} of {score.model} is there twice (two revisions, say); "
                "give the folder of one"
            )
        keys.add(key)
    return scores


def _model(path: Path, folder: Path) -> str:
    """The model's name, of MODEL/REVISION/TASK.json; `/` is written `__` there."""
    revision = path.parent
    meta = revision / META
    if meta.is_file():
        try:
            name = json.loads(meta.read_text(encoding="utf-8")).get("name")
        except (OSError, ValueError, AttributeError):
            name = None
        if isinstance(name, str):
            return name
    owner = revision if revision == folder else revision.parent
    return owner.resolve().name.replace("__", "/")


def _scores(data: dict[str, Any], model: str, task: str) -> Iterator[Measured]:
    splits = data.get("scores")
    if isinstance(splits, dict):
        for split, rows in splits.items():
            for entry in rows if isinstance(rows, list) else ():
                if isinstance(entry, dict) and _is_number(entry.get(MAIN)):
                    subset = str(entry.get("hf_subset", WHOLE))
                    yield Measured(model, task, str(split), subset, 100 * entry[MAIN])
        return
    if "mteb_dataset_name" not in data:
        return
    for split, scores in data.items():
        if not isinstance(scores, dict):
            continue
        subsets = {WHOLE: scores} if MAIN in scores else scores
        for subset, entry in subsets.items():
            if isinstance(entry, dict) and _is_number(entry.get(MAIN)):
                yield Measured(model, task, str(split), str(subset), 100 * entry[MAIN])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(scores: list[Measured]) -> Table:
    """Tasks × models; a task with several subsets has a row each and one of their mean."""
    models = list(dict.fromkeys(score.model for score in scores))
    values = {(score.task, score.split, score.subset, score.model): score.value for score in scores}
    rows = []
    for task, split in dict.fromkeys((score.task, score.split) for score in scores):
        own = (score.subset for score in scores if (score.task, score.split) == (task, split))
        of_subsets = {
            subset: [values.get((task, split, subset, model)) for model in models] for subset in own
        }
        rows += [row(task, split, name, *_cells(of)) for name, of in of_subsets.items()]
        if len(of_subsets) > 1:
            means = map(_mean, zip(*of_subsets.values(), strict=True))
            rows.append(row(task, split, "mean", *_cells(list(means)), role="total"))
    text = (Column(name, "text") for name in ("task", "split", "subset"))
    note = "Main scores as mteb wrote them, times 100; a mean needs all subsets."
    return table("mteb", (*text, *models), rows, [note])


def _mean(scores: Sequence[float | None]) -> float | None:
    known_scores = [value for value in scores if value is not None]
    return fmean(known_scores) if len(known_scores) == len(scores) else None


def _cells(scores: Sequence[float | None]) -> list[Cell]:
    known_scores = [value for value in scores if value is not None]
    best = max(known_scores, default=None) if len(scores) > 1 else None
    return [
        Cell(numbers.fixed(value, 1), rank=BEST if value is not None and value == best else 0)
        for value in scores
    ]
