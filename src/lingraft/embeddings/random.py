"""Every row drawn anew: what XPT does.

Shape letters: V source vocabulary, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lingraft.embeddings.common import Plan

if TYPE_CHECKING:
    import torch

    from lingraft.embeddings.material import Material
    from lingraft.tokenizer.vocabulary import Vocabulary


def random(
    source_VD: torch.Tensor,
    source: Vocabulary,
    target: Vocabulary,
    material: Material | None,
) -> Plan:
    """Draw every row from N(0, 0.02); the padding row is zero (XPT, Lee et al. 2021; SPEC H.1)."""
    return Plan({})
