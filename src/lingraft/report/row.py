"""The one result row, its one writer and its one reader: `results.jsonl` of every folder.

A row is a measured number with what is needed to compare it: which model, on which data, by which
settings. Runs, studies, fine-tuning, retrieval, mining and alignment write these rows, and every
table of scores is made of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from lingraft.errors import DataError
from lingraft.files import json_line, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RESULTS = "results.jsonl"
Blocks = tuple[tuple[float, float], ...]
Value = str | int | float | bool | None


def _finite(blocks: Any) -> Any:
    """Return None for blocks of which one was not finite, which is null in a file."""
    return None if blocks and any(None in block for block in blocks) else blocks


def _numbers(pairs: Any) -> Any:
    """Return pairs whose null is a number again."""
    return pairs and [[math.nan if value is None else value for value in pair] for pair in pairs]


class Score(BaseModel):
    """Measured number of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    """Name of the model in tables; of a study the cell."""
    data: str = ""
    """Data that were scored: a task, a set, a pair of languages; empty for a run's own text."""
    split: str = ""
    metric: str
    """`SCHEME/NAME` on masked tokens (mask-only/perplexity), `bits_per_character`, `accuracy` …;
    scores of tasks are in per cent. `curve/…`: the lowest value of the last phase, with `points`.
    """
    value: Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
    """Null in a file is a number that was not finite."""
    n: int = 0
    """Number of things the value is a mean over: masked positions, words, or examples."""
    seed: int = 0
    """Seed of training; of a fine-tuned model that of fine-tuning."""
    masks: str = ""
    """Fingerprint of the masks or the scored examples: values compare only where it is equal."""
    reported: bool = True
    """Whether tables show it: papers report the score, on this split, at this layer."""
    inputs: str = ""
    """Fingerprint of everything that decides the value."""
    axes: dict[str, Value] = {}
    """Settings in which rows of a folder differ: method, seed, layer, languages …"""
    facts: dict[str, Value] = {}
    """Further facts: tokens and seconds of training, parameters, machine, versions …"""
    blocks: Annotated[Blocks | None, BeforeValidator(_finite)] = None
    """Sum and count of the averaged quantity by block of the test text (by hash of the sentence or
    document), for paired bootstrap intervals. Perplexity's are those of its logarithm, the loss in
    nats; those of scores in per cent are of the share. Task scores that are no means have jackknife
    values of the blocks, whose mean is the score. None where it was not kept, where papers do not
    report the score, or the test set has too few blocks."""
    words: Annotated[Blocks | None, BeforeValidator(_numbers)] = None
    """Bits and characters of each word that was asked for (bits per character), in an order that
    is the same for every model; 0 and 0 of one that the model dropped, null in a file for bits that
    were not finite."""
    points: Annotated[Blocks | None, BeforeValidator(_numbers)] = None
    """Points of a curve: tokens (or characters) seen, and the value."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Return what makes a later row stand for an earlier one."""
        made_of = self.inputs or repr((self.model, sorted(self.axes.items())))
        return made_of, self.data, self.split, self.metric, self.seed


def line(row: Score) -> str:
    """Return a row as a line of a results file."""
    return json_line(row.model_dump(mode="json", exclude_defaults=True))


def write(path: Path, rows: Iterable[Score]) -> None:
    """Write a results file anew, atomically."""
    write_text(path, "".join(map(line, rows)))


def merge(path: Path, rows: Iterable[Score]) -> None:
    """Put rows into a results file; they replace earlier ones of the same key, all others stay.

    Raises:
        DataError: as `read`.
    """
    present = {row.key: row for row in read(path)} if path.is_file() else {}
    write(path, (present | {row.key: row for row in rows}).values())


def read(path: Path) -> list[Score]:
    """Return the rows of a results file; a last line cut short by a kill is left out.

    Raises:
        DataError: the file is missing, of an earlier version or another program, or a line is
            broken.
    """
    try:
        lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    except FileNotFoundError:
        raise DataError(f"{path}: is missing; the command that fills its folder makes it") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a folder, not a file of results") from None
    rows: list[Score] = []
    for number, text in enumerate(lines, 1):
        try:
            rows.append(Score.model_validate_json(text))
        except ValidationError as error:
            first = error.errors()[0]
            cut = first["type"] == "json_invalid" and text[:1] in (b"{", b"")
            if number == len(lines) and cut:
                break
            where = ".".join(map(str, first["loc"])) or "is broken"
            raise DataError(
                f"{path}, line {number}: is no row of results of this version of lingraft "
                f"({where}: {first['msg']}); mend or delete the line, or move the file away and "
                "run the command that made it again, which keeps what is done"
            ) from None
    return rows
