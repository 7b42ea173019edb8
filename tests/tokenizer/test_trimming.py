"""A vocabulary without the pieces that a text never has."""

import json

import pytest

from lingraft.tokenizer import trimming
from lingraft.tokenizer.files import plain_backend


def trimmed(tokenizer, text, up_to=-1):
    return trimming.trim(tokenizer, trimming.pieces_in(tokenizer, text), up_to)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "modernbert"])
def test_the_text_falls_into_the_pieces_that_it_had(family, tiny_tokenizer, tiny_text):
    tokenizer = tiny_tokenizer(family)
    for text in (tiny_text[:1], tiny_text[2:5], ["fox sun 책", "menu"]):
        small, kept = trimmed(tokenizer, text)
        assert len(small) < len(tokenizer)
        for sentence in text:
            assert [kept[i] for i in small(sentence)["input_ids"]] == tokenizer(sentence).input_ids
            pair = small(sentence, "the")["input_ids"]
            if "the" in " ".join(text):
                assert [kept[i] for i in pair] == tokenizer(sentence, "the")["input_ids"]


def test_bytes_stay_so_that_any_text_can_be_spelt(tiny_tokenizer, tiny_text):
    small, _ = trimmed(tiny_tokenizer("roberta"), tiny_text[:1])
    text = "ไทย und 저장합니다"
    assert small.decode(small(text)["input_ids"], skip_special_tokens=True) == text


def test_an_unknown_character_costs_what_it_did(tiny_tokenizer):
    small, kept = trimmed(tiny_tokenizer("xlm-roberta"), ["fox"])
    scores, before = (
        json.loads(plain_backend(one).to_str())["model"]["vocab"]
        for one in (small, tiny_tokenizer("xlm-roberta"))
    )
    assert min(score for _, score in scores) == min(score for _, score in before)
    assert [tuple(row) for row in scores] == [tuple(before[old]) for old in kept]


def test_a_literal_special_token_is_text_and_ids_that_positions_need_stay(tiny_tokenizer):
    small, kept = trimmed(tiny_tokenizer("modernbert"), ["a [MASK] b"], up_to=5)
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert small.mask_token_id == len(small) - 1
    pieces = small.get_vocab()
    assert {"[", "M"} <= set(pieces)
