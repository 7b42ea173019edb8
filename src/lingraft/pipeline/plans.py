"""What a run's plan.json says of its recipe; light, so that a study can read it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.recipe.decoding import decode
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.recipe import Recipe
    from lingraft.rundir import Run


def completed(run: Run) -> Recipe | None:
    """The complete recipe that a run has made of an open one; None where it has not yet."""
    fixed = read_json(run.plan_path)["fixed"] if run.plan_path.is_file() else None
    return decode(fixed) if fixed else None


def is_undecided(run: Run) -> bool:
    """Whether a run has a plan that does not say all yet."""
    return run.plan_path.is_file() and not read_json(run.plan_path)["fixed"]


MOVED = "the text's path: to keep what is done, put the text back or link it there"


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The sections in which two recipes differ; if a text has moved, and no more, that is told."""
    keys = [key for key in dict.fromkeys((*now, *before)) if before.get(key) != now.get(key)]
    if keys != ["corpus"] or not (before.get("corpus") and now.get("corpus")):
        return keys
    moved = before["corpus"] | {"text": now["corpus"].get("text")} == now["corpus"]
    return [MOVED] if moved else keys
