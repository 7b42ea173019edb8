"""Budgets of `lingraft adapt`: how long it may train, and what to say where nobody says so."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe.auto import AUTO
from lingraft.recipe.decoding import override
from lingraft.recipe.records import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lingraft.recipe import Recipe

logger = logging.getLogger(__name__)

FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmbg]?)", re.IGNORECASE)
PAPER = "xpt2021"
"""The preset of the methods that `auto` knows: those that go on from one masked language model."""


def count(text: str, option: str) -> float:
    """A number as people write it: 5M, 300k, 1.5B, 2e6.

    Raises:
        RecipeError: it is none.
    """
    plain = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", text.strip())  # 1,500,000, but not 1,5M
    match = NUMBER.fullmatch(plain)
    value = float(match[1]) * FACTORS[match[2].lower()] if match else 0.0
    if not value:
        raise RecipeError(f"{option} {text}: write a number above 0, as 300k, 5M or 1.5B")
    return value


def chosen(form: Mapping[str, object]) -> dict[str, Any] | None:
    """The budget of a short form, as plain data; None where none is given.

    Raises:
        RecipeError: several are given.
    """
    tokens = form.get("tokens")
    values = {
        "minutes": form.get("minutes"),
        "hours": form.get("hours"),
        "tokens": None if tokens is None else count(str(tokens), "--tokens"),
        "steps": form.get("steps"),
    }
    budgets = [(unit, value) for unit, value in values.items() if value is not None]
    if len(budgets) > 1:
        names = " and ".join(f"--{unit}" for unit, _ in budgets)
        raise RecipeError(f"{names} are both budgets; give one of them")
    return {"value": budgets[0][1], "unit": budgets[0][0]} if budgets else None


def default_preset(
    form: Mapping[str, Any], assignments: Sequence[str], *, joins: bool = False, yes: bool = False
) -> str | None:
    """The preset of the form without a recipe, where nobody names one.

    'auto' for a text in one language, where it knows the method and the phases are not set by hand;
    else None, which takes that of the method's own paper.

    Args:
        form: the method (`method`), the budget, and the `streams` that the texts stand for, where
            there are.
        assignments: of --set.
        joins: whether the languages join those of a finished run.
        yes: whether the paper's budget is taken where none is given.
    """
    method, streams = form.get("method"), form.get("streams", ())
    record = METHODS.get(method or "xpt")
    has_rules = record is not None and record.preset == PAPER and bool(record.stretches)
    by_hand = any(map(_sets_phases, assignments))
    measured = len(streams) < 2 and not joins  # of several languages no rule was measured
    budgeted = chosen(form) or any(text.strip().startswith("method.budget") for text in assignments)
    papers = yes and not budgeted
    if not (has_rules and measured and not papers):
        return None
    if by_hand:
        logger.warning(
            "--set phases.…: takes the settings of preset %s, not those of 'auto'; name --preset, "
            "or set keys of method instead",
            PAPER,
        )
    return None if by_hand else AUTO


def check_given(
    data: dict[str, Any], assignments: Sequence[str], *, yes: bool = False, in_python: bool = False
) -> None:
    """Refuse a run that nobody gave a budget, and say what the paper's would take here.

    A paper's preset that is named, or a phase set by hand, asks for what it says.

    Args:
        data: a recipe as plain data.
        assignments: of --set.
        yes: whether the paper's budget is taken where none is given.
        in_python: whether `lingraft.adapt` was called, which has arguments and no --yes.

    Raises:
        RecipeError: there is no budget.
    """
    early = [text for text in assignments if not _sets_phases(text)]
    plain = override(data, early)
    method = plain.get("method", {})
    if not isinstance(method, dict) or method.get("budget"):
        return
    preset, by_hand = method.get("preset"), len(early) < len(assignments) or "phases" in plain
    if preset != AUTO and (preset is not None or yes or by_hand):
        return
    from lingraft.recipe.methods import recipe_from

    papers = recipe_from(plain | {"method": {k: v for k, v in method.items() if k != "preset"}})
    if not papers.phases:
        return
    steps = sum(phase.budget.value for phase in papers.phases)
    batch = papers.phases[0].batch
    more = " without --preset takes them, with the paper's settings" if preset else " takes them"
    options, taken = "--minutes, --hours, --tokens or --steps", f"--yes{more}"
    if in_python:
        options = "minutes=, hours=, tokens= or steps="
        taken = f"preset={papers.method.preset!r} takes them, with the paper's settings"
    raise RecipeError(
        f"no budget: give {options}; the paper's {steps:,.0f} steps "
        f"of {batch.size:,} {batch.unit} would take {_estimate(papers)} here ({taken})"
    )


def _sets_phases(text: str) -> bool:
    """Whether an assignment of --set is of phases, which are there once the method is known."""
    return text.strip().startswith(("phases.", "phases="))


def _estimate(recipe: Recipe) -> str:
    """How long a recipe takes on this machine, from the speed of a matrix product."""
    from lingraft.report import numbers
    from lingraft.study import estimate

    cost = estimate.cost_of(recipe)
    if not cost.flops:
        return "an unknown time (the size of the model is not known before it is loaded)"
    seconds = estimate.guessed(1).seconds([cost])
    return f"about {numbers.duration(seconds)}"
