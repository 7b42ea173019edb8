"""Bits per byte of whole documents: the stock class's, every byte, whatever the windows; what a
causal model writes behind beginnings."""

import math

import numpy as np
import pytest
import tiny_judged
import torch

from lingraft.evaluation import intrinsic, likelihood, samples
from lingraft.evaluation.scorer import Scorer
from lingraft.models.families import FAMILIES

CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]
DOCUMENTS = [
    "The cat sat on the mat.\nIt slept.",
    "나는 학교에 가서 친구를 만나고",
    "",
    "바다 바다",
]


def measured(model, tokenizer, context):
    text = likelihood.text_of(tokenizer, DOCUMENTS, context)
    scorer = Scorer(model, pad_id=0, precision="fp32")
    return text, intrinsic.measure(scorer, text.tokens)


def stock_nats(model, tokenizer, text, context):
    """Of a document's tokens, each read with what stands before it in its window.

    A window begins with <bos> where a text does, else with the last token of the one before it.
    """
    text = tokenizer(text, add_special_tokens=False)["input_ids"]
    begin = [tokenizer.bos_token_id] if tokenizer("")["input_ids"] else []
    starts = range(0, len(text), context) if begin else range(0, len(text) - 1, context)
    total = 0.0
    for start in starts:
        ids = torch.tensor([*begin, *text[start : start + context + (not begin)]])
        with torch.no_grad():
            logits = model(input_ids=ids[None, :-1]).logits[0].double()
        total += float(torch.nn.functional.cross_entropy(logits, ids[1:], reduction="sum"))
    return total


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("context", [100, 6], ids=["whole", "windows"])
def test_nats_are_those_of_the_stock_class_document_by_document(
    family, context, tiny_model, tiny_tokenizer
):
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)
    expected = np.array([stock_nats(model, tokenizer, t, context) for t in DOCUMENTS if t])
    text, scores = measured(tiny_model(family), tokenizer, context)
    np.testing.assert_allclose(likelihood.nats(text, scores) - text.first_D, expected, rtol=1e-5)
    found = likelihood.likelihood(text, scores)
    whole = "".join(DOCUMENTS)
    assert found["documents"] == 3
    assert found["bytes"] == len(whole.encode())
    assert found["characters"] == len(whole)
    assert found["unknown"] == 0
    bits = (expected.sum() + text.first_D.sum()) / math.log(2)
    assert found["bits_per_byte"] == pytest.approx(bits / found["bytes"], rel=1e-5)
    assert found["bits_per_character"] == pytest.approx(bits / found["characters"], rel=1e-5)


def test_a_first_token_costs_its_share_where_nothing_stands_before_it(tiny_tokenizer):
    texts = ["aa b", "b", "aa b aa"]
    text = likelihood.text_of(tiny_tokenizer("gpt2"), texts, 8)
    ids = [tiny_tokenizer("gpt2")(one)["input_ids"] for one in texts]
    every = [token for row in ids for token in row]
    expected = [-math.log(every.count(row[0]) / len(every)) for row in ids]
    assert text.first_D.tolist() == pytest.approx(expected)
    assert not likelihood.text_of(tiny_tokenizer("llama"), texts, 8).first_D.any()


@pytest.mark.parametrize("family", ["xlm-roberta", "llama", "gpt2"])
def test_a_special_token_that_a_document_spells_is_text(family, tiny_tokenizer):
    """Of Unigram it is a piece, which is unknown."""
    tokenizer = tiny_tokenizer(family)
    text = likelihood.text_of(tokenizer, ["the </s> dog <|endoftext|> sleeps"], 64)
    asked = [token for item in text.tokens.items for token in item.targets.tolist()]
    assert tokenizer.eos_token_id not in asked
    assert (text.unknown > 0) == (family == "xlm-roberta")


@pytest.mark.parametrize("context", [1, 2, 5, 6, 100])
def test_windows_ask_for_every_token_but_the_first_once(context, tiny_tokenizer):
    tokenizer = tiny_tokenizer("llama")
    first, *ids = tokenizer(DOCUMENTS[0])["input_ids"]
    items = likelihood.text_of(tokenizer, DOCUMENTS[:1], context).tokens.items
    assert {int(item.ids[0]) for item in items} == {first}
    assert [len(item.ids) for item in items] == [len(item.targets) for item in items]
    assert np.concatenate([item.targets for item in items]).tolist() == ids
    assert all(0 < len(item.ids) <= context for item in items)


def test_blocks_add_up_to_the_whole(tiny_model, tiny_tokenizer):
    text, scores = measured(tiny_model("gpt2"), tiny_tokenizer("gpt2"), 16)
    whole = likelihood.likelihood(text, scores)
    found = likelihood.likelihood_blocks(text, scores)
    bits, sizes = zip(*found["bits_per_byte"], strict=True)
    assert sum(bits) / sum(sizes) == pytest.approx(whole["bits_per_byte"], rel=1e-4)


def test_ranks_of_new_tokens_are_told_apart(tiny_model, tiny_tokenizer):
    text, scores = measured(tiny_model("gpt2"), tiny_tokenizer("gpt2"), 16)
    targets = np.concatenate([item.targets for item in text.tokens.items])
    new = np.unique(targets[::3])
    found = likelihood.by_piece(text, scores, new)
    for name, chosen in (("new", np.isin(targets, new)), ("old", ~np.isin(targets, new))):
        ranks = scores.rank_P[chosen]
        assert found[name]["share"] == pytest.approx(chosen.mean())
        assert found[name]["mean_rank"] == pytest.approx(ranks.mean())
        assert found[name]["hits@5"] == pytest.approx(100 * (ranks <= 5).mean())
    assert found["all"]["loss"] == pytest.approx(scores.metrics()["loss"])
    assert list(likelihood.by_piece(text, scores, np.zeros(0, int))) == ["all"]


TEXTS = [
    "The dog ran to the door because it was raining and he was wet. " * 3,
    "비가 와서 우산을 썼다. 문을 열고 나가 오래 걸었다. " * 4,
    "He was",
]


@pytest.fixture(scope="module")
def judged():
    return tiny_judged.tokenizer()


@pytest.fixture(scope="module")
def judged_scorer(judged):
    return Scorer(tiny_judged.model(), judged.pad_token_id, "fp32")


def test_samples_are_those_of_the_stock_model(judged_scorer, judged, monkeypatch):
    monkeypatch.setattr(samples, "SAMPLE_TOKENS", 8)
    stock = tiny_judged.model()
    begun = samples.beginnings(TEXTS, 1)
    (row,) = samples.continuations(judged_scorer.model, judged, begun, 400, seed=3)
    assert row["beginning"] == begun[0][0]
    ids = judged(row["beginning"], return_tensors="pt")
    shared = {"max_new_tokens": 8, "pad_token_id": judged.pad_token_id}
    greedy = stock.generate(**ids, do_sample=False, **shared)
    torch.manual_seed(3)
    drawn = stock.generate(**ids, do_sample=True, top_p=0.9, top_k=0, **shared)
    for mode, made in (("greedy", greedy), ("drawn", drawn)):
        text = judged.decode(made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        assert row[mode] == text


@pytest.mark.parametrize("family", CAUSAL)
def test_beginnings_of_other_lengths_are_gone_on_with_as_if_alone(
    family, tiny_model, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(samples, "SAMPLES_AT_ONCE", 2)
    monkeypatch.setattr(samples, "SAMPLE_TOKENS", 6)
    texts = ["나는 학교에 가서", "바다", "The cat sat on the mat. It slept."]
    begun = [(text, "and more") for text in texts]
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)

    def greedy(pairs):
        rows = samples.continuations(model, tokenizer, pairs, 40, seed=0)
        return [(row["beginning"], row["greedy"]) for row in rows]

    assert greedy(begun) == [row for pair in begun for row in greedy([pair])]


def test_beginnings_end_between_words_and_what_follows_is_kept():
    for beginning, behind in samples.beginnings(TEXTS, 8):
        assert any(beginning + behind == text for text in TEXTS)
        assert behind.startswith(" ")
        assert 0 < len(beginning) <= samples.CHARACTERS
    assert len(samples.beginnings(TEXTS, 1)) == 1
    assert samples.beginnings(["He was here"], 3) == [("He", " was here")]
