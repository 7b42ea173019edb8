"""A vocabulary without the pieces that a text never has: what stays beside them."""

from lingraft.tokenizer.files import state_of
from lingraft.tokenizer.trimming import without_unused


def test_an_unknown_character_costs_what_it_did(tiny_tokenizer):
    before = state_of(tiny_tokenizer("xlm-roberta"))
    scores = dict(before["model"]["vocab"])
    made = without_unused(before, ["fox"])["model"]["vocab"]
    assert len(made) < len(scores)
    assert min(score for _, score in made) == min(scores.values())
    assert all(scores[piece] == score for piece, score in made)


def test_a_literal_special_token_is_text_and_ids_that_positions_need_stay(tiny_tokenizer):
    before = state_of(tiny_tokenizer("modernbert"))
    pieces, kept = (
        one["model"]["vocab"] for one in (before, without_unused(before, ["a [MASK] b"], up_to=5))
    )
    assert {piece: index for piece, index in kept.items() if index <= 5} == {
        piece: index for piece, index in pieces.items() if index <= 5
    }
    assert {"[", "M", "[MASK]", "[PAD]"} <= set(kept)
