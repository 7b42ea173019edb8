"""Shares of the budget for each phase of a method, and of a phase's tokens for each stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.recipe import Budget, Data, Recipe, Training
from lingraft.recipe.streams import check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.recipe.record import Stretch


def shares_of(stretches: Sequence[Stretch], method: Training) -> list[float]:
    """Return what each phase gets of a budget: the recipe's shares, else the method record's.

    Args:
        stretches: of the method, which need not be the one that `method` names.
        method: what the recipe says.
    """
    first = method.first_phase_share
    explicit = "first_phase_share" in method.model_fields_set
    shares = [stretch.share for stretch in stretches if stretch.share is not None]
    if len(stretches) == 2 and (explicit or not shares):
        return [first, 1 - first]
    return shares or [1.0] * len(stretches)


def split(budget: Budget, shares: Sequence[float]) -> list[float]:
    """Split a budget in parts; of steps each part has one at least, and they add up."""
    if not shares:
        return []
    if budget.unit != "steps":
        return [budget.value * share for share in shares]
    left = steps = int(budget.value)
    if steps < len(shares):
        raise RecipeError(
            f"training.budget: {steps} steps are too few for {len(shares)} phases; "
            f"give at least {len(shares)}"
        )
    parts = []
    for later, share in zip(range(len(shares) - 1, 0, -1), shares, strict=False):
        parts.append(float(min(max(1, round(steps * share)), left - later)))
        left -= int(parts[-1])
    return [*parts, float(left)]


def replayed(recipe: Recipe) -> tuple[Data, ...]:
    """Return what a phase reads if the method replays streams; nothing (all alike) if it does not.

    Raises:
        RecipeError: such a stream is not there, is all there is, or the shares leave nothing.
    """
    replay = recipe.training.replay
    if not replay:
        return ()
    names = [stream.name for stream in recipe.texts]
    check_names("training.replay", replay, names)
    if len(replay) == len(names) or sum(replay.values()) >= 1:
        raise RecipeError(
            "training.replay: leaves no tokens for the target's text; replay fewer streams, or in "
            "smaller shares"
        )
    return tuple(
        Data(stream=name, share=replay.get(name) or None) for name in names if replay.get(name) != 0
    )
