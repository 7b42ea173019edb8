"""Every row drawn anew: what XPT does.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.embeddings.common import build

if TYPE_CHECKING:
    import torch

    from lingraft.embeddings.common import Initialised
    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary


def random(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    *,
    generator: torch.Generator,
    copy_special_tokens: bool = False,
    material: Material | None = None,
) -> Initialised:
    """Draw every row from N(0, 0.02); the padding row is zero (XPT, Lee et al. 2021; SPEC H.1).

    Args:
        source_VD: [V, D] the source's word embeddings; only their width is used, and special rows
            if asked for.
        source: the source's vocabulary.
        target: the new vocabulary.
        generator: where the draws come from.
        copy_special_tokens: copy the rows of the special tokens (all but padding) from the source,
            by role.
        material: not used.

    Raises:
        UnsupportedModelError: the source's tokenizer has more pieces than the model has rows.
    """
    return build(
        source_VD, source, target, {}, generator=generator, copy_special_tokens=copy_special_tokens
    )
