"""How many parameters a phase trains, from the headers of the source's files. No torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lingraft.errors import RecipeError
from lingraft.models.families import DECODER
from lingraft.models.parts import goes_with_place, layer_index
from lingraft.models.selection import Layout, Selection
from lingraft.recipe.run import KEEPING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.models.families import Family
    from lingraft.recipe import Phase, Recipe

Shapes = dict[str, tuple[int, ...]]


def layers_of(shapes: Shapes, family: Family, recipe: Recipe) -> tuple[Shapes, Layout]:
    """The tensors of the target's layers, inserted ones too, and where its parts are.

    Args:
        shapes: the source's tensors.
        family: its record.
        recipe: inserted layers.
    """
    found: Shapes = {}
    itl: set[int] = set()
    depths = []
    places = recipe.graft.places
    for one in family.lists:
        numbers = {layer_index(name, family) for name in shapes}
        last = max(n for n in numbers if n is not None and one.first <= n < one.first + DECODER)
        prefix = f"{one.layers}.{last - one.first}."
        depth = last - one.first + 1 + places.number(last - one.first + 1)
        depths.append(depth)
        itl |= {one.first + index for index in places.inserted(depth)}
        for name, shape in shapes.items():  # the last layer has all that any has
            if name.startswith(prefix) and not goes_with_place(name, family):
                ending = name.removeprefix(prefix)
                found |= {f"{one.layers}.{index}.{ending}": shape for index in range(depth)}
    identity = family.identity
    gains = (
        name
        for name, shape in found.items()
        if identity and identity.owns(name) and len(shape) == 1 and name.endswith("weight")
        and layer_index(name, family) in itl
    )  # fmt: skip
    return found, Layout(family, frozenset(itl), tuple(depths), False, frozenset(gains))


def trainable(
    recipe: Recipe,
    phase: Phase,
    shapes: Shapes,
    family: Family,
    by_part: Mapping[str, int],
    *,
    tied: bool,
) -> int:
    """Parameters that a phase trains; of a vocabulary that is trained yet the most there can be.

    Args:
        recipe: vocabulary and inserted layers.
        phase: what trains.
        shapes: the source's tensors.
        family: its record.
        by_part: parameters of the target.
        tied: whether the output projection is the word embeddings.

    Raises:
        RecipeError: the phase names what the target has not.
    """
    tensors, found = layers_of(shapes, family, recipe)
    layout = Layout(family, found.itl, found.depths, tied, found.gains)
    selection = Selection(phase, layout)
    total = sum(by_part[s.part] for s in selection.trained if s.part is not None)
    whole = [s for s in selection.trained if s.part is not None]
    some = [s for s in selection.trained if s.items]
    for name, shape in tensors.items():
        if any(layout.means(s, name, None) for s in whole):
            continue
        if any(layout.means(s, name, None) for s in some):
            total += math.prod(shape)
        elif phase.lora and len(shape) == 2 and selection.adapts(name):
            ends = tuple(f".{module}.weight" for module in phase.lora.modules)
            total += phase.lora.rank * sum(shape) if not ends or name.endswith(ends) else 0
    source = shapes[family.word_embeddings]
    for one in (s for s in selection.trained if s.matrix is not None):
        rows = _rows(recipe, str(one.rows), source[0], phase.name)
        total += rows * (1 if one.matrix == "output_bias" else source[1])
    return total


def _rows(recipe: Recipe, which: str, source: int, phase: str) -> int:
    """Rows that are new, old, or both, of a vocabulary; new ones at most.

    Raises:
        RecipeError: there can be none.
    """
    most = recipe.tokenizer.most_rows(source)
    kind = recipe.tokenizer.kind
    keeps = kind in KEEPING and recipe.graft.source_weights == "pretrained"
    old = (source if kind in ("extend", "append") else most) if keeps else 0
    counts = {"new": most - old, "old": old, "rows": most}
    if not counts[which]:
        said = "adds no piece" if which == "new" else "keeps no piece of the source's"
        raise RecipeError(
            f"phase '{phase}': tokenizer.kind = '{kind}' {said}, so no row is {which}; "
            "name the whole part, or set another kind (extend)"
        )
    return counts[which]
