"""New pieces as a mean of the source's pieces that they are made of, longer ones counting more.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.embeddings.common import Combination, Plan
from lingraft.embeddings.mean import composed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary


def length_weighted(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
) -> Plan:
    """As `mean`, each part weighed by its bytes in UTF-8, a word start being one more.

    Differs from the literature, which weighs output rows by length without saying in what unit:
    bytes are ours, for pieces that are a part of a character have no length in characters.

    Material: its source tokenizer is used.
    """

    def combine(ids: Sequence[int]) -> Combination:
        forms = [source.canonical[index] for index in ids]
        return Combination.weighted(
            ids, [1 if form is None else form.word_start + len(form.text) for form in forms]
        )

    return composed("length-weighted", source, target, material, combine)
