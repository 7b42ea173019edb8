"""Budgets as the command line and Python take them: as a recipe does, or a paper's own."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from lingraft.errors import RecipeError
from lingraft.recipe.phase import Budget

PAPER = "paper"
"""The preset's own budget."""


def budget(text: str) -> dict[str, Any] | None:
    """Return a budget as plain data; None for the preset's own.

    Raises:
        RecipeError: it is no amount above 0 with a unit.
    """
    if text.strip() == PAPER:
        return None
    try:
        return dict(Budget.model_validate(text))
    except ValidationError:
        raise RecipeError(
            f"budget '{text}': write an amount above 0 with its unit, as 30m, 8h, 5Mtok, 300steps, "
            "'2 epochs', or paper for the preset's own"
        ) from None
