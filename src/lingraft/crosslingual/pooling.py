"""One vector a sentence from an encoder's layers: pooled and of unit length.

Shape letters: L chosen layers, N sentences, B of a batch, T tokens, D width.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lingraft.errors import DataError
from lingraft.log import progress
from lingraft.tokenizer import spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lingraft.crosslingual.encoder import Encoder
    from lingraft.crosslingual.layers import Pool

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)

LONGEST = 512
"""Tokens of a sentence that are read at most, as in XTREME."""
SMALLEST = 1e-12
"""What a length is divided by at least, so that a vector of zeros stays one."""


def sentence_vectors(
    encoder: Encoder, texts: Sequence[str], pool: Pool = "mean", layers: Sequence[int] | None = None
) -> Array:
    """[L, N, D] fp32. Equal texts are encoded once and have equal vectors.

    Args:
        encoder: any.
        texts: sentences; what is longer than the encoder reads, or `LONGEST`, is cut.
        pool: one of `layers.POOLS`.
        layers: 0 is the embeddings; all of them where it is None.

    Raises:
        DataError: the encoder gives states that are not finite.
    """
    layers = list(range(encoder.num_layers + 1)) if layers is None else list(layers)
    places: dict[str, int] = {}
    of_N = [places.setdefault(text, len(places)) for text in texts]
    distinct = list(places)
    limit = min(encoder.max_tokens, LONGEST)
    read_as = spelled.without_special(encoder.tokenizer)
    encoded = spelled.cut(encoder.tokenizer, distinct, limit, read_as)
    sequences = [ids.tolist() for ids in encoded["input_ids"]]
    specials = encoded["special_tokens_mask"]
    cut = sum(len(sequence) == limit for sequence in sequences)
    if cut:
        logger.info("%s: %s sentences have %d tokens or more", encoder.name, f"{cut:,}", limit)
    width = encoder.model.config.hidden_size
    vectors_LND = np.empty((len(layers), len(distinct), width), dtype=np.float32)
    with progress(f"encode ({encoder.name})", len(distinct), "sentences") as ticker:
        for batch in encoder.hidden_states(sequences):
            weights_BT = batch.mask_BT.float()
            if pool == "no-specials":
                for row, place in enumerate(batch.places):
                    special = torch.tensor(specials[place], device=weights_BT.device)
                    weights_BT[row, : len(special)] *= 1 - special
            pooled_LBD = _pooled(batch.states_LBTD[layers], weights_BT, pool)
            vectors_LND[:, batch.places] = pooled_LBD.cpu().numpy()
            ticker.advance(len(batch.places))
    if not np.isfinite(vectors_LND).all():
        raise DataError(
            f"{encoder.name}: its states are not finite (NaN or infinite), so nothing can be found "
            "with them; the weights are broken, or training went astray"
        )
    return vectors_LND if len(distinct) == len(of_N) else vectors_LND[:, of_N]


def _pooled(states_LBTD: torch.Tensor, weights_BT: torch.Tensor, pool: Pool) -> torch.Tensor:
    """[L, B, D] Pooled and of unit length."""
    if pool == "cls":
        pooled_LBD = states_LBTD[:, :, 0]
    else:
        counts_B = weights_BT.sum(1).clamp_min(1)
        sums_LBD = torch.einsum("lbtd,bt->lbd", states_LBTD, weights_BT)
        pooled_LBD = sums_LBD / counts_B[:, None]
    return pooled_LBD / pooled_LBD.norm(dim=-1, keepdim=True).clamp_min(SMALLEST)
