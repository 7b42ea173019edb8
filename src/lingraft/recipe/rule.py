"""A rule of preset `auto`: one row of its table (`auto`, `auto_causal`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingraft.recipe.facts import Facts


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    key: str
    """What it decides, as a path in the recipe."""
    name: str
    holds: Callable[[Facts], bool]
    value: Callable[[Facts], Any]
    why: str
    rows: tuple[str, ...] = ()
    """Committed results that support it; empty where it is unsure."""
    candidates: Callable[[Facts], tuple[Any, ...]] | None = None
    """What short trials compare; None trusts the value."""
