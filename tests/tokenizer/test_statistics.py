"""What is measured of a tokenizer on a text, and said where it loses some of it."""

import pytest
from tokenizers import normalizers
from transformers import PreTrainedTokenizerFast

from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.statistics import statistics, warn
from tests.support.vocabulary_kinds import keys_of


def new(kind: str, text, **settings) -> PreTrainedTokenizerFast:
    section = Section(**(keys_of(kind) | {"vocab_size": 400} | settings))
    return tokenizer_files.train(section, None, lambda: text, pad_id=None, seed=0)


def test_statistics_count_words_characters_tokens_and_unknowns(tiny_text):
    ours = new("unigram", ["가 나 가나 다"] * 5, vocab_size=32, character_coverage=1.0)
    found = statistics(ours, ["가 나", "다 힣힣 나"])
    assert found["sentences"] == 2
    assert found["words"] == 5
    assert found["characters"] == 9
    assert found["tokens"] == len(ours.tokenize("가 나")) + len(ours.tokenize("다 힣힣 나"))
    assert found["tokens_per_word"] == found["tokens"] / 5
    assert found["characters_per_token"] == 9 / found["tokens"]
    assert found["unknown_rate"] == 1 / found["tokens"]
    assert found["character_coverage"] == pytest.approx(4 / 6)
    assert found["round_trip"] == 0.5


def test_statistics_take_special_tokens_spelt_out_as_text(tiny_text):
    ours = new("byte-bpe", tiny_text)
    found = statistics(ours, ["a <mask> b </s>"])
    assert found["tokens"] > 4 + 4
    assert found["round_trip"] == 1.0


@pytest.mark.parametrize(
    "text", ["Tiếng Việt có dấu", "हिन्दी में लिखा", "ภาษาที่เขียน", "من می\u200cخواهم بروم"]
)
def test_a_text_that_loses_its_marks_is_told(text, caplog):
    tokenizer = new("byte-bpe", [text] * 5)
    assert statistics(tokenizer, [text])["marks_kept"] == 1
    caplog.clear()
    warn("xx", statistics(tokenizer, [text]))
    assert not caplog.records
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    found = statistics(tokenizer, [text])
    assert found["marks_kept"] < 0.7
    warn("xx", found)
    (record,) = caplog.records
    assert "marks kept of the xx text" in record.getMessage()
