import numpy as np
import pytest
import torch

from lingraft.models.families import FAMILIES
from lingraft.models.packed import PackedModel, assemble
from lingraft.models.rows import pack
from lingraft.objectives.common import TokenIds
from lingraft.objectives.mlm import MLM, corrupt, hash64, sentence_keys, uniform
from lingraft.recipe import Masking
from lingraft.training.data import Batcher

IDS = TokenIds(size=1_000, mask=999, pad=1, special=(0, 1, 2, 3, 999))


def text(number=50, shortest=3, longest=40, seed=0):
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


def test_uniform_numbers_cover_the_unit_interval_evenly():
    draws = uniform(np.arange(100_000, dtype=np.uint64))
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert np.abs(counts - 5_000).max() < 5 * np.sqrt(5_000)


def test_keys_differ_between_sentences_and_between_any_of_the_seeds():
    indices = np.arange(1_000)
    keys = [sentence_keys(indices, *numbers) for numbers in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert len(np.unique(np.concatenate(keys))) == 4_000


def test_a_mask_is_a_function_of_the_sentence_and_its_key_alone():
    sentences, keys = text(), sentence_keys(np.arange(50), 7)
    together = hide(sentences, keys)
    order = np.random.default_rng(3).permutation(50)
    shuffled = hide([sentences[i] for i in order], keys[order])
    assert [together[i] for i in order] == shuffled
    alone = [hide([s], keys[i : i + 1])[0] for i, s in enumerate(sentences)]
    assert alone == together


def test_another_key_gives_another_mask():
    sentences = text()
    first = hide(sentences, sentence_keys(np.arange(50), 7, 0))
    second = hide(sentences, sentence_keys(np.arange(50), 7, 1))
    assert sum(a[1] != b[1] for a, b in zip(first, second, strict=True)) > 40


@pytest.mark.parametrize("scheme", ["bert", "mask-only"])
def test_special_tokens_are_never_predicted_and_never_inserted(scheme):
    sentences = text(400)
    rows = hide(sentences, sentence_keys(np.arange(400), 1), Masking(rate=0.5, scheme=scheme))
    for sentence, (ids, masked, targets) in zip(sentences, rows, strict=True):
        assert not set(targets) & set(IDS.special)
        assert (ids[0], ids[-1]) == (0, 2)
        assert {ids[place] for place in masked} & set(IDS.special) <= {IDS.mask}
        untouched = np.setdiff1d(np.arange(len(sentence)), masked)
        assert np.array(ids)[untouched].tolist() == sentence[untouched].tolist()


def test_targets_are_the_tokens_that_stood_at_the_masked_places():
    sentences = text()
    for sentence, (_, masked, targets) in zip(
        sentences, hide(sentences, sentence_keys(np.arange(50), 1)), strict=True
    ):
        assert sentence[masked].tolist() == targets
        assert masked == sorted(set(masked))


def test_at_least_one_token_of_every_sentence_is_predicted():
    sentences = [np.array([0, 7, 2])] * 200
    rows = hide(sentences, sentence_keys(np.arange(200), 1), Masking(rate=0.01))
    assert all(masked == [1] and targets == [7] for _, masked, targets in rows)


def test_a_sentence_of_special_tokens_alone_has_nothing_to_predict():
    rows = hide([np.array([0, 2]), np.array([0, 9, 2])], sentence_keys(np.arange(2), 1))
    assert rows[0] == ([0, 2], [], [])
    assert rows[1][1:] == ([1], [9])


def test_the_number_of_predicted_tokens_is_the_rate_rounded_up_or_down():
    sentences = text(500, 20, 60)
    rows = hide(sentences, sentence_keys(np.arange(500), 1), Masking(rate=0.15))
    for sentence, (_, masked, _) in zip(sentences, rows, strict=True):
        exact = 0.15 * (len(sentence) - 2)
        assert np.floor(exact) <= len(masked) <= np.ceil(exact)


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


def test_random_replacements_are_spread_over_the_whole_vocabulary():
    sentences = [np.full(100, 500)] * 1_000
    rows = hide(sentences, sentence_keys(np.arange(1_000), 2), Masking(rate=0.9))
    ids = np.concatenate([np.array(row[0])[row[1]] for row in rows])
    inserted = ids[(ids != IDS.mask) & (ids != 500)]
    assert len(inserted) > 8_000
    assert len(np.unique(inserted)) > 990
    assert np.bincount(inserted).max() < 30


def test_mask_only_hides_every_predicted_token():
    rows = hide(text(), sentence_keys(np.arange(50), 2), Masking(scheme="mask-only"))
    assert {np.array(ids)[place] for ids, masked, _ in rows for place in masked} == {IDS.mask}


def test_both_schemes_predict_the_same_tokens():
    sentences, keys = text(), sentence_keys(np.arange(50), 2)
    one, other = (hide(sentences, keys, Masking(scheme=name)) for name in ("bert", "mask-only"))
    assert [row[1:] for row in one] == [row[1:] for row in other]


def test_the_input_is_not_changed():
    ids = np.concatenate(text(5))
    before = ids.copy()
    corrupt(ids, np.array([len(ids)]), sentence_keys(np.arange(1), 2), IDS, Masking(rate=0.5))
    assert (ids == before).all()


def packed_sentences(tokens):
    """Rows of sentences whose third and sixth token are predicted; the sentences, and what stood
    there."""
    sentences, places = tokens.rows(range(len(tokens))), [np.array([2, 5])] * len(tokens)
    rows, width = pack(tokens.lengths, 32)
    targets = [s[p].astype(np.int64) for s, p in zip(sentences, places, strict=True)]
    return assemble(sentences, places, targets, rows, width, 1), sentences, targets


def test_the_loss_is_the_summed_cross_entropy_of_the_masked_tokens(tiny_model, tiny_tokens):
    batch, sentences, targets = packed_sentences(tiny_tokens(5))
    (found,) = MLM.loss(PackedModel(tiny_model("bert"), FAMILIES["bert"]), batch).values()
    stock, expected = tiny_model("bert"), 0.0
    for sentence, gold in zip(sentences, targets, strict=True):
        logits = stock(input_ids=torch.from_numpy(sentence.astype(np.int64))[None]).logits[0]
        expected -= logits.log_softmax(1)[[2, 5], gold].sum().item()
    assert found.positions == 10
    assert found.nats.item() == pytest.approx(expected, rel=1e-5)


def test_places_that_fill_up_a_batch_teach_nothing(tiny_model, tiny_tokens):
    """Their logits are computed, for the sake of few shapes; the gradient is that without them."""
    batch, _, _ = packed_sentences(tiny_tokens(5))
    model = tiny_model("bert").eval()
    packed, weights = PackedModel(model, FAMILIES["bert"]), list(model.parameters())
    (found,) = MLM.loss(packed, batch).values()
    filled = torch.autograd.grad(found.nats, weights, allow_unused=True)
    nats = torch.nn.functional.cross_entropy(packed.logits(batch), batch.targets_M, reduction="sum")
    plain = torch.autograd.grad(nats, weights, allow_unused=True)
    assert len(batch.filled().masked_M) == len(batch.filled().targets_M) == 64
    for one, other in zip(filled, plain, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_head_meets_few_shapes(tiny_tokens):
    """Every new one costs a CPU a kernel, and the heap a hole."""
    tokens = tiny_tokens(2_000, 10, 50)
    batcher = Batcher(tokens, MLM, IDS, Masking(), 128, 2_048, 0, "x")
    steps = [batcher.step(np.arange(start, start + 64), 0) for start in range(0, 2_000 - 64, 64)]
    first = [step.micro_batches[0] for step in steps]
    assert len({len(batch.masked_M) for batch in first}) > 8
    assert len({len(batch.filled().masked_M) for batch in first}) <= 3
