"""A tokenizer that exists already takes the place of a trained one."""

from __future__ import annotations

import pytest
from transformers import AutoTokenizer

from lingraft.errors import UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension
from lingraft.tokenizer import files as tokenizer_files

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
TEXTS = [
    "The quick brown fox",
    "A café, nine",
    "문서를 열고 형식을",
    " two  spaces",
    "漢字 🙂 ñ",
    "",
]


@pytest.fixture
def saved(tiny_tokenizer, tmp_path):
    """The folder of a family's tokenizer."""

    def of(family):
        tiny_tokenizer(family).save_pretrained(tmp_path / family)
        return tmp_path / family

    return of


def take(folder, source=None, pad_id=None, *, causal=False):
    section = Section(action="use", model=str(folder))
    tokenizer, counts = extension.make(
        section, source, lambda: pytest.fail("reads text"), pad_id=pad_id, seed=0, causal=causal
    )
    assert counts is None
    return tokenizer


@pytest.mark.parametrize("source", ["bert", "roberta"])
@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_ids_and_cuts_are_those_of_the_file(family, source, saved, tiny_tokenizer, tmp_path):
    theirs = tiny_tokenizer(family)
    ours = take(saved(family), tiny_tokenizer(source))
    tokenizer_files.save(ours, tmp_path / "out")
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    for tokenizer in (ours, again):
        assert tokenizer.get_vocab() == theirs.get_vocab()
        assert tokenizer.special_tokens_map == theirs.special_tokens_map
        for text in TEXTS:
            assert tokenizer(text).input_ids == theirs(text).input_ids
            assert tokenizer(text, text).input_ids == theirs(text, text).input_ids


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_source_without_types_of_tokens_gets_none(family, saved, tiny_tokenizer):
    """A RoBERTa has one row of types: a second sentence of type 1 would stop fine-tuning."""
    source = tiny_tokenizer("roberta")
    ours = take(saved(family), source)
    assert "token_type_ids" not in ours("a", "b")
    assert set(ours("a", "b", return_token_type_ids=True).token_type_ids) == {0}
    assert ours.model_input_names == source.model_input_names


def test_a_padding_token_where_the_source_s_positions_cannot_have_it(saved, tiny_tokenizer):
    folder = saved("bert")
    with pytest.raises(UnsupportedModelError, match=r"padding token at id 0, .* positions from 1"):
        take(folder, tiny_tokenizer("roberta"), pad_id=1)


def test_a_source_that_needs_sentinels(saved, tiny_tokenizer):
    with pytest.raises(UnsupportedModelError, match=r"lacks <extra_id_0>, .*the source needs"):
        take(saved("xlm-roberta"), tiny_tokenizer("t5"))
