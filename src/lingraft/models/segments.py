"""Attention within the segments of packed rows, without a mask of all pairs: how a GPU attends.

In the place of an additive mask a stock model is given `Segments`, which say where each sentence
begins, and hands them on to lingraft's attention. That runs `varlen_attn` where the scores are
plain and in half precision, and `flex_attention` with a mask of blocks for the rest: capped scores,
T5's distances, dropout of weights, fp32, and what two segments see of each other.

Shape letters: N rows, T tokens in a row, P = N·T tokens of all rows, Q those that ask where they
are others, H heads, K width of a head.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.attention import varlen
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    Score = Callable[..., torch.Tensor]

BLOCK = 128
EVERYTHING = (-1, -1)
"""A window without an end to either side."""
BEFORE = (-1, 0)
"""The window of what writes: it sees what stands before, and itself."""
HALF = (torch.bfloat16, torch.float16)
WIDEST_HEAD = 256
"""Limit of `varlen_attn`, which also wants multiples of 8."""
MOST_GRAPHS = 64
"""Compiled for shapes, formats and kinds of masks; beyond torch's own limit of 8 it would go on
uncompiled, with a map of all pairs."""
FIRST_FUSED = (8, 0)
"""Compute capability of the oldest cards that `varlen_attn` runs on."""


def uses_segments(device: torch.device) -> bool:
    """Return whether models attend by segments on a device; a CPU keeps products under a mask.

    So do GPUs before Ampere, for which the compiled kernels are slow or missing.
    `LINGRAFT_ATTENTION=mask` in the environment keeps the mask of all pairs on every GPU.
    """
    return has_fused(device) and os.environ.get("LINGRAFT_ATTENTION") != "mask"


class Bounds(NamedTuple):
    """Numbers known of a batch without asking its tensors."""

    segments: int
    longest: int


NOTHING = Bounds(0, 0)


@dataclass(frozen=True)
class Starts:
    """Starts of segments, for `varlen_attn`; segments of no length stand at the end."""

    places: torch.Tensor
    """int32, P behind the last."""
    longest: int

    @classmethod
    def of(cls, segments_NT: torch.Tensor, bounds: Bounds) -> Starts:
        """Find the starts; round both numbers up to powers of two, so that most shapes are equal.

        Padding is cut into segments no longer than the others.
        """
        rows, tokens = segments_NT.shape
        longest = max(BLOCK, power_of_two(bounds.longest))
        number = power_of_two(bounds.segments + rows * (tokens // longest + 2))
        order_T = torch.arange(tokens, device=segments_NT.device)
        is_start_NT = torch.ones_like(segments_NT, dtype=torch.bool)
        is_start_NT[:, 1:] = segments_NT[:, 1:] != segments_NT[:, :-1]
        is_start_NT |= (segments_NT == 0) & (order_T % longest == 0)
        places_P = torch.arange(rows * tokens, device=segments_NT.device, dtype=torch.int32)
        places_P = torch.where(is_start_NT.flatten(), places_P, rows * tokens)
        missing = number + 1 - len(places_P)
        places_P = torch.nn.functional.pad(places_P, (0, max(0, missing)), value=rows * tokens)
        places_P = places_P.sort().values[: number + 1].contiguous()
        if has_fused(places_P.device):  # compiled once, however many there are
            torch._dynamo.maybe_mark_dynamic(places_P, 0)
        return cls(places_P, longest)


def power_of_two(number: int) -> int:
    """Return the least power of two that is not below a number."""
    return 1 << max(0, number - 1).bit_length()


class Segments(BlockMask):
    """Mask by segments: a token sees those with its own code, within a window.

    A `BlockMask`, for stock models hand those on untouched; what `flex_attention` is given is
    `blocks`.
    """

    def __init__(
        self,
        codes_Q: torch.Tensor,
        codes_P: torch.Tensor,
        window: tuple[int, int] = EVERYTHING,
        starts: Starts | None = None,
    ) -> None:
        """Find the blocks.

        Args:
            codes_Q: of the tokens that ask.
            codes_P: of the tokens that are seen.
            window: how many are seen before and behind a token; -1 is all.
            starts: where segments start, if known, and if both sides are one.
        """
        self.codes_Q, self.codes_P = codes_Q, codes_P
        self.window, self.starts = window, starts
        self.blocks = blocks(codes_Q, codes_P, window)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of a mask for all rows in one."""
        return (1, 1, len(self.codes_Q), len(self.codes_P))

    @property
    def ndim(self) -> int:
        """Return the number of a mask's dimensions."""
        return len(self.shape)

    def is_fused_for(self, q_NHTK: torch.Tensor) -> bool:
        """Return whether `varlen_attn` can take these queries."""
        width = q_NHTK.shape[-1]
        fits = q_NHTK.dtype in HALF and width <= WIDEST_HEAD and width % 8 == 0
        return fits and self.starts is not None and has_fused(q_NHTK.device)


@functools.cache
def has_fused(device: torch.device) -> bool:
    """Return whether a device has `varlen_attn`."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= FIRST_FUSED


def codes(segments_NT: torch.Tensor, most: int) -> torch.Tensor:
    """Return a number [P] for each segment of all rows, in order; a row's padding is its last.

    Args:
        segments_NT: which sentence of its row a token belongs to, from 1; 0 is padding.
        most: more than any row has; two texts with the same have equal codes for equal segments.
    """
    within_NT = torch.where(segments_NT == 0, most - 1, segments_NT)
    rows_N = torch.arange(len(segments_NT), device=segments_NT.device)
    return (rows_N[:, None] * most + within_NT).flatten().to(torch.int32)


def blocks(codes_Q: torch.Tensor, codes_P: torch.Tensor, window: tuple[int, int]) -> BlockMask:
    """Return which blocks of 128 × 128 hold a pair that is seen, arguments as of `Segments`.

    By the least and the largest code of each block alone: torch's `create_block_mask` would first
    make the mask of all pairs.
    """
    before, behind = window
    codes_Q, codes_P = codes_Q.contiguous(), codes_P.contiguous()

    def seen(_: Any, __: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        mask = codes_Q[query] == codes_P[key]
        if before >= 0:
            mask = mask & (query - key <= before)
        if behind >= 0:
            mask = mask & (key - query <= behind)
        return mask

    (least_A, most_A), (least_B, most_B) = (_ends(side) for side in (codes_Q, codes_P))
    may_AB = (least_A[:, None] <= most_B) & (least_B <= most_A[:, None])
    order = torch.arange(max(may_AB.shape), device=codes_Q.device)
    nearest_AB = (order[: len(least_A), None] - order[: len(least_B)]) * BLOCK
    if before >= 0:
        may_AB &= nearest_AB - (BLOCK - 1) <= before
    if behind >= 0:
        may_AB &= -nearest_AB - (BLOCK - 1) <= behind
    return BlockMask.from_kv_blocks(
        may_AB.sum(1, dtype=torch.int32)[None, None],
        torch.argsort(may_AB.int(), dim=1, descending=True, stable=True).int()[None, None],
        BLOCK_SIZE=BLOCK,
        mask_mod=seen,
        seq_lengths=(len(codes_Q), len(codes_P)),
    )


def _ends(codes_P: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the largest code of each block."""
    more = codes_P[-1:].expand(-len(codes_P) % BLOCK)
    whole = torch.cat([codes_P, more]).view(-1, BLOCK)
    return whole.amin(1), whole.amax(1)


class Heads(NamedTuple):
    """Queries, keys and values; several heads of queries may share one of the others."""

    q_NHTK: torch.Tensor
    k_NHTK: torch.Tensor
    v_NHTK: torch.Tensor


class AttentionScores(NamedTuple):
    """Treatment of the products of queries and keys."""

    scale: float
    softcap: float | None = None
    """Bound that scores cannot exceed, by tanh."""
    by_distance: torch.Tensor | None = None
    """[H, 2L + 1] added to those of keys L before to L behind the query."""
    dropout: float = 0.0
    """Share of the weights that is dropped."""

    @property
    def are_plain(self) -> bool:
        """Return whether products are scaled alone."""
        return self.softcap is None and self.by_distance is None and not self.dropout


def attend(heads_NHTK: Heads, segments: Segments, scores: AttentionScores) -> torch.Tensor:
    """Attend within segments, [N, T, H, K].

    Args:
        heads_NHTK: of all rows.
        segments: of all rows, one behind the other.
        scores: their scale, and more.
    """
    q_NHTK = heads_NHTK.q_NHTK
    rows, number, tokens, _ = q_NHTK.shape
    q_PHK, k_PHK, v_PHK = (x.transpose(1, 2).flatten(0, 1) for x in heads_NHTK)
    shared, starts, scale = number != k_PHK.shape[1], segments.starts, scores.scale
    if scores.are_plain and starts is not None and segments.is_fused_for(q_NHTK):
        mixed_PHK = varlen.varlen_attn(
            q_PHK,
            k_PHK,
            v_PHK,
            *(starts.places, starts.places, starts.longest, starts.longest),
            scale=scale,
            window_size=segments.window,
            enable_gqa=shared,
        )
        assert isinstance(mixed_PHK, torch.Tensor)
        return mixed_PHK.unflatten(0, (rows, tokens))
    sides = [x.transpose(0, 1)[None] for x in (q_PHK, k_PHK, v_PHK)]
    settings = {"block_mask": segments.blocks, "scale": scale, "enable_gqa": shared}
    score, dropout = score_of(scores), scores.dropout
    run = flex(q_NHTK.device)
    if not dropout:
        mixed_HPK = run(*sides, score_mod=score, **settings)[0]
    else:
        # What is dropped has no weight, but the others keep theirs: they are those of a softmax
        # over what is kept, times the share that this has of the whole sum.
        kept = kept_of(score, dropout, q_NHTK.device)
        lse = {"return_aux": AuxRequest(lse=True)}
        _, whole = run(*sides, score_mod=score, **settings, **lse)
        mixed, part = run(*sides, score_mod=kept, **settings, **lse)
        share_HP = torch.exp(part.lse - whole.lse)[0] / (1 - dropout)
        mixed_HPK = mixed[0] * share_HP[..., None].to(mixed.dtype)
    return mixed_HPK.transpose(0, 1).unflatten(0, (rows, tokens))


def distances(bias_1HQP: torch.Tensor) -> torch.Tensor:
    """Return [H, 2L + 1] of a bias by distance, or by pair: last and first row hold them all."""
    last_HP, first_HP = bias_1HQP[0, :, -1], bias_1HQP[0, :, 0]
    return first_HP if bias_1HQP.shape[2] == 1 else torch.cat([last_HP, first_HP[:, 1:]], 1)


def score_of(scores: AttentionScores) -> Score | None:
    """Return the change to a scaled score before weights are dropped; None where there is none."""
    softcap, by_distance = scores.softcap, scores.by_distance
    if softcap is None and by_distance is None:
        return None

    def score(x: torch.Tensor, _: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        if softcap is not None:
            x = torch.tanh(x / softcap) * softcap
        if by_distance is not None:
            far = by_distance.shape[1] // 2
            x = x + by_distance[head, (key - query).clamp(-far, far) + far]
        return x

    return score


def kept_of(score: Score | None, dropout: float, device: torch.device) -> Score:
    """Return the score where a weight is kept, -inf where it is dropped.

    Which ones is a hash of the place and of a number from torch's generator.
    """
    seed = torch.randint(2**31, (1,), device=device)
    edge = round(dropout * 2**24)

    def kept(x: torch.Tensor, row: Any, head: Any, query: Any, key: Any) -> torch.Tensor:
        y = x if score is None else score(x, row, head, query, key)
        return torch.where(hash24(seed[0], head, query, key) >= edge, y, float("-inf"))

    return kept


def hash24(seed: torch.Tensor, *place: torch.Tensor) -> torch.Tensor:
    """Hash all numbers to 24 bits (xor, shift and multiply, in 64 bits, twice for each)."""
    x = seed.long()
    for number in place:
        x = x ^ number.long()
        for _ in range(2):
            x = x * 0x2545F4914F6CDD1D
            x = x ^ ((x >> 29) & 0x7FFFFFFFF)
    return (x >> 24) & (2**24 - 1)


@functools.cache
def compiled_flex() -> Callable[..., Any]:
    """Compile `flex_attention` to one kernel, which it is only then."""
    settings: Any = {"recompile_limit": MOST_GRAPHS}
    return torch.compile(flex_attention, **settings)


def flex(device: torch.device) -> Callable[..., Any]:
    """Return `flex_attention` as fast as a device has it; compiled layers compile it anyway."""
    eager = device.type != "cuda" or torch.compiler.is_compiling()
    plain: Callable[..., Any] = flex_attention
    return plain if eager else compiled_flex()
