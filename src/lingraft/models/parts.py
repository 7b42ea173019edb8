"""Parts of a model that tensors belong to, by name. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lingraft.errors import UnsupportedModelError
from lingraft.models.modules import owner_of
from lingraft.recipe import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lingraft.models.families import Family
    from lingraft.recipe.places import Places


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
    return ending is not None and any(
        name == f"{stack.layers}.0.{ending}" for stack in family.lists
    )


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
