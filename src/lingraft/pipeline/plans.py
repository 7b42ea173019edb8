"""What a run's plan.json says of its recipe; light, so that a study can read it, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.recipe.decoding import decode
from lingraft.rundir import read_json

if TYPE_CHECKING:
    from lingraft.recipe import Recipe
    from lingraft.rundir import Run


def completed(run: Run) -> Recipe | None:
    """The complete recipe that a run has made of an open one; None where it has not yet."""
    fixed = read_json(run.plan_path)["fixed"] if run.plan_path.is_file() else None
    return decode(fixed) if fixed else None


def is_undecided(run: Run) -> bool:
    """Whether a run has a plan that does not say all yet."""
    return run.plan_path.is_file() and not read_json(run.plan_path)["fixed"]
