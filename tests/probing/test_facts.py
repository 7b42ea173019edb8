"""The free facts, against values that were worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lingraft.probing import facts
from lingraft.probing.facts import Profile, grams, of_texts, of_tokenizer, overlap


@pytest.fixture
def english():
    """A Unigram tokenizer of six pieces that knows no Hangul."""
    pieces = [("<unk>", 0.0), ("▁", -3.0), ("▁a", -1.0), ("b", -2.0), ("c", -2.0), ("▁bc", -2.5)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def test_an_overlap_is_the_sum_of_the_smaller_shares():
    one, other = Counter(a=3, b=1), Counter(a=1, c=1)
    assert overlap(one, other) == pytest.approx(0.5)  # min(3/4, 1/2)
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, Counter(a=300, b=100)) == pytest.approx(1.0)
    assert overlap(one, Counter(c=1)) == 0.0
    assert overlap(one, Counter()) is None


def test_trigrams_know_where_a_word_begins_and_ends():
    assert grams("abc") == ["_ab", "abc", "bc_"]
    assert grams("a") == ["_a_"]


def test_a_profile_counts_scripts_characters_words_and_types():
    found = Profile.of(["Ab 나 Ab,", "日本"])
    assert found.scripts == {"Latn": 4, "Hang": 1, "Hani": 2}
    assert found.characters == {"a": 2, "b": 2, "나": 1, ",": 1, "日": 1, "本": 1}
    assert found.words == {"ab": 2, "나": 1, "日": 1, "本": 1}
    assert found.trigrams["_ab"] == 2
    assert found.ratio() == pytest.approx(4 / 5)
    assert len(found.first) == 5


def test_full_width_letters_are_the_letters_that_they_are_a_form_of():
    assert Profile.of(["ＡＢ"]).words == Profile.of(["ab"]).words


def test_facts_of_two_texts():
    target, source = Profile.of(["나 너 a"]), Profile.of(["a a b"])
    found = of_texts(target, source)
    assert found["scripts"] == pytest.approx(1 / 3)
    assert found["characters"] == pytest.approx(1 / 3)
    assert found["words"] == pytest.approx(1 / 3)
    assert found["trigrams"] == pytest.approx(1 / 3)
    assert found["ttr_gap"] == pytest.approx(1 - 2 / 3)


def test_a_text_without_words_has_no_facts():
    found = of_texts(Profile.of(["…"]), Profile.of(["a"]))
    assert [found[name] for name in ("scripts", "words", "trigrams", "ttr_gap")] == [None] * 4


def test_the_ratio_of_types_is_over_the_same_number_of_words(monkeypatch):
    monkeypatch.setattr(facts, "RATIO_WORDS", 3)
    found = Profile.of(["a b", "c a a a"])
    assert (found.ratio(), len(found.first)) == (1.0, 3)


def test_the_ratios_of_two_texts_are_over_equally_many_words():
    long, short = Profile.of(["a b a a a a"]), Profile.of(["c d"])
    assert of_texts(long, short)["ttr_gap"] == of_texts(short, long)["ttr_gap"] == 0


def test_a_long_text_is_read_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(facts, "MOST_CHARACTERS", 5)
    assert list(facts.limited(iter(["abc", "def", "ghi"]))) == ["abc", "def"]


def test_facts_of_a_tokenizer_by_hand(english):
    sentences = ["a bc 나너", "ab bc"]
    found = of_tokenizer(english, sentences, Profile.of(sentences))
    # ▁a | ▁bc | ▁ 나너 (one unknown token, two characters) || ▁a b | ▁bc: 7 tokens, 8 as counted
    assert found["tokens_per_word"] == pytest.approx(8 / 5)
    assert found["unknown_rate"] == pytest.approx(1 / 7)
    assert found["whole_words"] == pytest.approx(3 / 5)
    # letters of the text: a bc ab bc (7 Latin), 나너 (2 Hangul); of the pieces: Latin alone
    assert found["vocabulary_scripts"] == pytest.approx(7 / 9)


def test_words_that_are_unknown_are_not_whole_though_they_are_one_token(english):
    assert facts.whole_words(english, ["나"]) == 0.0
    assert facts.whole_words(english, []) is None


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "modernbert"])
def test_every_kind_of_tokenizer_has_facts(family, tiny_tokenizer, tiny_text):
    sentences = list(tiny_text)
    found = of_tokenizer(tiny_tokenizer(family), sentences, Profile.of(sentences))
    assert found["tokens_per_word"] >= 1
    assert 0 < found["whole_words"] <= 1
    assert 0.5 < found["vocabulary_scripts"] <= 1
