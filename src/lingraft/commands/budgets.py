"""Budgets of `lingraft adapt`: how long it may train."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lingraft.errors import RecipeError
from lingraft.recipe import Budget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}
UNITS = ("minutes", "hours", "tokens", "steps")
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmbg]?)", re.IGNORECASE)


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


def larger(folder: Path, form: Mapping[str, object]) -> Budget:
    """Return the budget that a finished run is to have in all.

    Raises:
        RecipeError: none is given, or several.
    """
    budget = chosen(form)
    if budget is None:
        raise RecipeError(
            f"{folder}: is a run; give the budget that it may have in all (--minutes, --hours, "
            "--tokens or --steps), or a recipe in its place"
        )
    return Budget.model_validate(budget)
