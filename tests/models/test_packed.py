import copy

import numpy as np
import pytest
import torch
from tiny_shapes import ENCODERS
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.packed import (
    PackedModel,
    assemble,
    attend_fast,
    check_isolation,
    packed_attention,
)
from lingraft.models.rows import pack, pack_by_length

ALL_FAMILIES = pytest.mark.parametrize("family", ENCODERS)
KINDS = ["full_attention", "sliding_attention"]


def masked_of(sentences, seed=0):
    """A third of each sentence's tokens, and what stands there."""
    generator = np.random.default_rng(seed)
    places = [np.sort(generator.permutation(len(s))[: max(1, len(s) // 3)]) for s in sentences]
    return places, [s[p].astype(np.int64) for s, p in zip(sentences, places, strict=True)]


def batch_of(tokens, row_tokens=32, pad=1):
    sentences = tokens.rows(range(len(tokens)))
    masked, targets = masked_of(sentences)
    rows, width = pack(tokens.lengths, row_tokens)
    return assemble(sentences, masked, targets, rows, width, pad)


def padded_loss(model, tokens):
    """The stock forward pass on padded rows with labels: mean loss and number of targets."""
    sentences = tokens.rows(range(len(tokens)))
    width = max(len(s) for s in sentences)
    ids = torch.full((len(sentences), width), 1)
    labels = torch.full((len(sentences), width), -100)
    attend = torch.zeros((len(sentences), width), dtype=torch.long)
    for row, (sentence, places) in enumerate(zip(sentences, masked_of(sentences)[0], strict=True)):
        whole = torch.from_numpy(sentence.astype(np.int64))
        ids[row, : len(sentence)], attend[row, : len(sentence)] = whole, 1
        labels[row, places] = whole[places]
    return model(input_ids=ids, attention_mask=attend, labels=labels).loss, int((labels >= 0).sum())


@pytest.mark.parametrize("seed", range(5))
def test_packing_places_every_sentence_once_and_overfills_no_row(seed):
    lengths = np.random.default_rng(seed).integers(1, 65, 200)
    rows, width = pack(lengths, 64)
    assert width == 64
    assert sorted(index for row in rows for index in row) == list(range(200))
    assert max(int(lengths[row].sum()) for row in rows) <= 64


def test_packing_fills_rows_nearly_to_the_brim():
    lengths = np.random.default_rng(0).integers(4, 40, 2_000)
    rows, width = pack(lengths, 128)
    assert lengths.sum() / (len(rows) * width) > 0.98


def test_packing_takes_the_fullest_row_that_still_has_room():
    assert pack(np.array([6, 5, 3, 2]), 8) == ([[0, 3], [1, 2]], 8)


def test_a_sentence_longer_than_a_row_makes_all_rows_longer():
    assert pack(np.array([70, 26, 40]), 64) == ([[0, 1], [2]], 96)


def test_assembling_loses_no_token_and_no_target(tiny_tokens):
    tokens = tiny_tokens(40, 2, 30)
    sentences = tokens.rows(range(40))
    masked, targets = masked_of(sentences)
    rows, width = pack(tokens.lengths, 32)
    batch = assemble(sentences, masked, targets, rows, width, 1)
    assert batch.num_tokens == int(tokens.lengths.sum())
    for number, row in enumerate(rows):
        for segment, index in enumerate(row, 1):
            here = batch.segments_NT[number] == segment
            assert batch.input_ids_NT[number][here].tolist() == sentences[index].tolist()
            assert batch.positions_NT[number][here].tolist() == list(range(len(sentences[index])))
    assert batch.input_ids_NT[batch.segments_NT == 0].unique().tolist() == [1]
    assert torch.equal(batch.input_ids_NT.flatten()[batch.masked_M], batch.targets_M)
    assert len(batch.targets_M) == sum(len(t) for t in targets)


@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1]])
def test_local_attention_shorter_than_the_rows_is_kept_in_packed_rows(
    kinds, tiny_model, tiny_tokens
):
    settings = {"layer_types": kinds, "local_attention": 8}
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


@ALL_FAMILIES
def test_loss_and_gradients_are_those_of_the_stock_padded_forward_pass(
    family, tiny_model, tiny_tokens
):
    tokens = tiny_tokens(9, 4, 20)
    ours, theirs = tiny_model(family), tiny_model(family)
    batch = batch_of(tokens)
    logits = PackedModel(ours, FAMILIES[family]).logits(batch)
    nats = functional.cross_entropy(logits, batch.targets_M, reduction="sum")
    nats.backward()
    loss, targets = padded_loss(theirs, tokens)
    (loss * targets).backward()
    assert targets == len(batch.targets_M)
    torch.testing.assert_close(nats, loss * targets, atol=1e-4, rtol=1e-5)
    for (name, parameter), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        scale = float(other.grad.abs().max())
        torch.testing.assert_close(
            parameter.grad, other.grad, atol=1e-5 * max(scale, 1.0), rtol=1e-4, msg=name
        )


@ALL_FAMILIES
def test_products_with_gradients_equal_the_fused_kernel_without(family, tiny_model, tiny_tokens):
    packed, batch = PackedModel(tiny_model(family), FAMILIES[family]), batch_of(tiny_tokens(9))
    with_gradients = packed.logits(batch)
    with torch.no_grad():
        without = packed.logits(batch)
    assert with_gradients.requires_grad
    torch.testing.assert_close(with_gradients.detach(), without, atol=1e-5, rtol=1e-5)


def test_the_isolation_check_refuses_a_model_that_leaks(tiny_model, monkeypatch):
    packed = PackedModel(tiny_model("bert"), FAMILIES["bert"])
    monkeypatch.setattr(
        PackedModel, "additive", staticmethod(lambda allowed, dtype: torch.zeros(allowed.shape))
    )
    with pytest.raises(UnsupportedModelError, match="packed rows change the logits of this bert"):
        check_isolation(packed, 1)


def test_the_isolation_check_refuses_positions_that_start_at_the_wrong_row(tiny_model):
    packed = PackedModel(tiny_model("roberta"), FAMILIES["roberta"])
    assert packed.first_position == 2
    packed.first_position = 0
    with pytest.raises(UnsupportedModelError, match="packed rows change the logits"):
        check_isolation(packed, 1)


def test_the_isolation_check_leaves_mode_and_attention_as_they_were(tiny_model, tiny_tokens):
    packed = PackedModel(tiny_model("bert"), FAMILIES["bert"])
    packed.model.train()
    check_isolation(packed, 1)
    assert packed.model.training
    batch = batch_of(tiny_tokens(6))
    before = packed.model.eval() and packed.logits(batch)
    check_isolation(packed, 1)
    assert torch.equal(packed.logits(batch), before)


@ALL_FAMILIES
def test_dropout_acts_in_training_and_is_fixed_by_the_seed(family, tiny_model, tiny_tokens):
    packed, batch = PackedModel(tiny_model(family), FAMILIES[family]), batch_of(tiny_tokens(9))
    plain = packed.logits(batch)
    packed.model.train()
    first, again, other = (torch.manual_seed(seed) and packed.logits(batch) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=1e-3)
    assert not torch.allclose(first, plain, atol=1e-3)


def test_attention_dropout_drops_weights_and_keeps_their_mean():
    q = torch.zeros(64, 2, 16, 4)
    v = torch.ones(64, 2, 16, 4)
    torch.manual_seed(0)
    mixed, _ = packed_attention(torch.nn.Identity(), q, q, v, None, dropout=0.5)
    assert mixed.shape == (64, 16, 2, 4)
    assert float(mixed.mean()) == pytest.approx(1.0, abs=0.02)
    # A row of 16 weights of 1/16, each kept with probability 1/2 and doubled: variance 1/16.
    assert float(mixed[..., 0].var()) == pytest.approx(1 / 16, rel=0.15)


def test_attention_on_a_cpu_makes_two_maps_and_lets_the_first_go_before_dropout(monkeypatch):
    made, there = [], []

    class Maps(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **kwargs or {})
            if isinstance(result, torch.Tensor) and result.numel() == 3 * 2 * 16 * 16:
                made.append(StorageWeakRef(result.untyped_storage()))
            return result

    def dropped(weights, _):
        there.extend({ref.cdata for ref in made if not ref.expired()})
        return weights

    monkeypatch.setattr("lingraft.models.packed.drop", dropped)
    q, mask = torch.rand(3, 2, 16, 4, requires_grad=True), torch.zeros(3, 1, 16, 16)
    with Maps():
        packed_attention(torch.nn.Identity(), q, q, q, mask, dropout=0.5)
    assert len({ref.cdata for ref in made}) == 2
    assert len(there) == 1


def test_a_batch_keeps_its_sizes_on_another_device(tiny_tokens):
    batch = batch_of(tiny_tokens(6))
    moved = batch.to(torch.device("meta"))
    assert moved.input_ids_NT.device.type == "meta"
    assert moved.targets_M.shape == batch.targets_M.shape
    assert batch.input_ids_NT.device.type == "cpu"


def test_a_model_whose_attention_cannot_be_replaced_is_refused(tiny_model, monkeypatch):
    model = copy.deepcopy(tiny_model("bert"))
    monkeypatch.setattr(type(model), "is_backend_compatible", classmethod(lambda cls: False))
    with pytest.raises(UnsupportedModelError, match="BertForMaskedLM does not let its attention"):
        PackedModel(model, FAMILIES["bert"])


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


@pytest.mark.parametrize("seed", range(6))
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


def test_rows_of_documents_of_one_length_are_packed_as_ever():
    lengths = np.array([30] * 9 + [20] * 4)
    assert pack_by_length(lengths, 64) == [pack(lengths, 64)]
    (one,) = pack_by_length(np.array([200, 150, 180]), 64)
    assert one == pack(np.array([200, 150, 180]), 64)
