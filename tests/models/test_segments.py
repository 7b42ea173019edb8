"""Attention by segments equals one sentence at a time, in every family that can have it."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from lingraft.models import packed as packed_module
from lingraft.models import segments
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, check_isolation
from lingraft.models.rows import pack
from lingraft.models.segments import Bounds, Heads, Scores, Segments, Starts
from lingraft.models.stacks import packed_model

NAMES = [name for name, family in FAMILIES.items() if family.attention == "replaced"]
REPLACED = pytest.mark.parametrize("name", NAMES)
SOFT_OR_BIASED = {"gemma2", "t5", "mt5"}
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def never(*_, **__):
    """What the path of a GPU does not do."""
    raise AssertionError("a mask of all pairs")


@pytest.fixture
def on_gpu(monkeypatch):
    """Let a CPU attend as a GPU does; a mask of all pairs is an error."""

    monkeypatch.setattr(segments, "uses_segments", lambda _: True)
    monkeypatch.setattr(PackedModel, "attention_masks", never)
    monkeypatch.setattr(PackedModel, "additive", staticmethod(never))
    monkeypatch.setattr(packed_module, "eager_mask", never)


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


CALLS = []


def plain_varlen(q, k, v, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa):
    """What `varlen_attn` computes, segment by segment."""
    CALLS.append(window_size)
    assert enable_gqa == (q.shape[1] != k.shape[1])
    assert cu_q.dtype == torch.int32
    assert cu_q.is_contiguous()
    parts = []
    assert cu_k.dtype == torch.int32
    assert cu_k.is_contiguous()
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


@pytest.mark.usefixtures("on_gpu")
@REPLACED
def test_packed_rows_by_segments_give_the_logits_of_single_sentences(name, tiny_model):
    assert check_isolation(packed_model(tiny_model(name), FAMILIES[name]), 1) < 1e-5


def probe(packed, lengths=(5, 9, 4, 7, 30, 41, 60), width=176):
    generator = np.random.default_rng(0)
    sentences = [generator.integers(5, 300, n) for n in lengths]
    rows, width = pack(np.array(lengths), width)
    return packed.probe(sentences, rows, width, 1)


def gradients(packed, batch, **context):
    logits = packed.logits(batch)
    functional.cross_entropy(logits, batch.targets_M.long()).backward()
    found = [(n, p.grad) for n, p in packed.model.named_parameters() if p.grad is not None]
    return logits.detach(), dict(found)


@REPLACED
def test_gradients_are_those_of_a_mask_of_all_pairs(name, tiny_model, request, monkeypatch):
    batch = probe(masked := packed_model(tiny_model(name), FAMILIES[name]))
    logits, expected = gradients(masked, batch)
    for kernel in ("flex", "varlen"):
        ours = packed_model(tiny_model(name), FAMILIES[name])
        with monkeypatch.context() as patch:
            patch.setattr(segments, "uses_segments", lambda _: True)
            patch.setattr(segments, "flex", lambda _: plain_flex)
            patch.setattr(segments, "has_fused", lambda _, k=kernel: k == "varlen")
            patch.setattr(segments, "HALF", (torch.float32,))
            patch.setattr(segments.varlen, "varlen_attn", plain_varlen)
            CALLS.clear()
            found, slopes = gradients(ours, batch)
        assert bool(CALLS) == (kernel == "varlen" and name not in SOFT_OR_BIASED)
        torch.testing.assert_close(found, logits, atol=2e-5, rtol=1e-5)
        assert slopes.keys() == expected.keys()
        for key, slope in expected.items():
            size = max(1e-3, float(slope.abs().max()))
            torch.testing.assert_close(slopes[key], slope, atol=2e-5 * size, rtol=1e-3, msg=key)


def test_gradients_of_dropped_weights_are_those_of_the_softmax(monkeypatch):
    """The same weights dropped behind the softmax by hand."""
    monkeypatch.setattr(segments, "flex", lambda _: plain_flex)
    sides = [torch.randn(1, 2, 12, 8, requires_grad=True, dtype=torch.float64) for _ in range(3)]
    one = segments.codes(torch.tensor([[1] * 5 + [2] * 7]), 4)
    torch.manual_seed(0)
    ours = segments.attend(Heads(*sides), Segments(one, one), Scores(0.3, dropout=0.4))
    torch.manual_seed(0)
    seed = torch.randint(2**31, (1,))
    q, k, v = sides
    scores = (q @ k.transpose(2, 3) * 0.3).masked_fill(one[:, None] != one, -torch.inf)
    place = torch.meshgrid(torch.arange(2), torch.arange(12), torch.arange(12), indexing="ij")
    kept = segments.hash24(seed[0], *place) >= round(0.4 * 2**24)
    theirs = ((torch.softmax(scores, -1) * kept / 0.6) @ v).transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    pull = torch.randn_like(ours)
    for a, b in zip(*(torch.autograd.grad(x, sides, pull) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_blocks_hold_every_pair_that_is_seen_and_few_others():
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, 90, 60)
    ids = torch.from_numpy(np.repeat(np.arange(60), lengths)).int()
    order = torch.arange(len(ids))
    for window in ((-1, -1), (-1, 0), (7, 0), (20, 20)):
        mask = segments.blocks(ids, ids, window)
        seen = mask.mask_mod(0, 0, order[:, None], order)
        pairs = seen.nonzero() // 128
        held = mask.to_dense()[0, 0].bool()
        assert bool(held[pairs[:, 0], pairs[:, 1]].all())
        assert int(held.sum()) <= 3 * len(held)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels of a GPU")
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (7, 0), (20, 20)])
@pytest.mark.parametrize("kernel", ["varlen", "flex", "softcap", "dropout"])
def test_kernels_of_a_gpu_compute_what_plain_operations_do(kernel, window, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 90, (60,), generator=generator)
    row = torch.repeat_interleave(torch.arange(1, 61), lengths)
    row = functional.pad(row, (0, -len(row) % 512))[None].int()
    bounds, dtype = Bounds(60, 90), torch.bfloat16 if kernel == "varlen" else torch.float32
    sides = [torch.randn(1, n, row.shape[1], 64, generator=generator) for n in (4, 2, 2)]
    more = {"softcap": 2.0} if kernel == "softcap" else {}
    more |= {"dropout": 0.3} if kernel == "dropout" else {}
    seed = torch.tensor([5])
    monkeypatch.setattr(torch, "randint", lambda *_, device, **__: seed.to(device))
    found = []
    for device in ("cuda", "cpu"):
        own = [x.to(device, dtype if device == "cuda" else None).requires_grad_() for x in sides]
        if device == "cpu":
            monkeypatch.setattr(segments, "flex", lambda _: plain_flex)
        segments_P = segments.codes(row.to(device), 62)
        mask = Segments(segments_P, segments_P, window, Starts.of(row.to(device), bounds))
        mixed = segments.attend(Heads(*own), mask, Scores(0.125, **more))
        pull = torch.autograd.grad(mixed.float().square().sum(), own)
        found.append([x.detach().float().cpu() for x in (mixed, *pull)])
    close = {"atol": 5e-2, "rtol": 5e-2} if kernel == "varlen" else {"atol": 1e-3, "rtol": 1e-3}
    for gpu, cpu in zip(*found, strict=True):
        torch.testing.assert_close(gpu, cpu, **close)
