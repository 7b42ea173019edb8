"""The plan of a run, and the rules that chose it: from plan.json, for the log and for the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lingraft.log import counted
from lingraft.recipe.choosing import GIVEN, without_effect
from lingraft.recipe.decoding import decode
from lingraft.report import numbers
from lingraft.report.table import Column, Table, table
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lingraft.recipe import Recipe
    from lingraft.rundir import Run

ROWS_AT = "research/rows/"


def _plan(run: Run) -> dict[str, Any] | None:
    plan = read_json(run.plan_path) if run.plan_path.is_file() else None
    return plan if plan and plan.get("fixed") else None


def lines(run: Run) -> list[str]:
    """The plan, a line a stage, for a log; nothing where the recipe left nothing open."""
    plan = _plan(run)
    if plan is None:
        return []
    output = ["plan:", *decisions(plan["choices"], decode(plan["fixed"]))]
    for row in plan["stages"]:
        line = f"  {row['name']}: {numbers.duration(row['seconds'])}"
        if row["tokens"]:
            speed = f"{row['tokens_per_second']:,.0f} tokens/s"
            line += f", {row['tokens']:,} tokens, {counted(row['steps'], 'step')} at {speed}"
        output.append(line)
    total = numbers.duration(sum(row["seconds"] for row in plan["stages"]))
    promise = plan["promised"]
    aim = f" of {numbers.duration(promise)}" if promise else ""
    disk = f"; {numbers.size(plan['disk_bytes'])} on disk" if plan["disk_bytes"] else ""
    output.append(f"  all: {total}{aim}{disk}")
    if memory := plan.get("memory"):  # plans made before it was told have none
        output.append(f"  memory: {memory}")
    return output


def decisions(choices: Sequence[dict[str, Any]], recipe: Recipe) -> list[str]:
    """What was decided, a line a key.

    Args:
        choices: each from `Choice.plain`.
        recipe: that they made; what it does not read is left out.
    """
    return [
        f"  {choice['key']} = {_shown(choice['value'])} ({_because(choice)})"
        for choice in _read(choices, recipe)
    ]


def _read(choices: Sequence[dict[str, Any]], recipe: Recipe) -> list[dict[str, Any]]:
    idle = without_effect(recipe)
    return [choice for choice in choices if choice["key"] not in idle]


def warnings(run: Run) -> list[str]:
    """What is wrong with the plan."""
    plan = _plan(run)
    return [] if plan is None else [str(warning) for warning in plan["warnings"]]


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, dict):
        return " ".join(str(part) for part in value.values())
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _because(choice: dict[str, Any]) -> str:
    if choice["rule"] == GIVEN:
        return "given"
    sure = "" if choice["sure"] else "unsure; "
    return f"rule {choice['rule']}: {sure}{choice['why']}"


def _by_file(rows: Sequence[str]) -> str:
    """How many of rows such as FILE:CELL each file has."""
    files = Counter(name.partition(":")[0] for name in rows)
    return ", ".join(f"{file} ({count})" for file, count in files.items())


def choices(run: Run) -> Table | None:
    """What was decided, by which rule, and how many rows of our studies support it."""
    plan = _plan(run)
    if plan is None or not plan["choices"]:
        return None
    rows = []
    for choice in _read(plan["choices"], decode(plan["fixed"])):
        support = _by_file(choice["rows"]) or numbers.ABSENT
        is_given = choice["rule"] == GIVEN
        why = "the command, the recipe or its method says so" if is_given else choice["why"]
        sure = "" if is_given else ("yes" if choice["sure"] else "no")
        rows.append((choice["key"], _shown(choice["value"]), choice["rule"], sure, why, support))
    texts = (Column(name, "text") for name in ("key", "value", "rule", "sure"))
    reasons = (Column(name, "long") for name in ("why", f"how many rows of {ROWS_AT}"))
    return table("What was decided, and why", (*texts, *reasons), rows)


def times(run: Run) -> Table | None:
    """Planned and true time of each stage."""
    plan = _plan(run)
    if plan is None:
        return None
    rows = []
    for row in plan["stages"]:
        done = [read_json(path) for path in _records(run, row["name"])]
        tokens = done[0]["result"].get("tokens") if done and row["tokens"] else None
        took = sum(record["seconds"] for record in done)
        rows.append(
            (
                row["name"],
                numbers.duration(row["seconds"]),
                numbers.duration(took) if done else "",
                numbers.count(row["tokens"]) if row["tokens"] else "",
                numbers.count(tokens) if tokens else "",
            )
        )
    head = (Column("stage", "text"), "planned", "took", "tokens planned", "tokens trained")
    note = (
        "Planned: all of the stage. Took: of a phase, its training without the looks at validation "
        "text. Empty: it has not ended, or nobody wrote its time down."
    )
    whole = [f"All: {kept(plan['took'], plan['promised'])}."] if "took" in plan else []
    return table("Plan", head, rows, [*whole, note])


def kept(took: float, promised: float) -> str:
    """Say how long a run took beside the time that it was promised to take."""
    broken = ": the promise was broken" if took > promised else ""
    return f"{numbers.duration(took)} of {numbers.duration(promised)} promised{broken}"


def _records(run: Run, name: str) -> list[Path]:
    """What the stage of a plan left when it ended; a baseline has stages of its own."""
    kind, _, method = name.partition(" ")
    if kind == "baseline":
        return sorted((run.path / "baselines" / method).glob("*/done.json"))
    done = run.stage(name).done_path
    return [done] if done.is_file() else []
