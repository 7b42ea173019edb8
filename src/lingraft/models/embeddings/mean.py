"""New pieces as a mean of the source's pieces that they are made of, or as the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.models.embeddings.common import Combination, RowPlan
from lingraft.models.embeddings.match import find_exact_matches
from lingraft.models.embeddings.segmentation import Segmenter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lingraft.models.embeddings.common import Inputs


def mean(inputs: Inputs) -> RowPlan:
    """Average the source rows of the pieces into which the source tokenizer cuts each new piece.

    A piece that the source has too (word start and bytes) keeps its own row; one that the source
    tokenizer knows nothing of is drawn from N(0, 0.02); the padding row is zero. A piece inside a
    word is cut as inside a word. Half a character is cut into bytes, where the source has bytes.

    Source: fast vocabulary transfer (Gee et al. 2022), §3, eq. 1.

    Differs from the paper: it tokenises the piece as text, so that a piece inside a word begins
    one, and half a character is U+FFFD.

    Material: its source tokenizer is used.
    """
    return composed("mean", inputs, Combination.mean)


def first_piece(inputs: Inputs) -> RowPlan:
    """Give a new piece the row of the first source piece of its text; else as `mean`.

    Meant for an output projection: where the source would have written the first part, it now
    writes the whole. Pieces that begin alike get equal rows, which training has to tell apart.

    Source: EEVE (Kim et al. 2024), the rows of the language-model head.

    Material: its source tokenizer is used.
    """
    return composed("first-piece", inputs, lambda ids: Combination.mean(ids[:1], "combined"))


def composed(name: str, inputs: Inputs, combine: Callable[[Sequence[int]], Combination]) -> RowPlan:
    """Copy the rows of pieces that the source has too; combine those of which others are made.

    Args:
        name: of the initializer, for messages.
        inputs: the source tokenizer of their material cuts the new pieces.
        combine: the row of a piece from the source ids of its parts, in their order.
    """
    segment = Segmenter(inputs.needed(name).source_tokenizer)
    matches = find_exact_matches(inputs.source, inputs.target)
    combinations = {}
    for target_id, form in enumerate(inputs.target.canonical):
        if form is not None and target_id not in matches and (ids := segment(form)):
            combinations[target_id] = combine(ids)
    return RowPlan(matches, combinations)
