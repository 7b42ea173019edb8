"""What a phase trains, counted from the headers of the source's files. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lingraft.errors import LingraftError, RecipeError
from lingraft.models.families import DECODER
from lingraft.models.modules import wanted_by
from lingraft.models.parts import goes_with_place, layer_index, part_of
from lingraft.models.plans import check_layers
from lingraft.models.selection import Layout, Selection, chosen_maps, gains_of
from lingraft.pipeline.source_files import grafted_sizes, local_folder, tensor_shapes
from lingraft.pipeline.suiting import suited
from lingraft.pipeline.vocabularies import check_initialisers
from lingraft.recipe.baselines import baseline
from lingraft.recipe.selectors import selector as read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lingraft.models.families import Family
    from lingraft.pipeline.source_files import SourceFiles
    from lingraft.recipe import Phase, Recipe

Shapes = dict[str, tuple[int, ...]]
BELOW = ("embeddings", "positions", "embedding_norm")
"""Parts beneath the layers: where they train, every layer has a backward pass."""
WITHIN = ("adapters", "cross_attention")
"""Parts with modules in every layer."""


@dataclass(frozen=True)
class Trained:
    """How much of a model a phase trains, and how deep its backward pass goes."""

    parameters: int
    """LoRA's too; of a vocabulary that is trained yet the most there can be."""
    matrices: int
    """Parameters of matrices of which rows train; the whole matrix has a gradient."""
    layers: int
    """Layers with a backward pass: from the lowest that trains upwards, all if what is beneath them
    trains. They keep activations."""
    learning: int
    """Of these the layers whose maps train, or have LoRA, and so keep what they read too."""
    frozen_maps: int
    """Parameters of the layers' linear maps that stay as they are."""
    teacher: int = 0
    """Parameters of the model that it learns from (`distil`); 0 also where they are not known."""


def check_grafts(recipe: Recipe, source: SourceFiles) -> None:
    """Refuse what the source's architecture cannot have, or train, as far as its files tell.

    Raises:
        LingraftError: the run, or one of its baselines, asks for such.
    """
    _check_graft(recipe, source)
    for index, section in enumerate(recipe.baselines):
        try:
            _check_graft(baseline(recipe, index), source)
        except LingraftError as error:
            raise type(error)(f"baseline '{section.method}': {error}") from None


def _check_graft(recipe: Recipe, source: SourceFiles) -> None:
    """Refuse rows, layers, modules, and names of what trains."""
    family, shapes, tied = source.family, source.shapes, source.tied
    if family is None:
        return
    check_initialisers(recipe, family)
    check_layers(family, source.config, recipe.graft)
    for module in wanted_by(recipe.graft):
        module.check_fits(family)
    if shapes is None or tied is None:
        for section in () if recipe.keeps_rows else recipe.phases:
            if any(read(name).rows == "old" for name in section.train):
                _rows(recipe, "old", 0, section.name)  # none, however many the source has
        return
    recipe = suited(recipe, family, tied=tied)
    sizes = grafted_sizes(shapes, family, recipe, tied=tied)
    for phase in recipe.phases:
        trainable(recipe, phase, shapes, family, sizes, tied=tied)


def layers_of(
    shapes: Shapes, family: Family, recipe: Recipe, *, tied: bool
) -> tuple[Shapes, Layout]:
    """The tensors of the target's layers, inserted ones too, and where its parts are.

    Args:
        shapes: the source's tensors.
        family: its record.
        recipe: inserted layers.
        tied: whether the output projection is the word embeddings.
    """
    tensors: Shapes = {}
    itl: set[int] = set()
    depths = []
    places = recipe.graft.places
    for stack in family.lists:
        numbers = {layer_index(name, family) for name in shapes}
        last = max(n for n in numbers if n is not None and stack.first <= n < stack.first + DECODER)
        prefix = f"{stack.layers}.{last - stack.first}."
        depth = last - stack.first + 1 + places.number(last - stack.first + 1)
        depths.append(depth)
        itl |= {stack.first + index for index in places.inserted(depth)}
        for name, shape in shapes.items():  # the last layer has all that any has
            if name.startswith(prefix) and not goes_with_place(name, family):
                ending = name.removeprefix(prefix)
                tensors |= {f"{stack.layers}.{index}.{ending}": shape for index in range(depth)}
    dimensions = ((name, len(shape)) for name, shape in tensors.items())
    gains = gains_of(dimensions, family, frozenset(itl))
    return tensors, Layout(family, frozenset(itl), tuple(depths), tied, gains)


def trainable(
    recipe: Recipe,
    phase: Phase,
    shapes: Shapes,
    family: Family,
    by_part: Mapping[str, int],
    *,
    tied: bool,
) -> Trained:
    """What a phase trains.

    Args:
        recipe: vocabulary and inserted layers.
        phase: what trains.
        shapes: the source's tensors.
        family: its record.
        by_part: parameters of the target.
        tied: whether the output projection is the word embeddings.

    Raises:
        RecipeError: the phase names what the target has not, or nothing that it has.
    """
    tensors, layout = layers_of(shapes, family, recipe, tied=tied)
    selection = Selection(phase, layout)
    total = sum(by_part[s.part] for s in selection.trained if s.part is not None)
    whole = [s for s in selection.trained if s.part is not None]
    some = [s for s in selection.trained if s.items]
    names = [*tensors, *(name for name in shapes if layer_index(name, family) is None)]
    parts = {part_of(name, family, layout.itl) for name in names}
    if all(part in parts for part, count in by_part.items() if count):
        selection.check_rated(names)  # else modules that the source lacks have names yet unknown
    adapted = _adapted(selection, tensors)
    frozen_maps, learning = 0, set[int]()
    for name, shape in tensors.items():
        index = layer_index(name, family)
        assert index is not None, "these are the layers' tensors"
        if any(layout.means(s, name, None) for s in (*whole, *some)):
            if name in adapted:
                raise RecipeError(
                    f"phase '{phase.name}': both train and lora.parts name {name}; name it once"
                )
            learning.add(index)
            if not any(layout.means(s, name, None) for s in whole):
                total += math.prod(shape)
            continue
        frozen_maps += math.prod(shape) if len(shape) == 2 else 0
        if phase.lora and name in adapted:
            learning.add(index)
            total += phase.lora.rank * sum(shape)
    source = shapes[family.word_embeddings]
    matrices = 0
    for selector in (s for s in selection.trained if s.matrix is not None):
        width = 1 if selector.matrix == "output_bias" else source[1]
        total += _rows(recipe, str(selector.rows), source[0], phase.name) * width
        matrices += recipe.tokenizer.most_rows(source[0]) * width
    selection.check_any(total)
    reached = _reached(selection, layout, learning)
    teacher = _teacher(phase, shapes)
    return Trained(total, matrices, reached, len(learning), frozen_maps, teacher)


def _teacher(phase: Phase, source: Shapes) -> int:
    """Parameters of a phase's teacher: of the source, or of files on this machine."""
    if phase.distil is None:
        return 0
    shapes: Shapes | None = source
    if (name := phase.distil.teacher) is not None:
        folder = local_folder(name, None)
        shapes = None if folder is None else tensor_shapes(folder)
    return sum(map(math.prod, (shapes or {}).values()))


def _adapted(selection: Selection, tensors: Shapes) -> set[str]:
    """The matrices that LoRA is put on.

    Raises:
        RecipeError: there are none of its names, or none at all.
    """
    phase, end = selection.phase, ".weight"
    if phase.lora is None:
        return set()
    maps = [
        name.removesuffix(end)
        for name, shape in tensors.items()
        if len(shape) == 2 and name.endswith(end) and selection.adapts(name)
    ]
    return {name + end for name in chosen_maps(phase.lora, maps, f"phase '{phase.name}'")}


def _reached(selection: Selection, layout: Layout, learning: set[int]) -> int:
    """How many layers have a backward pass; a decoder's layers stand on its encoder's."""
    numbers = [
        stack.first + index
        for stack, depth in zip(layout.family.lists, layout.depths, strict=True)
        for index in range(depth)
    ]
    names = {s.part or s.matrix for s in selection.trained}
    if names & {*BELOW, *WITHIN}:
        return len(numbers)
    return len([n for n in numbers if n >= min(learning)]) if learning else 0


def _rows(recipe: Recipe, which: str, source: int, phase: str) -> int:
    """Rows that are new, old, or both, of a vocabulary; new ones at most.

    Raises:
        RecipeError: there can be none.
    """
    most = recipe.tokenizer.most_rows(source)
    kind = recipe.tokenizer.kind
    old = (source if kind in ("extend", "append", "add") else most) if recipe.keeps_rows else 0
    counts = {"new": most - old, "old": old, "rows": most}
    if not counts[which]:
        effect = "adds no piece" if which == "new" else "keeps no piece of the source's"
        raise RecipeError(
            f"phase '{phase}': tokenizer.kind = '{kind}' {effect}, so no row is {which}; "
            "name the whole part, or set another kind (extend)"
        )
    return counts[which]
