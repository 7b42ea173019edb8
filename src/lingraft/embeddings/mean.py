"""New pieces as the mean of the source's pieces that they are made of.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.match import find_exact_matches
from lingraft.embeddings.material import needed
from lingraft.embeddings.segmentation import Segmenter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary


def mean(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
) -> Plan:
    """Average the source rows of the pieces into which the source tokenizer cuts each new piece.

    A piece that the source has too (word start and bytes) keeps its own row; one that the source
    tokenizer knows nothing of is drawn from N(0, 0.02); the padding row is zero. A piece inside a
    word is cut as inside a word. Half a character is cut into bytes, where the source has bytes.

    Source: fast vocabulary transfer (Gee et al. 2022), §3, eq. 1.

    Differs from the paper: it tokenises the piece as text, so that a piece inside a word begins
    one, and half a character is U+FFFD.

    Material: its source tokenizer is used.
    """
    return composed("mean", source, target, material, Combination.mean)


def composed(
    name: str,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
    combine: Callable[[Sequence[int]], Combination],
) -> Plan:
    """Copy the rows of pieces that the source has too; combine those of which others are made.

    Args:
        name: of the initialiser, for messages.
        source: the source's vocabulary.
        target: the new one.
        material: its source tokenizer cuts the new pieces.
        combine: the row of a piece from the source ids of its parts, in their order.
    """
    segment = Segmenter(needed(material, name).source_tokenizer)
    matches = find_exact_matches(source, target)
    combinations = {}
    for target_id, form in enumerate(target.canonical):
        if form is None or target_id in matches:
            continue
        ids = segment(form)
        if ids:
            combinations[target_id] = combine(ids)
    return Plan(matches, combinations)
