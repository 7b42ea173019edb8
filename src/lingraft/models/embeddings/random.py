"""Every row drawn anew: what XPT does.

Shape letters: N rows, D width of the embeddings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lingraft.models.embeddings.common import RowPlan

if TYPE_CHECKING:
    from lingraft.models.embeddings.common import Inputs


def random(inputs: Inputs) -> RowPlan:
    """Draw every row from N(0, 0.02); the padding row is zero (XPT, Lee et al. 2021)."""
    return RowPlan({})


def random_statistics(inputs: Inputs) -> RowPlan:
    """Draw every row from N(mean, deviation) of the source's rows, dimension by dimension.

    The padding row is zero. Special tokens, placeholders and rows without a piece, which the source
    never trained, do not count. The deviation is that of the population (divided by the count).

    Source: the random rows of WECHSEL (Minixhofer et al. 2022), §3.2, and of FOCUS (Dobler and de
    Melo 2023), §4.
    """
    ids = [index for index, form in enumerate(inputs.source.canonical) if form is not None]
    used = torch.tensor([index for index in ids if index < len(inputs.source_VD)])
    rows_ND = inputs.source_VD.detach()[used.to(inputs.source_VD.device)].to("cpu", torch.float32)
    deviation_D, mean_D = torch.std_mean(rows_ND, dim=0, correction=0)
    return RowPlan({}, statistics=(mean_D, deviation_D))
