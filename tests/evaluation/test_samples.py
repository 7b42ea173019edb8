import numpy as np
import pytest

from lingraft.evaluation.intrinsic import MaskedText, mask_text
from lingraft.evaluation.samples import choose, predictions, readable
from lingraft.evaluation.scorer import Item, Scorer
from lingraft.objectives.common import TokenIds
from lingraft.recipe import Masking
from lingraft.tokenizer.vocabulary import Vocabulary


def text_of_lengths(*lengths):
    return MaskedText(
        [Item(np.zeros(n, int), np.array([1]), np.array([5])) for n in lengths], "f", "mask-only"
    )


def test_sentences_of_a_readable_length_are_chosen_from_all_over_the_text():
    text = text_of_lengths(*([3, 20, 60] * 10))
    assert choose(text, 5) == [1, 7, 13, 19, 25]


def test_where_no_sentence_is_of_a_readable_length_any_will_do():
    assert choose(text_of_lengths(3, 3, 99), 2) == [0, 1]


@pytest.mark.parametrize("number", [0, 1, 3, 100])
def test_no_more_sentences_are_chosen_than_asked_for_or_there_are(number):
    assert len(choose(text_of_lengths(*[10] * 7), number)) == min(number, 7)


def test_pieces_of_bytes_are_shown_as_the_korean_they_stand_for(tiny_tokenizer):
    tokenizer = tiny_tokenizer("roberta")
    vocabulary, korean = Vocabulary.of(tokenizer), 0
    for index, form in enumerate(vocabulary.canonical):
        if form is None or not form.text:
            continue
        try:
            text = form.text.decode()
        except UnicodeDecodeError:
            continue
        if any("가" <= character <= "힣" for character in text):
            korean += 1
            assert readable(index, tokenizer) == ("▁" if form.word_start else "") + text
    assert korean > 5


@pytest.mark.parametrize("family", ["roberta", "llama"])
def test_pieces_of_bytes_that_are_no_character_are_told_apart(family, tiny_tokenizer):
    tokenizer = tiny_tokenizer(family)
    shown = [readable(index, tokenizer) for index in range(len(tokenizer))]
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in shown)
    broken = [piece for piece in shown if piece.startswith(("‹", "<0x"))]
    assert len(broken) > 100
    assert len(set(broken)) == len(broken)


@pytest.mark.parametrize(("family", "piece"), [("bert", "##e"), ("xlm-roberta", "▁the")])
def test_pieces_of_characters_keep_their_spelling(family, piece, tiny_tokenizer):
    tokenizer = tiny_tokenizer(family)
    assert readable(tokenizer.convert_tokens_to_ids(piece), tokenizer) == piece


def test_special_tokens_are_shown_by_name(tiny_tokenizer):
    for family, mask in (("roberta", "<mask>"), ("modernbert", "[MASK]")):
        tokenizer = tiny_tokenizer(family)
        assert readable(tokenizer.mask_token_id, tokenizer) == mask


def test_each_hidden_token_comes_with_the_five_likeliest(tiny_tokenizer, tiny_model):
    tokenizer, model = tiny_tokenizer("roberta"), tiny_model("roberta")
    special = tuple(sorted(set(tokenizer.all_special_ids)))
    ids = TokenIds(len(tokenizer), tokenizer.mask_token_id, tokenizer.pad_token_id, special)
    sentences = ["문서를 열고 형식을 선택한 다음", "나는 학교에 가서 책을 읽었다."]
    encoded = [np.array(row) for row in tokenizer(sentences)["input_ids"]]
    masking = Masking(rate=0.2, scheme="mask-only")
    text = mask_text(encoded, ids, "tokenizer", masking, 0)
    rows = predictions(Scorer(model, ids.pad, "fp32"), tokenizer, text, [1, 0])
    assert [row["text"] for row in rows] == sentences[::-1]
    for row, item, whole in zip(rows, text.items[::-1], encoded[::-1], strict=True):
        assert [index for index, (_, hidden) in enumerate(row["tokens"]) if hidden] == list(
            item.masked
        )
        assert [piece for piece, _ in row["tokens"]] == [
            readable(t, tokenizer) for t in whole.tolist()
        ]
        assert [p["index"] for p in row["predictions"]] == list(item.masked)
        for guess in row["predictions"]:
            assert guess["gold"] == row["tokens"][guess["index"]][0]
            shares = [share for _, share in guess["top"]]
            assert len(shares) == 5
            assert shares == sorted(shares, reverse=True)
            assert 0 < sum(shares) <= 1 + 1e-6


def test_the_first_guess_is_the_token_with_the_largest_logit(tiny_tokenizer, known_scorer):
    tokenizer = tiny_tokenizer("bert")
    wanted = tokenizer.convert_tokens_to_ids("the")
    item = Item(np.array([2, 4, 3]), np.array([1]), np.array([wanted]))
    known = known_scorer(lambda *_: [float(i == wanted) for i in range(len(tokenizer))])
    (row,) = predictions(known, tokenizer, MaskedText([item], "f", "mask-only"), [0])
    ((piece, share), *_) = row["predictions"][0]["top"]
    assert (piece, row["predictions"][0]["gold"]) == ("the", "the")
    assert share == pytest.approx(np.e / (np.e + len(tokenizer) - 1))
