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
    segment = Segmenter(needed(material, "mean").source_tokenizer)
    matches = find_exact_matches(source, target)
    combinations = {}
    for target_id, form in enumerate(target.canonical):
        if form is None or target_id in matches:
            continue
        ids = segment(form)
        if ids:
            combinations[target_id] = Combination.mean(ids)
    return Plan(matches, combinations)
