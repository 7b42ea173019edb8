"""Decisions on a recipe, from choices.json: for the log and for the page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lingraft.report import numbers
from lingraft.report.table import Column, Table, table
from lingraft.rundir import read_json, write_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.rundir import Run

logger = logging.getLogger(__name__)


def lines(choices: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what was decided, a line a key; nothing where the recipe left nothing open."""
    decided = [
        f"  {one['key']} = {one['value']} ({one['source']}; {one['why']})" for one in choices
    ]
    return ["decided by source, text and budget:", *decided] if decided else []


def _record(run: Run) -> dict[str, Any]:
    return read_json(run.choices_path) if run.choices_path.is_file() else {}


def decided(run: Run) -> Table | None:
    """Return what was decided of a run's recipe; None where it left nothing open."""
    keys = ("key", "value", "source", "why")
    rows = [[str(one[key]) for key in keys] for one in _record(run).get("choices", ())]
    columns = (Column(name, "long" if name == "why" else "text") for name in keys)
    return table("What was decided", columns, rows) if rows else None


def note_time(run: Run, took: float, seconds: float) -> None:
    """Write down how long a run took whose budget is in time, and say it."""
    write_record(run.choices_path, _record(run) | {"took": took, "seconds": seconds})
    logger.log(logging.WARNING if took > seconds else logging.INFO, "time: %s", time_taken(run))


def time_taken(run: Run) -> str:
    """Return how long a run took beside its budget in time; empty where it has none."""
    record = _record(run)
    if "took" not in record:
        return ""
    return f"{numbers.duration(record['took'])} of {numbers.duration(record['seconds'])}"
