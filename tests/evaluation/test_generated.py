"""Speed and samples of generation, by an injected clock and the stock `generate()`."""

import itertools

import pytest
import tiny_judged
import torch
from transformers import GenerationConfig

from lingraft.errors import DataError
from lingraft.evaluation import generated
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


def ticking(seconds):
    """A clock that has moved by so much whenever it is asked."""
    times = itertools.count(0.0, seconds)
    return lambda: next(times)


def test_speed_is_tokens_of_all_sequences_over_the_clock(scorer, tokenizer):
    one, eight = generated.speeds(scorer.model, tokenizer, TEXTS, 5, 96, ticking(0.5))
    assert (one.batch, one.tokens, one.measured) == (1, 5, generated.REPEATS)
    assert one.tokens_per_second == pytest.approx(5 / 0.5)
    assert eight.tokens_per_second == pytest.approx(8 * 5 / 0.5)


def test_a_slow_model_is_timed_once(scorer, tokenizer):
    one, _ = generated.speeds(scorer.model, tokenizer, TEXTS, 5, 96, ticking(30.0))
    assert one.measured == 1
    assert one.tokens_per_second == pytest.approx(5 / 30)


def test_no_more_is_generated_than_the_model_reads(scorer, tokenizer):
    one, _ = generated.speeds(scorer.model, tokenizer, TEXTS, 500, 24, ticking(0.5))
    assert one.tokens == 24 - 12


def test_the_model_attends_as_before_afterwards(scorer, tokenizer):
    before = scorer.model.config._attn_implementation
    generated.samples(scorer.model, tokenizer, [("He was", "")], 2, 96, seed=0)
    assert scorer.model.config._attn_implementation == before == "lingraft_packed"


def test_the_checkpoints_own_settings_of_generation_change_nothing(scorer, tokenizer):
    def written():
        beginnings = [("비가 와서 우산을", ""), ("The dog ran to", "")]
        return generated.samples(scorer.model, tokenizer, beginnings, 12, 96, seed=0)

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
    begun = generated.beginnings(TEXTS, 1)
    (row,) = generated.samples(scorer.model, tokenizer, begun, 8, 400, seed=3)
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
    monkeypatch.setattr(generated, "SAMPLES_AT_ONCE", 2)
    texts = ["나는 학교에 가서", "바다", "The cat sat on the mat. It slept."]
    begun = [(text, "and more") for text in texts]
    model, tokenizer = tiny_model(family), tiny_tokenizer(family)

    def greedy(pairs):
        rows = generated.samples(model, tokenizer, pairs, 6, 40, seed=0)
        return [(row["beginning"], row["greedy"]) for row in rows]

    assert greedy(begun) == [row for pair in begun for row in greedy([pair])]


def test_the_cache_changes_nothing_of_what_is_written(scorer, tokenizer):
    stock = tiny_judged.model()
    (row,) = generated.samples(scorer.model, tokenizer, [("The dog", "")], 12, 96, seed=0)
    ids = tokenizer("The dog")["input_ids"]
    for _ in range(12):
        with torch.no_grad():
            ids.append(int(stock(torch.tensor([ids])).logits[0, -1].argmax()))
    start = len(tokenizer("The dog")["input_ids"])
    assert row["greedy"] == tokenizer.decode(ids[start:], skip_special_tokens=True)


def test_drawn_samples_change_with_the_seed_and_greedy_ones_do_not(scorer, tokenizer):
    begun = generated.beginnings(TEXTS, 1)
    first, again, other = (
        generated.samples(scorer.model, tokenizer, begun, 12, 96, seed=seed)[0]
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first["greedy"] == other["greedy"]
    assert first["drawn"] != other["drawn"]


def test_beginnings_end_between_words_and_what_follows_is_kept():
    for beginning, behind in generated.beginnings(TEXTS, 8):
        assert any(beginning + behind == text for text in TEXTS)
        assert behind.startswith(" ")
        assert 0 < len(beginning) <= generated.CHARACTERS
    assert len(generated.beginnings(TEXTS, 1)) == 1
    assert generated.beginnings(["He was here"], 3) == [("He", " was here")]


def test_text_without_tokens_is_refused(scorer, tokenizer):
    with pytest.raises(DataError, match="holds no document with a token"):
        generated.speeds(scorer.model, tokenizer, [""], 5, 96)
