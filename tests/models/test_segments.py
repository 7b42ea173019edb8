"""Attention by segments equals one sentence at a time, in every family that can have it."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import EncoderDecoderConfig, EncoderDecoderModel
from transformers.masking_utils import bidirectional_mask_function, eager_mask

from lingraft.models import packed as packed_module
from lingraft.models import padded, paired, segments
from lingraft.models.cross_attention import insert
from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, attend_fast, check_isolation, packed_attention
from lingraft.models.rows import pack
from lingraft.models.segments import Bounds, Heads, Scores, Segments, Starts
from lingraft.models.stacks import packed_model
from lingraft.training.phase import recompute_activations

NAMES = [name for name, family in FAMILIES.items() if family.attention == "replaced"]
REPLACED = pytest.mark.parametrize("name", NAMES)
SOFT_OR_BIASED = {"gemma2", "t5", "mt5"}
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


def never(*_, **__):
    """What the path of a GPU does not do."""
    raise AssertionError("a mask of all pairs")


@pytest.fixture(autouse=True)
def _padded_too(monkeypatch):
    """Let padded batches attend by segments too, where a device does."""
    monkeypatch.setenv("LINGRAFT_ATTENTION", "segments")


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


@pytest.fixture(params=["varlen", "flex"])
def plain(request, monkeypatch, on_gpu):
    """Both kernels in plain operations, which have gradients on a CPU."""
    CALLS.clear()
    monkeypatch.setattr(segments, "flex", lambda _: plain_flex)
    if request.param == "varlen":
        monkeypatch.setattr(segments.varlen, "varlen_attn", plain_varlen)
        monkeypatch.setattr(segments, "has_fused", lambda _: True)
        monkeypatch.setattr(segments, "HALF", (torch.float32,))
    return request.param


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


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("family", ["roberta", "modernbert"])
def test_pairs_by_segments_see_their_partner_alone(family, tiny_model):
    model = tiny_model(family)
    insert(model, FAMILIES[family], 2)
    assert paired.check_pairs(packed_model(model, FAMILIES[family]), 1) < 1e-5


@pytest.mark.parametrize("name", ["roberta", "gemma2", "t5"])
def test_activations_computed_again_have_the_same_gradients(name, tiny_model, plain):
    found = []
    for again in (False, True):
        packed = packed_model(tiny_model(name), FAMILIES[name])
        if again:
            recompute_activations(packed.model)
        packed.train()  # dropout too, by the same seed
        torch.manual_seed(3)
        found.append(gradients(packed, probe(packed)))
    (logits, slopes), (others, other_slopes) = found
    assert torch.equal(logits, others)
    assert all(torch.equal(slope, other_slopes[key]) for key, slope in slopes.items())


def padded_inputs(model, side="right"):
    """Rows of 40 tokens and fewer; of an encoder–decoder what is written is as long by chance."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 300, (4, 40), generator=generator)
    attend = (torch.arange(40) < torch.tensor([[40], [3], [21], [1]])).long()
    attend = attend.flip(1) if side == "left" else attend
    inputs = {"input_ids": ids, "attention_mask": attend}
    if not model.config.is_encoder_decoder:
        return inputs, attend.bool()
    written = attend.flip(0)
    more = {"decoder_input_ids": ids.flip(0), "decoder_attention_mask": written}
    return inputs | more, written.bool()


@REPLACED
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_batches_by_segments_give_the_logits_of_the_stock_model(
    name, side, tiny_model, request, monkeypatch
):
    model = tiny_model(name).eval()
    inputs, real = padded_inputs(model, side)
    with torch.no_grad():
        model.set_attn_implementation("sdpa" if model._supports_sdpa else "eager")
        stock = model(**inputs).logits[real]
        request.getfixturevalue("on_gpu")
        attend_fast(model)
        used = []
        monkeypatch.setattr(functional, "scaled_dot_product_attention", never)
        monkeypatch.setattr(
            segments, "attend", lambda *x, own=segments.attend: used.append(x) or own(*x)
        )
        torch.testing.assert_close(model(**inputs).logits[real], stock, atol=1e-5, rtol=0)
    assert used


@pytest.mark.parametrize("name", ["bart", "t5", "m2m_100"])
@pytest.mark.parametrize("beams", [1, 3])
def test_what_generates_reads_by_segments_and_writes_as_the_stock_model(
    name, beams, tiny_model, monkeypatch
):
    model = tiny_model(name).eval()
    inputs, _ = padded_inputs(model)
    inputs = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    settings = {"max_new_tokens": 8, "min_new_tokens": 8, "num_beams": beams}
    stock = model.generate(**inputs, **settings)
    monkeypatch.setattr(segments, "uses_segments", lambda _: True)
    attend_fast(model)
    used = []
    monkeypatch.setattr(
        segments, "attend", lambda *x, own=segments.attend: used.append(x) or own(*x)
    )
    assert torch.equal(model.generate(**inputs, **settings), stock)
    assert {heads.q_NHTK.shape[2] for heads, *_ in used} == {40}


@pytest.mark.usefixtures("on_gpu")
def test_two_encoders_in_one_model_attend_by_segments(tiny_model, monkeypatch):
    encoder, decoder = (copy.deepcopy(tiny_model("bert").config) for _ in range(2))
    decoder.is_decoder = decoder.add_cross_attention = True
    config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = EncoderDecoderModel(config).eval()
    inputs, real = padded_inputs(model)
    with torch.no_grad():
        stock = model(**inputs).logits[real]
        attend_fast(model)
        monkeypatch.setattr(functional, "scaled_dot_product_attention", never)
        torch.testing.assert_close(model(**inputs).logits[real], stock, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("on_gpu")
def test_padding_between_tokens_is_an_error(tiny_model):
    model = tiny_model("bert")
    attend_fast(model)
    inputs, _ = padded_inputs(model)
    inputs["attention_mask"][0, 7] = 0
    with pytest.raises(RuntimeError, match="padding between"):
        model(**inputs)


@REPLACED
def test_gradients_of_padded_batches_are_those_of_a_mask(name, tiny_model, plain, monkeypatch):
    found = []
    for by_segments in (False, True):
        model = tiny_model(name).eval()
        inputs, real = padded_inputs(model)
        with monkeypatch.context() as patch:
            if not by_segments:
                patch.setattr(segments, "uses_segments", lambda _: False)
                patch.setattr(packed_module, "eager_mask", eager_mask)
            attend_fast(model)
            logits = model(**inputs).logits[real]
        logits.square().mean().backward()
        slopes = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        found.append((logits.detach(), slopes))
    assert bool(CALLS) == (plain == "varlen" and name not in {"gemma2", "t5", "mt5"})
    (logits, slopes), (others, other_slopes) = found
    torch.testing.assert_close(others, logits, atol=2e-5, rtol=1e-5)
    assert slopes.keys() == other_slopes.keys()
    for key, slope in slopes.items():
        size = max(1e-3, float(slope.abs().max()))
        torch.testing.assert_close(other_slopes[key], slope, atol=2e-5 * size, rtol=1e-3, msg=key)


def test_dropout_drops_single_weights_and_keeps_the_others(monkeypatch):
    """Of the softmax over all keys, as everywhere: the mean stays, and the variance is right."""
    rows, tokens, share = 64, 16, 0.25
    q = torch.randn(rows, 2, tokens, 8)
    v = torch.ones(rows, 2, tokens, 8)
    found = {}
    for kernel in (plain_flex, segments.flex_attention):
        monkeypatch.setattr(segments, "flex", lambda _, k=kernel: k)
        torch.manual_seed(0)
        one = segments.codes(torch.ones(rows, tokens, dtype=torch.int32), 3)
        found[kernel], _ = packed_attention(
            torch.nn.Identity(), 0 * q, q, v, Segments(one, one), dropout=share
        )
    torch.testing.assert_close(*found.values())
    mixed = found[plain_flex][..., 0]
    assert float(mixed.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(mixed.var()) == pytest.approx(share / (1 - share) / tokens, rel=0.15)
    other = segments.attend(Heads(0 * q, q, v), Segments(one, one), Scores(1.0, dropout=share))
    assert not torch.allclose(other[..., 0], mixed)


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


@pytest.mark.parametrize("seed", range(4))
def test_blocks_hold_every_pair_that_is_seen_and_few_others(seed):
    generator = np.random.default_rng(seed)
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


def test_starts_cut_padding_and_have_one_shape_for_most_batches():
    row = torch.tensor([[1] * 100 + [2] * 30 + [0] * 382, [1] * 12 + [0] * 500])
    starts = Starts.of(row, Bounds(3, 100))
    assert starts.longest == 128
    assert starts.places.tolist()[:6] == [0, 100, 130, 256, 384, 512]
    assert starts.places[-1] == row.numel()
    assert int(starts.places.diff().max()) <= 128
    assert len(starts.places) == 17
    assert Starts.of(row, Bounds(4, 80)).places.shape == starts.places.shape


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels of a GPU")
@pytest.mark.parametrize("queries", [40, 24])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kernels_of_a_gpu_leave_padding_out(queries, dtype, tiny_model):
    attend = torch.arange(40, device="cuda") < torch.tensor([[40], [3], [21]], device="cuda")
    shape = {"batch_size": 3, "q_length": queries, "kv_length": 40}
    asked = {"config": tiny_model("bert").config, "device": "cuda", "attention_mask": attend}
    asked |= {**shape, "mask_function": bidirectional_mask_function}
    sides = [torch.randn(3, 2, n, 64, device="cuda", requires_grad=True) for n in (queries, 40, 40)]
    found = []
    for by_segments in (True, False):
        if by_segments:
            heads = Heads(*(x.to(dtype) for x in sides))
            mixed = segments.attend(heads, padded.of_padding(asked), Scores(0.125))
        else:
            seen = attend[:, None, None]
            mixed = functional.scaled_dot_product_attention(*sides, seen, scale=0.125)
            mixed = mixed.transpose(1, 2)
        found.append((mixed, *torch.autograd.grad(mixed.float().square().sum(), sides)))
    close = 5e-2 if dtype == torch.bfloat16 else 1e-3
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.float(), theirs, atol=close, rtol=close)
