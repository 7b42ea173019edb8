from __future__ import annotations

import pytest
from transformers import BertTokenizer

from lingraft.models.embeddings.segmentation import Segmenter
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary


@pytest.mark.parametrize("family", ["roberta", "modernbert", "xlm-roberta", "bert"])
def test_words_are_cut_as_the_tokenizer_cuts_them(tiny_tokenizer, tiny_text, family):
    tokenizer = tiny_tokenizer(family)
    segment = Segmenter(tokenizer)
    for word in {word for line in tiny_text for word in line.split()}:
        text = word if family in ("xlm-roberta", "bert") else f" {word}"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        known = [index for index in ids if index != tokenizer.unk_token_id]
        assert segment(Canonical(True, word.encode())) == known


@pytest.mark.parametrize("family", ["roberta", "modernbert", "xlm-roberta", "bert", "electra"])
def test_every_piece_is_cut_into_itself_where_the_tokenizer_can_reach_it(tiny_tokenizer, family):
    vocabulary = Vocabulary.of(tiny_tokenizer(family))
    segment = Segmenter(tiny_tokenizer(family))
    known = {i: form for i, form in enumerate(vocabulary.canonical) if form is not None}
    if family in ("bert", "electra"):  # they drop case and accents, so that some cannot come out
        known = {i: f for i, f in known.items() if f.text.isascii() and f.text == f.text.lower()}
    assert {i: segment(form) for i, form in known.items()} == {i: [i] for i in known}


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "bert"])
def test_a_piece_inside_a_word_does_not_begin_one(tiny_tokenizer, family):
    vocabulary = Vocabulary.of(tiny_tokenizer(family))
    ids = Segmenter(tiny_tokenizer(family))(Canonical(False, b"og"))
    assert b"".join(vocabulary.canonical[index].text for index in ids) == b"og"
    assert not any(vocabulary.canonical[index].word_start for index in ids)


def test_half_a_character_is_cut_into_bytes_where_there_are_bytes(tiny_tokenizer):
    half = "뷁".encode()[:2]
    vocabulary = Vocabulary.of(tiny_tokenizer("roberta"))
    ids = Segmenter(tiny_tokenizer("roberta"))(Canonical(False, half))
    assert b"".join(vocabulary.canonical[i].text for i in ids) == half
    assert Segmenter(tiny_tokenizer("xlm-roberta"))(Canonical(False, half)) == []
    assert Segmenter(tiny_tokenizer("bert"))(Canonical(False, half)) == []


def test_signs_and_chinese_characters_begin_a_word_of_a_wordpiece_tokenizer_behind_a_letter_too():
    """BERT has "." and "漢" and no "##.": a piece of another kind is as often inside a word."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", ".", "?", "漢", "字"]
    tokenizer = BertTokenizer(vocab={piece: index for index, piece in enumerate(pieces)})
    segment = Segmenter(tokenizer)
    for text in (".", "?.", "漢", "漢字", ".a"):
        _, *expected = tokenizer(f"a{text}", add_special_tokens=False)["input_ids"]
        assert segment(Canonical(False, text.encode())) == expected
    assert [pieces[i] for i in segment(Canonical(False, b"a."))] == ["##a", "."]
