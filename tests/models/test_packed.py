"""Packed rows: attention by segments equals one sentence at a time, in every family that can have
it; the head some tokens at a time has loss and gradients of the plain loss."""

import numpy as np
import pytest
import torch
from gpu_attention import as_on_a_gpu, never, plain_flex
from torch.nn import functional

from lingraft.errors import UnsupportedModelError
from lingraft.models import chunked, packed as packed_module, segments
from lingraft.models.chunked import chunked_cross_entropy
from lingraft.models.families import FAMILIES
from lingraft.models.losses import IGNORED, summed_cross_entropy
from lingraft.models.packed import PackedModel, assemble, attend_fast, check_isolation
from lingraft.models.rows import pack, pack_by_length
from lingraft.models.segments import AttentionScores, Bounds, Heads, Segments, Starts
from lingraft.models.stacks import packed_model

ALL_FAMILIES = pytest.mark.parametrize("family", ["roberta", "electra", "modernbert"])


@pytest.mark.parametrize("seed", range(2))
def test_packing_places_every_sentence_once_and_overfills_no_row(seed):
    lengths = np.random.default_rng(seed).integers(1, 65, 200)
    rows, width = pack(lengths, 64)
    assert width == 64
    assert sorted(index for row in rows for index in row) == list(range(200))
    assert max(int(lengths[row].sum()) for row in rows) <= 64
    assert lengths.sum() / (len(rows) * width) > 0.94
    assert pack(np.array([6, 5, 3, 2]), 8) == ([[0, 3], [1, 2]], 8)  # the fullest row with room
    assert pack(np.array([70, 26, 40]), 64) == ([[0, 1], [2]], 96)  # all rows are longer


def test_local_attention_shorter_than_the_rows_is_kept_in_packed_rows(tiny_model, tiny_tokens):
    settings = {"layer_types": ["full_attention", "sliding_attention"], "local_attention": 8}
    tokens = tiny_tokens(12, 14, 30)
    everywhere = [np.arange(n) for n in tokens.lengths]
    sentences = tokens.rows(range(12))
    rows, width = pack(tokens.lengths, 64)
    batch = assemble(sentences, everywhere, sentences, rows, width, 1)
    packed = PackedModel(tiny_model("modernbert", **settings), FAMILIES["modernbert"])
    stock, wide = tiny_model("modernbert", **settings), tiny_model("modernbert")
    with torch.no_grad():
        together = packed.logits(batch)
        order = [torch.from_numpy(sentences[i].astype(np.int64))[None] for r in rows for i in r]
        alone = torch.cat([stock(input_ids=ids).logits[0] for ids in order])
        without_window = torch.cat([wide(input_ids=ids).logits[0] for ids in order])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert float((alone - without_window).abs().max()) > 1e-2


def test_the_isolation_check_refuses_leaks_and_positions_of_the_wrong_row(tiny_model, monkeypatch):
    packed = PackedModel(tiny_model("bert"), FAMILIES["bert"])
    monkeypatch.setattr(
        PackedModel, "additive", staticmethod(lambda allowed, dtype: torch.zeros(allowed.shape))
    )
    with pytest.raises(UnsupportedModelError, match="packed rows change the logits of this bert"):
        check_isolation(packed, 1)
    monkeypatch.undo()
    packed = PackedModel(tiny_model("roberta"), FAMILIES["roberta"])
    assert packed.first_position == 2
    packed.first_position = 0
    with pytest.raises(UnsupportedModelError, match="packed rows change the logits"):
        check_isolation(packed, 1)


@ALL_FAMILIES
@pytest.mark.parametrize("grad", [True, False])
def test_padded_batches_attend_as_the_stock_model_does(family, grad, tiny_model):
    model = tiny_model(family).eval()
    ids = torch.randint(5, model.config.vocab_size, (4, 12))
    attend = (torch.arange(12) < torch.tensor([[12], [3], [7], [1]])).long()
    found = []
    for change in (lambda m: m.set_attn_implementation("sdpa"), attend_fast):
        change(model)
        with torch.set_grad_enabled(grad):
            logits = model(input_ids=ids, attention_mask=attend).logits[attend.bool()]
        wanted = [p for p in model.parameters() if p.requires_grad]
        pull = (
            torch.autograd.grad(logits.square().mean(), wanted, allow_unused=True) if grad else ()
        )
        found.append((logits.detach(), [g for g in pull if g is not None]))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    for stock, ours in zip(*(gradients for _, gradients in found), strict=True):
        assert torch.allclose(stock, ours, atol=1e-5)


@ALL_FAMILIES
@pytest.mark.parametrize("grad", [True, False])
def test_padding_that_sees_nothing_is_no_nan_in_bf16(family, grad, tiny_model):
    model = tiny_model(family).train()  # ModernBERT's window ends long before the padding does
    attend_fast(model)
    ids = torch.randint(5, model.config.vocab_size, (2, 30))
    attend = (torch.arange(30) < torch.tensor([[30], [2]])).long()
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(grad):
        logits = model(input_ids=ids, attention_mask=attend).logits
    assert bool(logits.isfinite().all())
    if grad:
        logits[attend.bool()].float().square().mean().backward()
        assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("seed", range(2))
def test_rows_of_documents_are_short_where_nothing_long_is_in_them(seed):
    generator = np.random.default_rng(seed)
    lengths = np.clip(generator.lognormal(3.5, 1.1, 200).astype(int), 1, 500)
    groups = pack_by_length(lengths, 64)
    assert sorted(i for rows, _ in groups for row in rows for i in row) == list(range(200))
    widths = [width for _, width in groups]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == 64
    for (rows, width), below in zip(groups, [*widths[1:], 0], strict=True):
        assert all(lengths[row].sum() <= width for row in rows)
        assert all(lengths[row].max() > below or below == width for row in rows)
    slots = sum(len(rows) * width for rows, width in groups)
    plain, width = pack(lengths, 64)
    assert slots <= len(plain) * width
    squares = sum(len(rows) * width**2 for rows, width in groups)
    assert squares < 0.8 * len(plain) * width**2
    even = np.array([30] * 9 + [20] * 4)
    assert pack_by_length(even, 64) == [pack(even, 64)]


NAMES = [name for name, family in FAMILIES.items() if family.attention == "replaced"]
REPLACED = pytest.mark.parametrize("name", NAMES)
SOFT_OR_BIASED = {"gemma2", "t5", "mt5"}
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture
def on_gpu(monkeypatch):
    """Let a CPU attend as a GPU does; a mask of all pairs is an error."""

    monkeypatch.setattr(segments, "uses_segments", lambda _: True)
    monkeypatch.setattr(PackedModel, "attention_masks", never)
    monkeypatch.setattr(PackedModel, "additive", staticmethod(never))
    monkeypatch.setattr(packed_module, "eager_mask", never)


@pytest.mark.usefixtures("on_gpu")
@REPLACED
def test_packed_rows_by_segments_give_the_logits_of_single_sentences(name, tiny_model):
    assert check_isolation(packed_model(tiny_model(name), FAMILIES[name]), 1) < 1e-5


def probe(packed, lengths=(5, 9, 4, 7, 30, 41, 60), width=176):
    generator = np.random.default_rng(0)
    sentences = [generator.integers(5, 300, n) for n in lengths]
    rows, width = pack(np.array(lengths), width)
    return packed.probe(sentences, rows, width, 1)


def slopes_of(packed, batch, **context):
    logits = packed.logits(batch)
    functional.cross_entropy(logits, batch.targets_M.long()).backward()
    found = [(n, p.grad) for n, p in packed.model.named_parameters() if p.grad is not None]
    return logits.detach(), dict(found)


@REPLACED
def test_gradients_are_those_of_a_mask_of_all_pairs(name, tiny_model, request, monkeypatch):
    batch = probe(masked := packed_model(tiny_model(name), FAMILIES[name]))
    logits, expected = slopes_of(masked, batch)
    for kernel in ("flex", "varlen"):
        ours = packed_model(tiny_model(name), FAMILIES[name])
        with monkeypatch.context() as patch:
            windows = as_on_a_gpu(patch, kernel)
            found, slopes = slopes_of(ours, batch)
        assert bool(windows) == (kernel == "varlen" and name not in SOFT_OR_BIASED)
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
    ours = segments.attend(Heads(*sides), Segments(one, one), AttentionScores(0.3, dropout=0.4))
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
        mixed = segments.attend(Heads(*own), mask, AttentionScores(0.125, **more))
        pull = torch.autograd.grad(mixed.float().square().sum(), own)
        found.append([x.detach().float().cpu() for x in (mixed, *pull)])
    close = {"atol": 5e-2, "rtol": 5e-2} if kernel == "varlen" else {"atol": 1e-3, "rtol": 1e-3}
    for gpu, cpu in zip(*found, strict=True):
        torch.testing.assert_close(gpu, cpu, **close)


HEADS = ["llama", "gemma2", "cohere2", "granite", "phi", "roberta"]
"""Heads with a cap, a factor, a divisor, a bias, and of several modules."""


def drawn(model, number=200, seed=3):
    """Hidden states and targets, of which some are not to be predicted."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    width = model.get_input_embeddings().weight.shape[1]
    x = torch.randn(number, width, generator=generator)
    targets = torch.randint(0, config.vocab_size, (number,), generator=generator)
    targets[5] = IGNORED
    targets[-30:] = IGNORED
    return x, targets


def gradients_of(model, nats, x):
    (nats * 0.25).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found | {"x": x.grad}


@pytest.mark.parametrize("family", HEADS)
@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_loss_and_gradients_are_those_of_the_plain_loss(family, bf16, tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "chunk_size", lambda vocabulary: 64)
    found = []
    for ours in (True, False):
        packed = packed_model(tiny_model(family), FAMILIES[family])
        x, targets = drawn(packed.model)
        x.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            nats = (
                chunked_cross_entropy(packed, x, targets)
                if ours
                else summed_cross_entropy(packed.head(x), targets)
            )
        found.append((nats, gradients_of(packed.model, nats, x)))
    (nats, ours), (expected, plain) = found
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        torch.testing.assert_close(
            chunked_cross_entropy(packed, x, targets), expected, rtol=1e-3, atol=1e-3
        )
    torch.testing.assert_close(nats, expected, rtol=1e-5 if not bf16 else 1e-3, atol=1e-3)
    assert ours.keys() == plain.keys()
    for name, gradient in plain.items():
        scale = float(gradient.abs().max())
        rtol = 2e-2 if bf16 else 1e-4
        torch.testing.assert_close(ours[name], gradient, rtol=rtol, atol=rtol * scale, msg=name)


def test_logits_that_are_ever_there_at_once_are_bounded(tiny_model, monkeypatch):
    monkeypatch.setattr(chunked, "LOGITS_AT_ONCE", 448 * 64)
    packed = packed_model(tiny_model("llama"), FAMILIES["llama"])
    x, targets = drawn(packed.model, 500)
    seen, head = [], packed.head
    monkeypatch.setattr(packed, "head", lambda x: seen.append(len(x)) or head(x))
    chunked_cross_entropy(packed, x.requires_grad_(), targets).backward()
    assert sum(seen) == 500
    assert max(seen) * packed.model.config.vocab_size <= chunked.LOGITS_AT_ONCE
