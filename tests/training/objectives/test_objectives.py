"""Masked words, every token from those before it, spans of a sentence: what is hidden, and what it
costs."""

import numpy as np
import pytest
import torch
from phase_rows import CAUSAL_IDS

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.models.rows import pack
from lingraft.models.stacks import packed_model
from lingraft.recipe import Masking
from lingraft.tokenizer.documents import Documents
from lingraft.training.data import Batcher
from lingraft.training.objectives.clm import CLM
from lingraft.training.objectives.common import TokenIds
from lingraft.training.objectives.denoise import (
    corrupt as hide_spans,
    infilled,
    span_corrupted,
    spans_mask,
)
from lingraft.training.objectives.mlm import MLM, corrupt, hash64, sentence_keys

IDS = TokenIds(size=1_000, mask=999, pad=1, special=(0, 1, 2, 3, 999))


def sentences_of(number=50, shortest=3, longest=40, seed=0):
    generator = np.random.default_rng(seed)
    return [
        np.concatenate([[0], generator.integers(4, 999, length), [2]])
        for length in generator.integers(shortest, longest, number)
    ]


def hide(sentences, keys, masking=None):
    """Corrupts sentences together; gives each sentence's ids, masked places and targets."""
    lengths = np.array([len(s) for s in sentences])
    done = corrupt(np.concatenate(sentences), lengths, keys, IDS, masking or Masking())
    starts = np.cumsum(lengths) - lengths
    rows = []
    for start, length in zip(starts, lengths, strict=True):
        inside = (done.masked >= start) & (done.masked < start + length)
        rows.append(
            (
                done.ids[start : start + length].tolist(),
                (done.masked[inside] - start).tolist(),
                done.targets[inside].tolist(),
            )
        )
    return rows


@pytest.mark.parametrize(
    ("state", "output"),
    [
        (0, 0xE220A8397B1DCDAF),
        (0x9E3779B97F4A7C15, 0x6E789E6AA1B965F4),
        (2 * 0x9E3779B97F4A7C15 % 2**64, 0x06C45D188009454F),
    ],
)
def test_the_hash_is_splitmix64(state, output):
    """The first three outputs of the reference implementation seeded with 0 (Vigna)."""
    assert int(hash64(np.array([state], dtype=np.uint64))[0]) == output


@pytest.mark.parametrize("scheme", ["bert", "mask-only"])
def test_special_tokens_are_never_predicted_and_never_inserted(scheme):
    sentences = sentences_of(400)
    rows = hide(sentences, sentence_keys(np.arange(400), 1), Masking(rate=0.5, scheme=scheme))
    for sentence, (ids, masked, targets) in zip(sentences, rows, strict=True):
        assert not set(targets) & set(IDS.special)
        assert (ids[0], ids[-1]) == (0, 2)
        assert {ids[place] for place in masked} & set(IDS.special) <= {IDS.mask}
        untouched = np.setdiff1d(np.arange(len(sentence)), masked)
        assert np.array(ids)[untouched].tolist() == sentence[untouched].tolist()


def test_a_sentence_of_special_tokens_alone_has_nothing_to_predict():
    rows = hide([np.array([0, 2]), np.array([0, 9, 2])], sentence_keys(np.arange(2), 1))
    assert rows[0] == ([0, 2], [], [])
    assert rows[1][1:] == ([1], [9])


def test_rate_and_shares_are_right_on_a_hundred_thousand_tokens():
    generator = np.random.default_rng(5)
    sentences = list(generator.integers(4, 999, (4_000, 25)))
    rows = hide(sentences, sentence_keys(np.arange(4_000), 2))
    masked = np.concatenate([row[1] for row in rows])
    assert abs(len(masked) / 100_000 - 0.15) < 4 * np.sqrt(0.15 * 0.85 / 100_000)
    ids = np.concatenate([np.array(row[0])[row[1]] for row in rows])
    gold = np.concatenate([row[2] for row in rows])
    masks, kept = (ids == IDS.mask).mean(), (ids == gold).mean()
    for share, wanted in ((masks, 0.8), (kept, 0.1), (1 - masks - kept, 0.1)):
        assert abs(share - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / len(ids))
    places = np.bincount(masked, minlength=25)
    assert np.abs(places - len(masked) / 25).max() < 5 * np.sqrt(len(masked) / 25)


def packed_sentences(tokens):
    """Rows of sentences whose third and sixth token are predicted."""
    sentences, places = tokens.rows(range(len(tokens))), [np.array([2, 5])] * len(tokens)
    rows, width = pack(tokens.lengths, 32)
    targets = [s[p].astype(np.int64) for s, p in zip(sentences, places, strict=True)]
    return assemble(sentences, places, targets, rows, width, 1)


def test_places_that_fill_up_a_batch_teach_nothing(tiny_model, tiny_tokens):
    """Their logits are computed, for the sake of few shapes; the gradient is that without them."""
    batch = packed_sentences(tiny_tokens(5))
    model = tiny_model("bert").eval()
    packed, weights = PackedModel(model, FAMILIES["bert"]), list(model.parameters())
    (found,) = MLM.loss(packed, batch).values()
    filled = torch.autograd.grad(found.nats, weights, allow_unused=True)
    nats = torch.nn.functional.cross_entropy(packed.logits(batch), batch.targets_M, reduction="sum")
    plain = torch.autograd.grad(nats, weights, allow_unused=True)
    assert found.positions == 10
    torch.testing.assert_close(found.nats, nats)
    assert len(batch.filled().masked_M) == len(batch.filled().targets_M) == 64
    for one, other in zip(filled, plain, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]


def test_a_unit_is_read_without_its_last_token_and_predicted_without_its_first():
    ids, lengths = np.array([5, 6, 7, 8, 9], np.uint16), np.array([3, 2])
    found = CLM.corrupt(ids, lengths, np.zeros(2, np.uint64), CAUSAL_IDS, Masking())
    read, places, targets = found.by_sentence(lengths)
    assert [row.tolist() for row in read] == [[5, 6], [8]]
    assert [row.tolist() for row in places] == [[0, 1], [0]]
    assert [row.tolist() for row in targets] == [[6, 7], [9]]


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("context", [64, 5], ids=["whole", "cut"])
def test_its_loss_and_gradient_are_those_of_the_stock_class_one_piece_at_a_time(
    family, context, tiny_model, tiny_tokens
):
    tokens, stock, ours = tiny_tokens(7), tiny_model(family), tiny_model(family)
    units = Documents.of(tokens, context)
    expected = torch.zeros(())
    for row in units.rows(range(len(units))):
        ids = torch.from_numpy(row.astype(np.int64))[None]
        logits = stock(input_ids=ids[:, :-1]).logits[0]
        expected = expected + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
    expected.backward()
    step = Batcher(units, CLM, CAUSAL_IDS, Masking(), 32, 4_096, 0, "one").step(
        np.arange(len(units)), 0
    )
    (batch,) = step.micro_batches
    assert int(batch.segments_NT.max()) > 1
    found = CLM.loss(packed_model(ours, FAMILIES[family]), batch)["clm"]
    found.nats.backward()
    assert found.positions == step.targets["clm"] == int(tokens.lengths.sum()) - 7
    assert step.global_tokens == found.positions
    torch.testing.assert_close(found.nats, expected, rtol=1e-5, atol=1e-3)
    for (name, own), theirs in zip(ours.named_parameters(), stock.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad, rtol=1e-4, atol=1e-3, msg=name)


SENTINELS = tuple(range(999, 899, -1))
T5 = TokenIds(1_000, 999, 0, (0, 1, 2, *SENTINELS), SENTINELS, unk=2)
BART = TokenIds(1_000, 999, 1, (0, 1, 2, 3, 999), unk=3)
SPANS, INFILLING = Masking(scheme="spans"), Masking(scheme="infilling", rate=0.3)


def text_of(length, seed=0):
    return np.random.default_rng(seed).integers(10, 890, length)


def runs(mask):
    """Lengths of the stretches of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return np.diff(edges)[::2]


@pytest.mark.parametrize(("length", "noise", "spans"), [(568, 85, 28), (20, 3, 1), (141, 21, 7)])
def test_the_noise_is_what_t5_counts(length, noise, spans):
    for seed in range(5):
        mask = spans_mask(length, 0.15, 3.0, np.random.default_rng(seed))
        assert (len(mask), int(mask.sum()), len(runs(mask))) == (length, noise, spans)
        assert not mask[0]
        assert mask[-1]


def test_a_text_of_568_tokens_becomes_512_and_114_as_in_t5():
    row = np.append(text_of(568), 1)
    made = hide_spans(row, np.array([569]), sentence_keys(np.arange(1), 0), T5, SPANS)
    assert (len(made.ids), len(made.targets)) == (512, 114)


def test_sentinels_put_the_spans_back_in_their_places():
    text = text_of(60)
    source, target = span_corrupted(text, SENTINELS, SPANS, np.random.default_rng(3))
    spans, current = {}, None
    for token in target.tolist():
        if token in SENTINELS:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    assert list(spans) == list(SENTINELS[: len(spans)])
    restored = [t for token in source.tolist() for t in spans.get(token, [token])]
    assert restored == text.tolist()


@pytest.mark.parametrize("length", [1, 2, 7, 40, 333])
def test_infilling_hides_a_fixed_number_of_tokens_and_keeps_the_others_in_order(length):
    text = np.arange(10, 10 + length)
    for seed in range(20):
        source = infilled(text, 999, INFILLING, np.random.default_rng(seed))
        kept = source[source != 999]
        assert len(kept) == length - max(1, round(0.3 * length))
        assert (np.diff(kept) > 0).all()
        assert not ((source[1:] == 999) & (source[:-1] == 999)).any()


@pytest.mark.parametrize(("ids", "masking"), [(T5, SPANS), (BART, INFILLING)])
def test_what_stands_around_a_sentence_stays_and_unknown_text_is_text(ids, masking):
    row = np.concatenate([[2 if ids is BART else 50], text_of(30), [ids.unk], [2 - (ids is T5)]])
    made = hide_spans(row, np.array([len(row)]), sentence_keys(np.arange(1), 1), ids, masking)
    assert made.ids[-1] == made.targets[-1] == row[-1]
    if ids is BART:
        assert made.ids[0] == 2
        assert made.targets.tolist() == row.tolist()
    else:
        assert ids.unk in (*made.ids, *made.targets)
