"""Rows of the studies in research/rows: five kinds, as `lingraft study` wrote them until Score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from lingraft.report.row import Blocks, Score as Present
from studies.renamed import present

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Value = str | int | float | bool | None


def _present(axes: Any) -> Any:
    """Return the axes of a row by their present names."""
    return {present(key): value for key, value in axes.items()} if isinstance(axes, dict) else axes


def _finite(blocks: Any) -> Any:
    """None of blocks of which one was not finite, which is null in a file."""
    return None if blocks and any(None in block for block in blocks) else blocks


class Score(BaseModel):
    """One measured number of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str
    value: Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
    n: int
    masks: str
    blocks: Annotated[Blocks | None, BeforeValidator(_finite)] = None


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
ADAPTER: TypeAdapter[AnyRow] = TypeAdapter(ResultRow)


def of_lines(lines: Iterable[bytes]) -> list[AnyRow]:
    """Return the rows of lines of either form: of five kinds, or `lingraft.report.row.Score`."""
    found: list[AnyRow] = []
    scores: dict[str, list[Present]] = {}
    for line in lines:
        if b'"kind": ' in line:
            found.append(ADAPTER.validate_json(line))
        else:
            one = Present.model_validate_json(line)
            axes = {key: of for key, of in one.axes.items() if not key.startswith(TUNING)}
            scores.setdefault(repr(sorted(axes.items())), []).append(one)
    for of_cell in scores.values():
        found += _of_cell(of_cell)
    return found


TUNING = "finetune."


def _of_cell(scores: Sequence[Present]) -> list[AnyRow]:
    """Return a cell's rows of before from its scores."""
    first = next(one for one in scores if not one.data)
    common: dict[str, Any] = {"study": "", "cell": first.model, "fingerprint": first.inputs}
    common["axes"] = first.axes
    facts: dict[str, Any] = dict(first.facts)
    rows: list[AnyRow] = []
    tasks: dict[tuple[str, str, int], list[Present]] = {}
    for one in scores:
        if one.data:
            size = one.axes.get(f"{TUNING}train_examples")
            name = f"{one.data}@{size}" if size else one.data
            tasks.setdefault((name, one.inputs, one.seed), []).append(one)
        elif one.points is not None:
            if one.metric == "curve/loss":
                rows.append(CurveRow(**common, phase="all", split="valid", points=one.points))
        else:
            rows.append(
                MetricRow(**common, metric=one.metric, value=one.value, n=one.n, masks=one.masks,
                          blocks=one.blocks, words=one.words, seed=one.seed,
                          tokens=facts["tokens"], seconds=facts["training_seconds"])
            )  # fmt: skip
    versions = ("lingraft", "python", "torch", "transformers", "tokenizers")
    rows.append(
        EndRow(**common, status="done", seconds=facts["seconds"], tokens=facts["tokens"],
               parameters=facts["parameters"],
               machine={key: of for key, of in facts.items() if key not in versions},
               versions={key: facts[key] for key in versions if key in facts})
    )  # fmt: skip
    for (name, inputs, seed), own in tasks.items():
        shown = [one for one in own if one.reported]
        named = {one.metric: f"task/{name}/{one.metric}" for one in shown}
        of_task: dict[str, Any] = dict(own[0].facts)
        rows.append(
            TaskRow(**common, task=name, task_fingerprint=inputs, seed=seed, status="done",
                    scores=tuple(Score(metric=named[one.metric], value=one.value, n=one.n,
                                       masks=one.masks, blocks=one.blocks) for one in shown),
                    shown=tuple(named.values()), splits=of_task.get("splits", ""),
                    train_examples=of_task.get("train_examples", 0),
                    learning_rate=of_task.get("learning_rate"), seconds=of_task.get("seconds", 0.0))
        )  # fmt: skip
    return rows


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
