"""Rows of results.jsonl: all that a study's tables, curves and intervals are made from.

The file is the study's memory: a cell whose fingerprint has an `end` row is not run again, on this
machine or another, and the weights are not needed any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from lingraft.errors import DataError
from lingraft.recipe.renamed import present
from lingraft.report.row import Blocks, Score
from lingraft.rundir import json_line, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Value = str | int | float | bool | None


def _present(axes: Any) -> Any:
    """Return the axes of a row by their present names."""
    return {present(key): value for key, value in axes.items()} if isinstance(axes, dict) else axes


class CellRow(BaseModel):
    """What every row says about the cell that it comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: str
    cell: str
    """Stable id: the axes' values and a hash."""
    fingerprint: str
    """Of everything that decides the cell's result: its recipe, the source's weights, the text."""
    axes: Annotated[dict[str, Value], BeforeValidator(_present)]
    """Where the cell stands: `method`, `sentences`, `seed`, and any dotted path of the recipe."""


def _with_nan(words: Any) -> Any:
    """Words whose null is a number again."""
    if not words:
        return words
    return [[math.nan if value is None else value for value in word] for word in words]


class MetricRow(Score, CellRow):
    """One measured number."""

    kind: Literal["metric"] = "metric"
    seed: int
    tokens: int
    """Real tokens trained on, over all phases."""
    seconds: float
    """Training time over all phases."""
    words: Annotated[Blocks | None, BeforeValidator(_with_nan)] = None
    """Of bits per character: bits and characters of each word that was asked for, in an order that
    is the same for every model; 0 and 0 of one that the model dropped, null in a file for bits that
    were not finite."""


class CurveRow(CellRow):
    """The validation or training loss of one phase over real tokens."""

    kind: Literal["curve"] = "curve"
    phase: str
    split: Literal["train", "valid"]
    points: tuple[tuple[int, float], ...]
    """Tokens since the start of the first phase, and nats."""
    characters_per_token: float | None = None
    """Of a causal model, in what the phase read: what `points` count, in characters."""
    bytes_per_token: float | None = None
    """Of a causal model, in held-out text, by which nats become bits per byte."""


class EndRow(CellRow):
    """A cell has ended; written after its other rows."""

    kind: Literal["end"] = "end"
    status: Literal["done", "failed"]
    message: str = ""
    """Of the failure, one line."""
    seconds: float
    """Wall-clock time of the cell, start to end."""
    tokens: int = 0
    parameters: int = 0
    trained_parameters: dict[str, int] = {}
    """By phase."""
    machine: dict[str, Value] = {}
    """Device, threads, precision."""
    versions: dict[str, str] = {}


class TaskRow(CellRow):
    """A cell's model was fine-tuned on a task, once; or could not be.

    Beside the cell's other rows: a study that gets another task keeps all that it has.
    """

    kind: Literal["task"] = "task"
    task: str
    task_fingerprint: str
    """Of everything else that decides the result, but for the seed: data, labels, settings."""
    seed: int
    """Of fine-tuning."""
    status: Literal["done", "failed"]
    message: str = ""
    """Of the failure, one line."""
    scores: tuple[Score, ...] = ()
    shown: tuple[str, ...] = ()
    """The metrics that papers report."""
    splits: str = ""
    """What the splits are, as `Outcome.split_note`."""
    rules: dict[str, dict[str, float]] = {}
    """What needs no model, by rule and score (`tasks.rules`), of the first split reported."""
    train_examples: int = 0
    learning_rate: float | None = None
    """Of several that were tried the best on the development set; None where one was given."""
    seconds: float = 0.0
    """Training time."""
    machine: dict[str, Value] = {}


AnyRow = MetricRow | CurveRow | EndRow | TaskRow
ResultRow = Annotated[AnyRow, Field(discriminator="kind")]
FOREIGN = ("union_tag_not_found", "union_tag_invalid", "dict_type")
"""What pydantic calls a whole line that is no row of ours."""
ADAPTER: TypeAdapter[AnyRow] = TypeAdapter(ResultRow)


def read(path: Path) -> list[AnyRow]:
    """The rows of a results file; a last line cut short by a kill is left out.

    Raises:
        DataError: the file is missing or another program's, or another line is broken.
    """
    try:
        lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    except FileNotFoundError:
        raise DataError(f"{path}: is missing; lingraft study run makes it") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file of results") from None
    rows: list[AnyRow] = []
    for number, text in enumerate(lines, 1):
        try:
            rows.append(ADAPTER.validate_json(text))
        except ValidationError as error:
            first, is_row = error.errors()[0], text[:1] in (b"{", b"")
            if number == len(lines) and first["type"] == "json_invalid" and is_row:
                break
            if first["type"] in FOREIGN or not is_row:
                raise DataError(f"{path}: is no results file of lingraft study") from None
            where = ".".join(map(str, first["loc"])) or "is broken"
            raise DataError(
                f"{path}, line {number}: {where}: {first['msg']}; mend the line, or delete it and "
                "the others of its cell, which then runs again"
            ) from None
    return rows


def append(path: Path, lines: Iterable[str]) -> None:
    """Add lines of rows that a results file lacks; half a line that a kill left there goes.

    Args:
        path: the file, which need not exist. One process at a time writes it.
        lines: as `line` makes them.
    """
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    *present, last = text.split("\n")
    if _is_row(last):  # whole but for its end
        present.append(last)
    known = set(present)
    added = [one for one in lines if one not in known]
    if added:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, "".join(f"{one}\n" for one in (*present, *added)))


def line(row: AnyRow) -> str:
    """Return a row as a line of a results file."""
    return json_line(row.model_dump(mode="json")).rstrip("\n")


def _is_row(text: str) -> bool:
    try:
        ADAPTER.validate_json(text)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True)
class Outcome:
    """The last attempt at a cell that ended."""

    rows: tuple[MetricRow | CurveRow, ...]
    """Empty where it failed."""
    end: EndRow


def latest(rows: Iterable[AnyRow]) -> dict[str, Outcome]:
    """By fingerprint, how its cell ended; of several attempts, the last that was done counts.

    A number that an attempt wrote before it was killed is replaced by that of the next.
    """
    pending: dict[str, dict[tuple[str, ...], MetricRow | CurveRow]] = {}
    ended: dict[str, Outcome] = {}
    for row in rows:
        if isinstance(row, TaskRow):
            continue
        if not isinstance(row, EndRow):
            pending.setdefault(row.fingerprint, {})[_key(row)] = row
            continue
        collected = tuple(pending.pop(row.fingerprint, {}).values())
        before = ended.get(row.fingerprint)
        if row.status == "done":
            ended[row.fingerprint] = Outcome(collected, row)
        elif before is None or before.end.status == "failed":
            ended[row.fingerprint] = Outcome((), row)
    return ended


def _key(row: MetricRow | CurveRow) -> tuple[str, ...]:
    return ("metric", row.metric) if isinstance(row, MetricRow) else (row.phase, row.split)


Tuned = dict[tuple[str, int], TaskRow]
"""By fingerprint of the task and seed of fine-tuning."""


def fine_tuned(rows: Iterable[AnyRow]) -> dict[str, Tuned]:
    """By fingerprint of the cell, how its fine-tunings ended, in the order of their rows.

    Of several attempts at one, the last that was done counts.
    """
    by_cell: dict[str, Tuned] = {}
    for row in rows:
        if not isinstance(row, TaskRow):
            continue
        tuned = by_cell.setdefault(row.fingerprint, {})
        key = (row.task_fingerprint, row.seed)
        if row.status == "done" or key not in tuned or tuned[key].status == "failed":
            tuned.pop(key, None)
            tuned[key] = row
    return by_cell
