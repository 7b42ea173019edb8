"""Selection of what a phase trains, tensor by tensor and row by row. No torch.

The names are those of `recipe/base.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lingraft.errors import RecipeError
from lingraft.models.parts import layer_index, part_of
from lingraft.recipe.base import GAINS, LORA, Selector, selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lingraft.models.families import Family
    from lingraft.recipe import Phase
    from lingraft.recipe.phase import Lora

Kept = Literal["new", "old"]
"""Rows of pieces that the vocabulary stage added, or kept from the source."""


@dataclass(frozen=True)
class Piece:
    """Tensor or rows of one that train, with settings of their own."""

    rows: Kept | None
    """None: the tensor as a whole."""
    rate: float
    """Peak learning rate."""


@dataclass(frozen=True)
class Layout:
    """Properties of a model that decide which tensor a name means."""

    family: Family
    itl: frozenset[int]
    """Numbers of its inserted layers."""
    depths: tuple[int, ...]
    """Layers of each of its lists."""
    tied: bool
    """Whether the output projection is the word embeddings."""
    gains: frozenset[str] = frozenset()
    """Tensors by which its inserted blocks begin as the identity, where these are norms."""

    def matrix_of(self, name: str) -> str | None:
        """Return which of `selectors.MATRICES` a tensor is."""
        family = self.family
        if name in (family.word_embeddings, *family.embedding_aliases):
            return "embeddings"
        if name == family.decoder:
            return "embeddings" if self.tied else "head"
        return "output_bias" if name in family.output_bias else None

    def is_unread(self, name: str) -> bool:
        """Return whether a tensor is an untied head's first bias, which is never read."""
        return not self.tied and name in self.family.output_bias[:-1]

    def layers(self, entry: Selector) -> frozenset[int]:
        """Return the numbers of the layers that a name means, in every list; none beyond them."""
        lists = zip(self.family.lists, self.depths, strict=True)
        try:
            return frozenset(stack.first + i for stack, depth in lists for i in entry.layers(depth))
        except IndexError:
            return frozenset()

    def means(self, entry: Selector, name: str, rows: Kept | None) -> bool:
        """Return whether a name means a tensor, or these rows of a tensor that is divided."""
        if entry.name == GAINS:
            return name in self.gains
        if entry.part is not None:
            return entry.part in ("all", part_of(name, self.family, self.itl))
        if entry.matrix is not None:
            return self.matrix_of(name) == entry.matrix and entry.rows in ("rows", rows)
        return layer_index(name, self.family) in self.layers(entry)


def gains_of(
    dimensions: Iterable[tuple[str, int]], family: Family, itl: frozenset[int]
) -> frozenset[str]:
    """Return norms by which inserted blocks begin as the identity.

    Args:
        dimensions: of each tensor its name and how many it has.
        family: the architecture's record.
        itl: numbers of its inserted layers.
    """
    identity = family.identity
    return frozenset(
        name
        for name, dimension in dimensions
        if identity is not None
        and identity.owns(name)
        and (dimension == 1 and name.endswith("weight"))
        and layer_index(name, family) in itl
    )


@dataclass(frozen=True)
class Selection:
    """A phase's names, over a model."""

    phase: Phase
    layout: Layout

    def __post_init__(self) -> None:
        """Refuse names that this model has nothing for.

        Raises:
            RecipeError: it has not.
        """
        for entry in (*self.trained, *self.adapted, *self.rated):
            self.check(entry)

    @cached_property
    def trained(self) -> tuple[Selector, ...]:
        """Return names of what trains as it is."""
        return tuple(map(selector, sorted(self.phase.trained)))

    @cached_property
    def adapted(self) -> tuple[Selector, ...]:
        """Return names of what LoRA is put on."""
        return tuple(map(selector, self.phase.lora.parts)) if self.phase.lora else ()

    @cached_property
    def rated(self) -> tuple[Selector, ...]:
        """Return names of what has a rate of its own."""
        return tuple(map(selector, self.phase.optimizer.rates))

    def check(self, entry: Selector) -> None:
        """Refuse a name that means nothing in this model.

        Raises:
            RecipeError: it does.
        """
        layout, reason = self.layout, ""
        if entry.matrix == "head" and layout.tied:
            reason = f"'s output projection is its word embeddings: 'embeddings.{entry.rows}'"
        elif entry.matrix == "output_bias" and not layout.family.output_bias:
            reason = " has no output bias"
        elif entry.name == GAINS and not layout.gains:
            reason = " has no inserted blocks that begin as the identity by a gain"
        elif entry.items and not layout.layers(entry):
            reason = f" has {' and '.join(map(str, layout.depths))} layers, inserted ones counted"
        if reason:
            raise RecipeError(
                f"phase '{self.phase.name}': '{entry.name}': the model{reason}; name what it has"
            )

    def check_any(self, count: int) -> None:
        """Refuse a phase that trains nothing of this model.

        Args:
            count: of what it trains.

        Raises:
            RecipeError: it is 0.
        """
        if not count:
            names = ", ".join(self.phase.train)
            raise RecipeError(f"phase '{self.phase.name}': train: the model has nothing of {names}")

    def check_rated(self, names: Iterable[str]) -> None:
        """Refuse settings of what does not train.

        Args:
            names: of the model's tensors, as stock models have them.

        Raises:
            RecipeError: nothing that trains is called so.
        """
        trained = [(name, piece) for name in names for piece in self.pieces(name)]
        for entry in self.rated:
            if entry.name == LORA and self.phase.lora:
                continue
            if not any(self.layout.means(entry, name, piece.rows) for name, piece in trained):
                raise RecipeError(
                    f"phase '{self.phase.name}': optimizer: '{entry.name}' has settings of its "
                    "own, and nothing of it trains; leave it out, or add it to train"
                )

    def pieces(self, name: str) -> tuple[Piece, ...]:
        """Return what trains of a tensor, by its stock name; nothing where it is frozen.

        Rows are told apart only where the phase names some of them.

        Raises:
            RecipeError: two names give it settings, and neither looks closer than the other.
        """
        if self.layout.is_unread(name):
            return ()
        matrix = self.layout.matrix_of(name)
        selectors = (s for s in (*self.trained, *self.rated) if s.matrix == matrix is not None)
        divided = any(s.rows in ("new", "old") for s in selectors)
        kinds: tuple[Kept | None, ...] = ("new", "old") if divided else (None,)
        return tuple(
            self.piece(name, rows)
            for rows in kinds
            if any(self.layout.means(s, name, rows) for s in self.trained)
        )

    def piece(self, name: str, rows: Kept | None) -> Piece:
        """Return a tensor, or rows of one, with its settings."""
        section = self.phase.optimizer
        rate = self._own(section.rates, name, rows)
        return Piece(rows, section.learning_rate if rate is None else rate)

    def low_rank(self) -> Piece:
        """Return the settings of what LoRA adds."""
        section = self.phase.optimizer
        return Piece(None, section.rates.get(LORA, section.learning_rate))

    def _own(self, values: Mapping[str, float], name: str, rows: Kept | None) -> float | None:
        """Return the value of the closest name that means a tensor; None where there is none."""
        matches = [s for s in map(selector, values) if self.layout.means(s, name, rows)]
        closest = [s for s in matches if s.depth == max(s.depth for s in matches)]
        if len({values[s.name] for s in closest}) > 1:
            both = " and ".join(f"'{s.name}'" for s in closest[:2])
            raise RecipeError(
                f"phase '{self.phase.name}': optimizer: {both} both name {name}; give it one value"
            )
        return values[closest[0].name] if closest else None

    def adapts(self, name: str) -> bool:
        """Return whether LoRA is put on a layer's matrix, by its stock name."""
        return layer_index(name, self.layout.family) is not None and any(
            self.layout.means(s, name, None) for s in self.adapted
        )


def chosen_maps(section: Lora, maps: Sequence[str], where: str) -> list[str]:
    """Return the linear maps that LoRA is put on.

    Args:
        section: the maps by the end of their names; none named takes all.
        maps: names of the linear maps of its layers.
        where: for messages.

    Raises:
        RecipeError: no map of these layers has such a name, or there is none.
    """
    parts = ", ".join(section.parts)
    endings = sorted({name.rpartition(".")[2] for name in maps})
    for module in section.modules or ([] if maps else ["any name"]):
        if not any(f".{name}".endswith(f".{module}") for name in maps):
            raise RecipeError(
                f"{where}: lora: no linear map of {parts} is called '{module}'; "
                f"there are {', '.join(endings) or 'none'}"
            )
    ends = tuple(f".{module}" for module in section.modules)
    return [name for name in maps if not ends or f".{name}".endswith(ends)]
