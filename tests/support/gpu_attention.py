"""How a GPU attends, by plain operations of a CPU."""

import functools
from itertools import pairwise

import torch
from torch.nn import functional

from lingraft.models import segments
from lingraft.models.packed import PackedModel


def never(*_, **__):
    """What the path of a GPU does not do."""
    raise AssertionError("a mask of all pairs")


def as_on_a_gpu(patch, kernel="varlen"):
    """Let a CPU attend as a GPU does, by one of two kernels; the windows of calls of `varlen`."""
    windows = []
    patch.setattr(segments, "uses_segments", lambda _: True)
    patch.setattr(segments, "flex", lambda _: plain_flex)
    patch.setattr(segments, "has_fused", lambda _: kernel == "varlen")
    patch.setattr(segments, "HALF", (torch.float32,))
    patch.setattr(segments.varlen, "varlen_attn", functools.partial(plain_varlen, windows))
    patch.setattr(PackedModel, "additive", staticmethod(never))
    return windows


def plain_flex(q, k, v, *, score_mod=None, block_mask, scale, enable_gqa, return_aux=None):
    """What `flex_attention` computes, with a gradient on a CPU, pair by pair; blocks that are left
    out count as unseen."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    heads, queries, keys = torch.meshgrid(
        *(torch.arange(size) for size in (q.shape[1], q.shape[2], k.shape[2])), indexing="ij"
    )
    scores = (q @ k.transpose(2, 3)) * scale
    if score_mod is not None:
        scores = score_mod(scores, 0, heads[None], queries[None], keys[None])
    seen = block_mask.mask_mod(0, heads, queries, keys)
    held = block_mask.to_dense()[0, 0].bool()
    held = held.repeat_interleave(128, 0).repeat_interleave(128, 1)
    scores = scores.masked_fill(~(seen & held[: q.shape[2], : k.shape[2]]), -torch.inf)
    nothing = scores.isneginf().all(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    if return_aux is None:
        return weights @ v
    return weights @ v, type("Aux", (), {"lse": torch.logsumexp(scores, -1)})


def plain_varlen(windows, q, k, v, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa):
    """What `varlen_attn` computes, segment by segment; the window goes to those of other calls."""
    windows.append(window_size)
    assert enable_gqa == (q.shape[1] != k.shape[1])
    parts = []
    for starts in (cu_q, cu_k):
        assert starts.dtype == torch.int32
        assert starts.is_contiguous()
    for (start, end), (first, behind) in zip(
        *(pairwise(x.tolist()) for x in (cu_q, cu_k)), strict=True
    ):
        assert end - start <= max_q
        assert behind - first <= max_k
        q_s = q[start:end].transpose(0, 1)
        k_s, v_s = (x[first:behind].transpose(0, 1) for x in (k, v))
        assert window_size == (-1, -1) or end - start == behind - first
        apart = torch.arange(end - start)[:, None] - torch.arange(behind - first)
        to_left, to_right = window_size
        seen = torch.ones_like(apart, dtype=torch.bool)
        seen = seen & (apart <= to_left) if to_left >= 0 else seen
        seen = seen & (-apart <= to_right) if to_right >= 0 else seen
        mixed = functional.scaled_dot_product_attention(
            q_s[None], k_s[None], v_s[None], seen, scale=scale, enable_gqa=enable_gqa
        )
        parts.append(mixed[0].transpose(0, 1))
    assert end == len(q), "a segment is left out"
    return torch.cat(parts)
