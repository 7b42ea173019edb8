"""What a causal model writes behind beginnings, by the stock `generate()`."""

import pytest
import tiny_judged
import torch
from transformers import GenerationConfig

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


def test_the_model_attends_as_before_afterwards(scorer, tokenizer):
    before = scorer.model.config._attn_implementation
    samples.continuations(scorer.model, tokenizer, [("He was", "")], 96, seed=0, tokens=2)
    assert scorer.model.config._attn_implementation == before == "lingraft_packed"


def test_the_checkpoints_own_settings_of_generation_change_nothing(scorer, tokenizer):
    def written():
        beginnings = [("비가 와서 우산을", ""), ("The dog ran to", "")]
        return samples.continuations(scorer.model, tokenizer, beginnings, 96, seed=0, tokens=12)

    plain, before = written(), scorer.model.generation_config
    own = GenerationConfig(repetition_penalty=3.0, temperature=0.1, no_repeat_ngram_size=2)
    scorer.model.generation_config = own
    try:
        assert written() == plain
        assert scorer.model.generation_config is own
    finally:
        scorer.model.generation_config = before


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


def test_the_cache_changes_nothing_of_what_is_written(scorer, tokenizer):
    stock = tiny_judged.model()
    (row,) = samples.continuations(
        scorer.model, tokenizer, [("The dog", "")], 96, seed=0, tokens=12
    )
    ids = tokenizer("The dog")["input_ids"]
    for _ in range(12):
        with torch.no_grad():
            ids.append(int(stock(torch.tensor([ids])).logits[0, -1].argmax()))
    start = len(tokenizer("The dog")["input_ids"])
    assert row["greedy"] == tokenizer.decode(ids[start:], skip_special_tokens=True)


def test_drawn_samples_change_with_the_seed_and_greedy_ones_do_not(scorer, tokenizer):
    begun = samples.beginnings(TEXTS, 1)
    first, again, other = (
        samples.continuations(scorer.model, tokenizer, begun, 96, seed=seed, tokens=12)[0]
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first["greedy"] == other["greedy"]
    assert first["drawn"] != other["drawn"]


def test_beginnings_end_between_words_and_what_follows_is_kept():
    for beginning, behind in samples.beginnings(TEXTS, 8):
        assert any(beginning + behind == text for text in TEXTS)
        assert behind.startswith(" ")
        assert 0 < len(beginning) <= samples.CHARACTERS
    assert len(samples.beginnings(TEXTS, 1)) == 1
    assert samples.beginnings(["He was here"], 3) == [("He", " was here")]
