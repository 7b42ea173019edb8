import numpy as np
import pytest
import torch

from lingraft.errors import UnsupportedModelError
from lingraft.models.families import FAMILIES
from lingraft.models.packed import (
    PackedModel,
    assemble,
    attend_fast,
    check_isolation,
)
from lingraft.models.rows import pack, pack_by_length

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
