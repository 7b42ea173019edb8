"""Segments of padded batches: what a stock model is given on a GPU when it asks for a mask.

Shape letters: B rows, P tokens of all rows, Q those that ask where they are others.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

from lingraft.models import segments
from lingraft.models.families import FAMILIES
from lingraft.models.segments import BEFORE, EVERYTHING, Segments, Starts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transformers import PreTrainedConfig


def serves(config: PreTrainedConfig, device: torch.device) -> bool:
    """Return whether padded batches of an architecture attend by segments on a device.

    They do where `LINGRAFT_ATTENTION=segments` asks for it: under dropout this takes two flex
    kernels, and no GPU has told yet whether these are faster than fused attention under a mask.
    """
    family = FAMILIES.get(config.model_type)
    wanted = os.environ.get("LINGRAFT_ATTENTION") == "segments" and segments.uses_segments(device)
    return wanted and family is not None and family.attention == "replaced"


def of_padding(asked: Mapping[str, Any]) -> Segments | None:
    """Return segments of a padded batch in place of a mask; None where the mask of all pairs stays.

    Whatever asks sees the real tokens of its row, which stand together; where order matters,
    padding sees padding. It stays on a CPU, in architectures without a record, where a caller has
    its own rule of what is seen, and where one token asks, or asks a cache: what generates attends
    by torch's fused attention, as stock models do.

    Args:
        asked: arguments of a mask function of transformers.
    """
    device = torch.device(asked["device"])
    if not serves(asked["config"], device):
        return None
    rows, queries, keys = (asked[name] for name in ("batch_size", "q_length", "kv_length"))
    window, mask_BT = window_of(asked), asked["attention_mask"]
    has_order = window != EVERYTHING
    fits = queries > 1 and (queries == keys or not has_order)
    if window is None or not fits or (mask_BT is not None and mask_BT.shape != (rows, keys)):
        return None
    if mask_BT is None:
        mask_BT = torch.ones(rows, keys, dtype=torch.bool, device=device)
    first_B = mask_BT.int().argmax(1)
    behind_B = keys - mask_BT.flip(1).int().argmax(1)
    together_B = (behind_B - first_B == mask_BT.sum(1)) | ~mask_BT.any(1)
    torch._assert_async(together_B.all(), "padding between the tokens of a row")
    own_B1 = 2 * torch.arange(rows, device=device, dtype=torch.int32)[:, None]
    codes_P = (own_B1 + mask_BT).flatten()
    nothing_B = torch.zeros_like(first_B)
    starts = _within(torch.stack([nothing_B, first_B, behind_B], 1), keys)
    if has_order:
        return Segments(codes_P, codes_P, window, starts)
    codes_Q = (own_B1 + 1).expand(rows, queries).flatten()
    asking_B3 = torch.stack([nothing_B, nothing_B, nothing_B + queries], 1)
    return Segments(codes_Q, codes_P, window, starts, _within(asking_B3, queries))


def window_of(asked: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return how far a token sees to each side, as `of_padding` is asked; None is another rule."""
    seen, reach, is_causal = (
        asked.get(name) for name in ("mask_function", "local_size", "allow_is_causal_skip")
    )
    offsets = (asked.get("q_offset", 0), asked.get("kv_offset", 0))
    if asked.get("use_vmap") or any(isinstance(x, torch.Tensor) or x for x in offsets):
        return None
    if seen in (causal_mask_function, bidirectional_mask_function):
        return BEFORE if seen is causal_mask_function else EVERYTHING
    if reach is None or not (is_causal or asked.get("allow_is_bidirectional_skip")):
        return None
    return (reach - 1, 0) if is_causal else (reach, reach)


def _within(cuts_B3: torch.Tensor, tokens: int) -> Starts:
    """Return three segments in each row of so many tokens, from these places on."""
    size = len(cuts_B3) * tokens
    firsts_B1 = torch.arange(0, size, tokens, device=cuts_B3.device)[:, None]
    places = torch.nn.functional.pad((firsts_B1 + cuts_B3).flatten(), (0, 1), value=size)
    return Starts(places.to(torch.int32), tokens)
