import math

import numpy as np
import pytest
import torch

from lingraft.evaluation import scorer as scorer_module
from lingraft.evaluation.intrinsic import MaskedText, mask_text, measure, ranks, unigram_entropy
from lingraft.evaluation.scorer import Item, Scorer
from lingraft.recipe import Masking
from lingraft.training.objectives.common import TokenIds

IDS = TokenIds(size=320, mask=319, pad=1, special=(0, 1, 2, 3, 319))


def score(scorer, text):
    return measure(scorer, text).metrics()


def hidden(tokens, *, tokenizer="tokenizer", masking=None, seed=0):
    masking = masking or Masking(rate=0.3)
    return mask_text(tokens.rows(range(len(tokens))), IDS, tokenizer, masking, seed)


def test_ranks_by_hand_on_five_words_with_ties_counted_half():
    logits = torch.tensor(
        [[3.0, 1, 2, 0, -1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1], [2, 2, 1, 1, 1]]
    )
    rank, equal = ranks(logits, torch.tensor([2, 0, 3, 0, 4]))
    assert rank.tolist() == [2.0, 2.0, 3.0, 1.0, 4.0]
    assert equal.tolist() == [0, 2, 4, 0, 2]


def test_a_model_that_gives_no_numbers_has_the_worst_rank():
    logits = torch.tensor([[float("nan")] * 5, [0, float("nan"), 1, 2, 3], [1, 2, 3, 4, 5]])
    rank, equal = ranks(logits, torch.tensor([2, 3, 4]))
    assert rank.tolist() == [6.0, 3.0, 1.0]
    assert equal.tolist() == [0, 0, 0]


def test_metrics_by_hand_on_five_words(known_scorer):
    rows = [[3.0, 1, 2, 0, -1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    items = [
        Item(np.zeros(3, int), np.array([0, 1]), np.array([2, 0])),
        Item(np.zeros(2, int), np.array([], int), np.array([], int)),
        Item(np.zeros(1, int), np.array([0]), np.array([3])),
    ]
    by_item = {id(items[0]): rows[:2], id(items[2]): rows[2:]}
    known = known_scorer(lambda item, place: by_item[id(item)][place])
    found = score(known, MaskedText(items, "f", "bert"))
    likelihoods = [
        math.exp(2) / sum(math.exp(x) for x in rows[0]),
        math.e / (3 * math.e + 2),
        1 / 5,
    ]
    loss = -sum(map(math.log, likelihoods)) / 3
    assert found == {
        "loss": pytest.approx(loss),
        "perplexity": pytest.approx(math.exp(loss)),
        "hits@1": 0.0,
        "hits@3": 100.0,
        "hits@5": 100.0,
        "hits@10": 100.0,
        "mrr": pytest.approx((1 / 2 + 1 / 2 + 1 / 3) / 3),
        "mr": pytest.approx(7 / 3),
        "positions": 3,
        "ties": 2,
    }


def test_a_uniform_model_has_the_vocabulary_size_as_perplexity(tiny_model, tiny_tokens):
    model = tiny_model("bert")
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
        model.cls.predictions.bias.zero_()
    found = score(Scorer(model, 1, "fp32"), hidden(tiny_tokens(20)))
    assert found["perplexity"] == pytest.approx(320, rel=1e-6)
    assert found["mr"] == 321 / 2
    assert found["mrr"] == pytest.approx(2 / 321)
    assert found["hits@10"] == 0
    assert found["ties"] == found["positions"] > 20


def test_the_metrics_do_not_depend_on_how_sentences_are_batched(
    tiny_model, tiny_tokens, monkeypatch
):
    tokens = tiny_tokens(40, 5, 60)
    text, scorer = hidden(tokens), Scorer(tiny_model("roberta"), 1, "fp32")
    whole = score(scorer, text)
    monkeypatch.setattr(scorer_module, "TOKENS_AT_ONCE", 70)
    monkeypatch.setattr(scorer_module, "POSITIONS_AT_ONCE", 3)
    cut = score(scorer, text)
    order = np.random.default_rng(0).permutation(40)
    shuffled = score(scorer, MaskedText([text.items[i] for i in order], "f", "bert"))
    for other in (cut, shuffled):
        assert other == pytest.approx(whole, rel=1e-5)
        assert {k: v for k, v in other.items() if k[:4] == "hits"} == {
            k: v for k, v in whole.items() if k[:4] == "hits"
        }


def test_masks_are_a_function_of_the_place_in_the_text_and_the_seed(tiny_tokens):
    tokens = tiny_tokens(30)
    long = hidden(tokens)
    short = mask_text(tokens.rows(range(10)), IDS, "tokenizer", Masking(rate=0.3), 0)
    for ours, theirs in zip(short.items, long.items, strict=False):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.masked.tolist() == theirs.masked.tolist()
    assert long.positions == sum(len(item.targets) for item in long.items)


def test_the_fingerprint_names_text_tokenizer_seed_rate_and_scheme(tiny_tokens):
    made = [
        hidden(tiny_tokens(30)),
        hidden(tiny_tokens(30, seed=1)),
        hidden(tiny_tokens(31)),
        hidden(tiny_tokens(30), tokenizer="another"),
        hidden(tiny_tokens(30), seed=1),
        hidden(tiny_tokens(30), masking=Masking(rate=0.31)),
        hidden(tiny_tokens(30), masking=Masking(rate=0.3, scheme="mask-only")),
    ]
    assert len({text.fingerprint for text in made}) == len(made)
    assert hidden(tiny_tokens(30)).fingerprint == made[0].fingerprint


def test_both_schemes_hide_the_same_tokens(tiny_tokens):
    one, other = (
        hidden(tiny_tokens(30), masking=Masking(rate=0.3, scheme=name))
        for name in ("bert", "mask-only")
    )
    for ours, theirs in zip(one.items, other.items, strict=True):
        assert ours.masked.tolist() == theirs.masked.tolist()
        assert (theirs.ids[theirs.masked] == IDS.mask).all()


def test_a_model_of_token_frequencies_scores_the_unigram_entropy(known_scorer, tiny_tokens):
    tokens = tiny_tokens(50)
    text, counts = hidden(tokens), tokens.counts(320)
    counts[:4] += 50  # special tokens, two around every sentence
    ordinary = np.where(np.isin(np.arange(320), IDS.ordinary), counts + 1.0, 1e-30)
    frequencies = np.log(ordinary / ordinary.sum()).tolist()
    targets = np.concatenate([item.targets for item in text.items])
    found = score(known_scorer(lambda *_: frequencies), text)["loss"]
    assert found == pytest.approx(unigram_entropy(counts, targets, IDS.ordinary), rel=1e-6)
