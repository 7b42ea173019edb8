"""New pieces as the first of the source's pieces that they are made of.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.mean import composed

if TYPE_CHECKING:
    import torch

    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary


def first_piece(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
) -> Plan:
    """Give a new piece the row of the first source piece of its text; else as `mean`.

    Meant for an output projection: where the source would have written the first part, it now
    writes the whole. Pieces that begin alike get equal rows, which training has to tell apart.

    Source: EEVE (Kim et al. 2024), the rows of the language-model head.

    Material: its source tokenizer is used.
    """
    return composed(
        "first-piece",
        source,
        target,
        material,
        lambda ids: Combination.mean(ids[:1], rule="combined"),
    )
