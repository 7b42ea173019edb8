"""What a causal model writes behind beginnings, by the stock `generate()`."""

import pytest
import tiny_judged
import torch

from lingraft.evaluation import samples
from lingraft.evaluation.scorer import Scorer
from lingraft.models.families import FAMILIES

CAUSAL = [name for name, record in FAMILIES.items() if record.kind == "causal"]
TEXTS = [
    "The dog ran to the door because it was raining and he was wet. " * 3,
    "비가 와서 우산을 썼다. 문을 열고 나가 오래 걸었다. " * 4,
    "He was",
]


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_judged.tokenizer()


@pytest.fixture(scope="module")
def scorer(tokenizer):
    return Scorer(tiny_judged.model(), tokenizer.pad_token_id, "fp32")


def test_samples_are_those_of_the_stock_model(scorer, tokenizer):
    stock = tiny_judged.model()
    begun = samples.beginnings(TEXTS, 1)
    (row,) = samples.continuations(scorer.model, tokenizer, begun, 400, seed=3, tokens=8)
    assert row["beginning"] == begun[0][0]
    ids = tokenizer(row["beginning"], return_tensors="pt")
    shared = {"max_new_tokens": 8, "pad_token_id": tokenizer.pad_token_id}
    greedy = stock.generate(**ids, do_sample=False, **shared)
    torch.manual_seed(3)
    drawn = stock.generate(**ids, do_sample=True, top_p=0.9, top_k=0, **shared)
    for mode, made in (("greedy", greedy), ("drawn", drawn)):
        text = tokenizer.decode(made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        assert row[mode] == text


@pytest.mark.parametrize("family", CAUSAL)
def test_beginnings_of_other_lengths_are_gone_on_with_as_if_alone(
    family, tiny_model, tiny_tokenizer, monkeypatch
):
    monkeypatch.setattr(samples, "SAMPLES_AT_ONCE", 2)
    texts = ["나는 학교에 가서", "바다", "The cat sat on the mat. It slept."]
    begun = [(text, "and more") for text in texts]
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)

    def greedy(pairs):
        rows = samples.continuations(model, tokenizer, pairs, 40, seed=0, tokens=6)
        return [(row["beginning"], row["greedy"]) for row in rows]

    assert greedy(begun) == [row for pair in begun for row in greedy([pair])]


def test_beginnings_end_between_words_and_what_follows_is_kept():
    for beginning, behind in samples.beginnings(TEXTS, 8):
        assert any(beginning + behind == text for text in TEXTS)
        assert behind.startswith(" ")
        assert 0 < len(beginning) <= samples.CHARACTERS
    assert len(samples.beginnings(TEXTS, 1)) == 1
    assert samples.beginnings(["He was here"], 3) == [("He", " was here")]
