"""Layers of a grafted model, and what each of them starts from. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lingraft.models.families import Family
    from lingraft.recipe import Graft


class Silent(int):
    """A source layer, of which a copy that adds nothing is meant."""


Plan: TypeAlias = "Sequence[int | None]"
"""For each layer of the target, the source layer that it starts from; None for a fresh one,
`Silent` for a copy that adds nothing."""
Plans: TypeAlias = "Plan | tuple[Plan, ...]"
"""Plan of each list of layers; one alone is that of the first, and leaves the second as it is."""
STARTS: dict[str, Callable[[int], int | None]] = {
    "random": lambda _: None,
    "copy": int,
    "identity": Silent,
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

    Raises:
        RecipeError: see `check_every`.
    """
    check_every(family, config.to_dict(), every)
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
    """Refuse inserted layers that a source cannot have; raises as the three checks below.

    Args:
        family: of the source.
        config: its config.json.
        graft: of the recipe.
    """
    if graft.inserted_init == "identity" and any(graft.places):
        check_identity(family, config)
    check_every(family, config, graft.inserted_every)
    if graft.source_weights == "pretrained":
        check_first(family, config, graft)


def check_first(family: Family, config: Mapping[str, Any], graft: Graft) -> None:
    """Refuse a layer before a first one that would need the bias of a norm which it lacks.

    Args:
        family: of the source.
        config: its config.json; a depth that it leaves open is not checked.
        graft: of the recipe.

    Raises:
        UnsupportedModelError: for the weight of that norm there is a stand-in, for a bias none.
    """
    depth = config.get(family.lists[0].depth_key)
    if family.first_layer_lacks is None or not config.get("norm_bias") or depth is None:
        return
    plan = layer_plan(int(depth), *graft.places[:2], graft.inserted_init, graft.places.every)
    if 0 in plan[1:]:
        raise UnsupportedModelError(
            f"graft: with norm_bias this {family.model_type} model takes no new layer before its "
            "first one, nor a copy of that, for it lacks the bias of a norm; set "
            "graft.inserted_before=0 and graft.inserted_init=random"
        )


def check_every(family: Family, config: Mapping[str, Any], every: int) -> None:
    """Refuse a new layer after every so many of a source that has fewer: there would be none.

    Args:
        family: of the source.
        config: its config.json; a depth that it leaves open is not checked.
        every: as in the recipe's [graft].

    Raises:
        RecipeError: a list of layers is shorter.
    """
    for stack in family.lists:
        depth = config.get(stack.depth_key)
        if depth is not None and every > int(depth):
            raise RecipeError(
                f"graft.inserted_every: {every} is more than the source's {depth} layers, so no "
                f"layer would be inserted; set graft.inserted_every={depth} or less"
            )


def check_identity(family: Family, config: Mapping[str, Any]) -> None:
    """Refuse silent layers where a family has none.

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
            "model: its layers pass on a norm of what they read (post-LN), so none leaves its "
            "input as it is; take 'copy' or 'random'"
        )
