"""Parts of a model that tensors belong to, by name. No torch.

Layers of a grafted model, and what each of them starts from. No torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.models.modules import owner_of
from lingraft.recipe import PARTS
from lingraft.recipe.base import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lingraft.models.families import Family
    from lingraft.recipe import Graft


def layer_index(name: str, family: Family) -> int | None:
    """Return the number of the layer that a tensor belongs to; None if it lies outside the layers.

    A decoder's layers behind an encoder are numbered from `families.DECODER` on.
    """
    for stack in family.lists:
        prefix = stack.layers + "."
        if name.startswith(prefix):
            return stack.first + int(name[len(prefix) :].split(".", 1)[0])
    return None


def goes_with_place(name: str, family: Family) -> bool:
    """Return whether a tensor is the one that the first layer alone has, for all layers."""
    ending = family.first_layer_has
    return ending is not None and name in [f"{one.layers}.0.{ending}" for one in family.lists]


def part_of(name: str, family: Family, itl_layers: frozenset[int]) -> str:
    """Return the part (one of `recipe.PARTS`) of a tensor.

    Args:
        name: tensor name in the stock masked-language-model class.
        family: the architecture's record.
        itl_layers: indices of the implicit translation layers.

    Raises:
        UnsupportedModelError: the record does not account for the tensor.
    """
    index = layer_index(name, family)
    if (module := owner_of(name)) is not None:
        return module.part
    if goes_with_place(name, family):
        return "positions"
    if index is not None:
        return "inserted" if index in itl_layers else "body"
    exact = {
        "embeddings": (family.word_embeddings, family.decoder, *family.embedding_aliases),
        "output_bias": family.output_bias,
        "positions": family.positions,
    }
    prefixes = {
        "embedding_norm": family.embedding_norm,
        "head": family.head_tensors,
        "body": family.body_tensors,
    }
    parts = [part for part, names in exact.items() if name in names]
    parts += [part for part, starts in prefixes.items() if name.startswith(starts)]
    if parts:
        return parts[0]
    raise UnsupportedModelError(
        f"tensor '{name}' of a {family.model_type} model belongs to no known part; "
        "its record in models/families/ is incomplete"
    )


def translation_layers(config: Any, family: Family, places: Places) -> frozenset[int]:
    """Return the numbers of a grafted model's inserted layers, in each list of layers.

    Args:
        config: of the grafted model.
        family: its record.
        places: as the recipe's [graft] has them.
    """
    return frozenset(
        stack.first + index
        for stack in family.lists
        for index in places.inserted(int(getattr(config, stack.depth_key)))
    )


def sizes_by_part(sizes: Mapping[str, int], family: Family, itl: frozenset[int]) -> dict[str, int]:
    """Count the parameters of each part.

    Args:
        sizes: number of parameters by tensor name, tied tensors once.
        family: the architecture's record.
        itl: indices of the implicit translation layers.
    """
    totals = dict.fromkeys(PARTS, 0)
    for name, size in sizes.items():
        totals[part_of(name, family, itl)] += size
    return totals


def tied_once(names: Iterable[str], family: Family, *, tied: bool = True) -> list[str]:
    """Return tensor names without the second name of a tied tensor.

    Args:
        names: of all tensors.
        family: the architecture's record.
        tied: whether the configuration ties the output projection to the word embeddings.
    """
    aliases = {family.decoder, *family.output_bias[1:]} if tied else set()
    aliases |= set(family.embedding_aliases)
    return [name for name in names if name not in aliases]


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
