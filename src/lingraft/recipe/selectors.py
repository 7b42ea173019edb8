"""Names of what of a model trains: whole parts, rows of a matrix, layers.

    embeddings, inserted, body …    whole parts (`PARTS`), and all of them
    embeddings.new, embeddings.old  rows of the input matrix: those that the vocabulary added, those
                                    that it kept from the source; embeddings.rows is both
    head.new, head.old, head.rows   the same of an output projection that is not tied to it
    output_bias.new, .old           the same of the output bias
    layers[:2], layers[-2:], layers[0,5], layers[::2]
                                    layers of the grafted model, inserted ones counted
    inserted.gains                  of optimizer.rates alone: the gains that make an inserted block
                                    begin as the identity
    lora                            of optimizer.rates alone: what a phase's LoRA adds

'embeddings' is both matrices, tied or not. Where they are tied, 'embeddings.…' is both too and
'head.…' does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import AfterValidator

from lingraft.errors import RecipeError
from lingraft.recipe.base import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

MATRICES = ("embeddings", "head", "output_bias")
"""Matrices with a row for each piece of the vocabulary."""
Rows = Literal["new", "old", "rows"]
ROWS = {f"{matrix}.{rows}": (matrix, rows) for matrix in MATRICES for rows in ("new", "old")}
ROWS |= {f"{matrix}.rows": (matrix, "rows") for matrix in ("embeddings", "head")}
GAINS, LORA = "inserted.gains", "lora"
LAYERS = re.compile(r"layers\[(.+)\]")
ITEM = re.compile(r"-?\d{1,4}|(-?\d{1,4})?:(-?\d{1,4})?(:-?[1-9]\d{0,3})?")


@dataclass(frozen=True)
class Selector:
    """A parsed name of this kind."""

    name: str
    part: str | None = None
    """A whole part."""
    matrix: str | None = None
    """Name of one of `MATRICES`, with `rows`."""
    rows: Rows | None = None
    items: tuple[str, ...] = ()
    """Numbers and slices of layers."""

    @property
    def depth(self) -> int:
        """Return how narrow the selector is: of two that name a weight the narrower one counts."""
        if self.part is not None:
            return 2 if self.part == GAINS else 0
        return 1 if self.items or self.rows == "rows" else 2

    def layers(self, count: int) -> frozenset[int]:
        """Return the layers that the selector names, of `count`.

        Raises:
            IndexError: one does not exist.
        """
        indices: set[int] = set()
        for item in self.items:
            if ":" in item:
                ends = [int(text) if text else None for text in item.split(":")]
                indices |= set(range(count)[slice(*ends)])
            else:
                indices.add(range(count)[int(item)])
        return frozenset(indices)


def selector(name: str) -> Selector:
    """Read a name.

    Raises:
        ValueError: it is none.
    """
    if name in (*PARTS, "all", GAINS, LORA):
        return Selector(name, part=name)
    if name in ROWS:
        matrix, rows = ROWS[name]
        return Selector(name, matrix=matrix, rows=cast("Rows", rows))
    match = LAYERS.fullmatch(name)
    items = tuple(item.strip() for item in match[1].split(",")) if match else ()
    if items and all(ITEM.fullmatch(item) for item in items):
        return Selector(name, items=items)
    raise ValueError(
        f"must be {', '.join(repr(part) for part in PARTS)} or 'all', "
        f"rows as 'embeddings.new', or layers as 'layers[:2]'; got '{name[:60]}'"
    )


def _trained(name: str) -> str:
    if name in (GAINS, LORA):
        raise ValueError(f"'{name}' is a name of optimizer.rates, not of what trains")
    return selector(name).name


def _rated(name: str) -> str:
    if name == "all":
        raise ValueError("'all' has optimizer.learning_rate; name parts here")
    return selector(name).name


def _layered(name: str) -> str:
    layers = selector(name)
    if not layers.items and layers.part not in ("body", "inserted"):
        raise ValueError(f"LoRA is for layers: 'body', 'inserted' or 'layers[…]'; got '{name}'")
    return name


Part = Annotated[str, AfterValidator(_trained)]
"""Part that a phase can train."""
RatedPart = Annotated[str, AfterValidator(_rated)]
"""Part that can have a learning rate of its own."""
LayerPart = Annotated[str, AfterValidator(_layered)]
"""Part that LoRA can be put on."""


def described(train: Sequence[str], lora: Sequence[str] = ()) -> str:
    """Say what trains, in words, for tables."""
    names = ["all" if "all" in train else ", ".join(train)] if train else []
    return ", ".join([*names, *([f"LoRA on {' and '.join(lora)}"] if lora else [])])


def trained_parts(train: Sequence[str], phase: str) -> frozenset[str]:
    """Return the parts that a phase trains, 'all' written out.

    Rows and layers stay as they are named.

    Raises:
        RecipeError: 'all' is mixed with other names, a name occurs twice, or one lies in another.
    """
    if tuple(train) == ("all",):
        return frozenset(PARTS)
    inside = {"all", *train} if "all" in train else set[str]()
    for name in train:
        matrix, dot, rows = name.partition(".")
        around = {matrix, "embeddings"} - {"head"} if matrix == "head" else {matrix}
        around |= {f"{matrix}.rows"} if rows != "rows" else set()
        inside |= around.intersection(train) if dot else set()
    if inside or len(set(train)) < len(train):
        raise RecipeError(
            f"phase '{phase}': train names a part twice, or one that lies in another: "
            f"{', '.join(train)}; leave one of them out"
        )
    return frozenset(train)
