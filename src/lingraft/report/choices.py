"""What was decided of a recipe, from choices.json: for the log and for the page."""

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
    if not choices:
        return []
    decided = [f"  {one['key']} = {_shown(one['value'])} ({_because(one)})" for one in choices]
    return ["decided by source, text and budget:", *decided]


def _because(choice: Mapping[str, Any]) -> str:
    return "; ".join(filter(None, (choice["source"], choice["why"])))


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _record(run: Run) -> dict[str, Any]:
    return read_json(run.choices_path) if run.choices_path.is_file() else {}


def decided(run: Run) -> Table | None:
    """Return what was decided of a run's recipe; None where it left nothing open."""
    rows = [
        (one["key"], _shown(one["value"]), one["source"], one["why"])
        for one in _record(run).get("choices", ())
    ]
    texts = (Column(name, "text") for name in ("key", "value", "source"))
    return table("What was decided", (*texts, Column("why", "long")), rows) if rows else None


def note_time(run: Run, took: float, seconds: float) -> None:
    """Write down how long a run took whose budget is in time, and say it."""
    write_record(run.choices_path, _record(run) | {"took": took, "seconds": seconds})
    level = logging.WARNING if took > seconds else logging.INFO
    logger.log(level, "time: %s", _kept(took, seconds))


def took(run: Run) -> str:
    """Return how long a run took beside its budget in time; empty where it has none."""
    record = _record(run)
    return _kept(record["took"], record["seconds"]) if "took" in record else ""


def _kept(took: float, seconds: float) -> str:
    return f"{numbers.duration(took)} of {numbers.duration(seconds)}"
