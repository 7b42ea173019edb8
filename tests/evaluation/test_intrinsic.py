"""Scores of hidden tokens: ranks, perplexity, the scorer's logits, and samples."""

import math

import numpy as np
import pytest
import torch
from phase_rows import IDS
from tiny_shapes import ENCODERS
from transformers import AutoConfig

from lingraft.errors import DataError
from lingraft.evaluation import scorer as scorer_module
from lingraft.evaluation.intrinsic import MaskedTokens, mask_text, measure, ranks, unigram_entropy
from lingraft.evaluation.samples import predictions, readable
from lingraft.evaluation.scorer import HiddenItem, Scorer
from lingraft.recipe import Masking
from lingraft.recipe.decoding import decode, load
from lingraft.rundir import Run
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.shards import Tokens
from lingraft.training.objectives.common import TokenIds


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
        HiddenItem(np.zeros(3, int), np.array([0, 1]), np.array([2, 0])),
        HiddenItem(np.zeros(2, int), np.array([], int), np.array([], int)),
        HiddenItem(np.zeros(1, int), np.array([0]), np.array([3])),
    ]
    by_item = {id(items[0]): rows[:2], id(items[2]): rows[2:]}
    known = known_scorer(lambda item, place: by_item[id(item)][place])
    found = score(known, MaskedTokens(items, "f", "bert"))
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
    shuffled = score(scorer, MaskedTokens([text.items[i] for i in order], "f", "bert"))
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


@pytest.fixture
def text(tiny_tokens):
    return hidden(tiny_tokens(25, 4, 30))


@torch.no_grad()
def one_by_one(model, items):
    """Logits of every hidden token, a sentence at a time through the stock forward pass."""
    return {
        (i, j): model(input_ids=torch.from_numpy(item.ids)[None]).logits[0, place]
        for i, item in enumerate(items)
        for j, place in enumerate(item.masked)
    }


def collected(scorer, items):
    found = {}
    for where, logits in scorer.logits(items):
        assert logits.dtype == torch.float32
        for (i, j), row in zip(where.tolist(), logits, strict=True):
            assert (i, j) not in found
            found[i, j] = row
    return found


@pytest.mark.parametrize("family", ENCODERS)
def test_a_family_is_scored_on_packed_rows_as_one_by_one(family, tiny_model, text):
    found = collected(Scorer(tiny_model(family), 1, "fp32"), text.items)
    expected = one_by_one(tiny_model(family), text.items)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_head_of_a_family_is_in_fp32_so_that_no_target_is_tied(family, tiny_model, text):
    assert score(Scorer(tiny_model(family), 1, "bf16"), text)["ties"] == 0


def test_a_model_without_any_masked_language_model_class_is_refused(tmp_path):
    AutoConfig.for_model("gpt2", n_layer=1, n_embd=8, n_head=2).save_pretrained(tmp_path)
    with pytest.raises(DataError, match="is of type 'gpt2', which has no masked") as caught:
        Scorer.load(str(tmp_path), 0)
    assert "\n" not in str(caught.value)


def test_each_hidden_token_comes_with_the_five_likeliest(tiny_tokenizer, tiny_model):
    tokenizer = tiny_tokenizer("roberta")
    sentences = ["문서를 열고 형식을 선택한 다음", "나는 학교에 가서 책을 읽었다."]
    encoded = [np.array(row) for row in tokenizer(sentences)["input_ids"]]
    masking = Masking(rate=0.2, scheme="mask-only")
    text = mask_text(encoded, IDS, "tokenizer", masking, 0)
    scorer = Scorer(tiny_model("roberta"), IDS.pad, "fp32")
    rows = predictions(scorer, tokenizer, text, [1, 0])
    assert [row["text"] for row in rows] == sentences[::-1]
    for row, item, whole in zip(rows, text.items[::-1], encoded[::-1], strict=True):
        is_hidden = np.isin(np.arange(len(whole)), item.masked).tolist()
        pieces = [readable(token, tokenizer) for token in whole.tolist()]
        assert row["tokens"] == [list(pair) for pair in zip(pieces, is_hidden, strict=True)]
        assert [p["index"] for p in row["predictions"]] == list(item.masked)
        for guess in row["predictions"]:
            assert guess["gold"] == row["tokens"][guess["index"]][0]
            shares = [share for _, share in guess["top"]]
            assert len(shares) == 5
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1 + 1e-6


def test_unigrams_are_over_the_tokens_that_can_be_targets(adapted):
    run = Run(adapted("roberta"))
    folder, section = run.stage("tokenizer").path, decode(load(run.recipe_path)).evaluation
    ids = TokenIds.of(tokenizer_files.load(str(folder)))
    test = Tokens.open(folder, "test")
    masking = Masking(rate=section.masking_rate, scheme="mask-only")
    text = mask_text(test.rows(range(len(test))), ids, "", masking, section.seed)
    targets = np.concatenate([item.targets for item in text.items])
    counts = Tokens.open(folder, "train").counts(ids.size) + 1
    expected = -np.log(counts[targets] / counts[ids.ordinary].sum()).mean()
    assert run.stage("evaluation").result()["unigram_entropy"] == pytest.approx(expected)
