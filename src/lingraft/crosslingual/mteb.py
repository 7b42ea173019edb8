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
    from collections.abc import Iterator
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
    found: list[Measured] = []
    for path in sorted(folder.rglob("*.json")):
        if path.name == META:
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: is no JSON ({error}); delete it, or copy it again") from None
        if isinstance(data, dict):
            name = data.get("task_name") or data.get("mteb_dataset_name")
            found += _scores(data, _model(path, folder), str(name or path.stem))
    if not found:
        raise DataError(
            f"{folder}: holds no results of mteb; expected are files MODEL/REVISION/TASK.json with "
            "'scores'"
        )
    seen: set[tuple[str, ...]] = set()
    for one in found:
        key = (one.model, one.task, one.split, one.subset)
        if key in seen:
            raise DataError(
                f"{folder}: {one.task} of {one.model} is there twice (two revisions, say); give "
                "the folder of one"
            )
        seen.add(key)
    return found


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
            for one in rows if isinstance(rows, list) else ():
                if isinstance(one, dict) and _is_number(one.get(MAIN)):
                    subset = str(one.get("hf_subset", WHOLE))
                    yield Measured(model, task, str(split), subset, 100 * one[MAIN])
        return
    if "mteb_dataset_name" not in data:
        return
    for split, scores in data.items():
        if not isinstance(scores, dict):
            continue
        subsets = {WHOLE: scores} if MAIN in scores else scores
        for subset, one in subsets.items():
            if isinstance(one, dict) and _is_number(one.get(MAIN)):
                yield Measured(model, task, str(split), str(subset), 100 * one[MAIN])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(found: list[Measured]) -> Table:
    """Tasks × models; a task with several subsets has a row each and one of their mean."""
    models = list(dict.fromkeys(one.model for one in found))
    values = {(one.task, one.split, one.subset, one.model): one.value for one in found}
    rows = []
    for task, split in dict.fromkeys((one.task, one.split) for one in found):
        subsets = list(
            dict.fromkeys(one.subset for one in found if (one.task, one.split) == (task, split))
        )
        for subset in subsets:
            of = {model: values.get((task, split, subset, model)) for model in models}
            rows.append(row(task, split, subset, *_cells(of)))
        if len(subsets) > 1:
            means = {model: _mean(values, task, split, subsets, model) for model in models}
            rows.append(row(task, split, "mean", *_cells(means), role="total"))
    text = (Column(name, "text") for name in ("task", "split", "subset"))
    note = "Main scores as mteb wrote them, times 100; a mean needs all subsets."
    return table("mteb", (*text, *models), rows, [note])


def _mean(
    values: dict[tuple[str, str, str, str], float],
    task: str,
    split: str,
    subsets: list[str],
    model: str,
) -> float | None:
    each = [values.get((task, split, subset, model)) for subset in subsets]
    known = [value for value in each if value is not None]
    return fmean(known) if len(known) == len(each) else None


def _cells(of: dict[str, float | None]) -> list[Cell]:
    known = [value for value in of.values() if value is not None]
    best = max(known, default=None) if len(of) > 1 else None
    return [
        Cell(numbers.fixed(value, 1), rank=BEST if value is not None and value == best else 0)
        for value in of.values()
    ]
