"""Layers of a grafted model, and what each of them starts from. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingraft.models.families import Family
    from lingraft.recipe import Graft


class IdentityLayer(int):
    """A source layer, of which a copy that adds nothing is meant."""


Plan: TypeAlias = "Sequence[int | None]"
"""For each layer of the target, the source layer that it starts from; None for a fresh one,
`IdentityLayer` for a copy that adds nothing."""
Plans: TypeAlias = "Plan | tuple[Plan, ...]"
"""Plan of each list of layers; one alone is that of the first, and leaves the second as it is."""
STARTS: dict[str, Callable[[int], int | None]] = {
    "random": lambda _: None,
    "copy": int,
    "identity": IdentityLayer,
}
"""Start of an inserted layer, by initializer and the source layer next to it."""


def layer_plan(
    num_layers: int, before: int, after: int, initializer: str, every: int = 0
) -> list[int | None]:
    """Return the source layer that each layer of the target starts from; None for a fresh one.

    Args:
        num_layers: layers of the source.
        before: implicit translation layers before the first.
        after: implicit translation layers after the last.
        initializer: 'random' (the paper), or of the neighbouring source layer a 'copy' or one that
            adds nothing ('identity').
        every: another layer after every so many source layers; 0 for none.
    """
    start = STARTS[initializer]
    layers = Places(before, after, every).neighbours(num_layers)
    return [start(index) if is_new else index for index, is_new in layers]


def layer_plans(
    config: Any, family: Family, before: int, after: int, initializer: str, every: int = 0
) -> tuple[list[int | None], ...]:
    """Return the `layer_plan` of each list of layers.

    An encoder–decoder gets as many in both: the language enters both through the embeddings and
    leaves through the head, and stock T5 does not generate where its decoder is the deeper one.
    """
    return tuple(
        layer_plan(int(getattr(config, stack.depth_key)), before, after, initializer, every)
        for stack in family.lists
    )


def each_plan(config: Any, family: Family, plan: Plans) -> list[Plan]:
    """Return the plan of each list of layers."""
    plans = list(plan) if isinstance(plan, tuple) else [plan]
    stacks = family.lists[len(plans) :]
    return [*plans, *(range(int(getattr(config, stack.depth_key))) for stack in stacks)]


def nearest(plan: Plan) -> list[int]:
    """Return, for each layer of the target, its source layer or the nearest one before it.

    Before the first source layer, it is the first one behind.
    """
    neighbour = next((index for index in plan if index is not None), 0)
    neighbours = []
    for index in plan:
        neighbour = neighbour if index is None else index
        neighbours.append(neighbour)
    return neighbours


def check_layers(family: Family, config: Mapping[str, Any], graft: Graft) -> None:
    """Refuse inserted layers that a source cannot have.

    Args:
        family: of the source.
        config: its config.json.
        graft: of the recipe.

    Raises:
        RecipeError: a list of layers is shorter than `inserted_every`, so there would be none.
        UnsupportedModelError: as `check_identity`.
    """
    if graft.inserted_init == "identity" and any(graft.places):
        check_identity(family, config)
    depth = min(int(config.get(stack.depth_key, 1_000)) for stack in family.lists)
    if graft.inserted_every > depth:
        raise RecipeError(f"graft.inserted_every: the source has {depth} layers; set it to fewer")


def check_identity(family: Family, config: Mapping[str, Any]) -> None:
    """Refuse identity layers where a family has none.

    Args:
        family: of the source.
        config: its config.json.

    Raises:
        UnsupportedModelError: its layers end with a norm of the sum.
    """
    identity = family.identity
    key, value = identity.where if identity and identity.where else ("", None)
    if identity is None or config.get(key, value) != value:
        raise UnsupportedModelError(
            f"graft.inserted_init: 'identity' is not possible with this {family.model_type} "
            "model, whose layers end with a norm (post-LN); take 'copy' or 'random'"
        )
