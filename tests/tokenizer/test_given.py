"""A tokenizer that exists already takes the place of a trained one."""

from __future__ import annotations

import json

import pytest
from transformers import AutoTokenizer

from lingraft.errors import DataError, UnsupportedModelError
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


@pytest.mark.parametrize("source", ["bert", "roberta", "modernbert"])
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


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_source_with_types_of_tokens_gets_those_of_the_tokenizer(family, saved, tiny_tokenizer):
    ours = take(saved(family), tiny_tokenizer("bert"))
    assert ours("a", "b").token_type_ids == tiny_tokenizer(family)("a", "b").token_type_ids
    assert 1 in ours("a", "b").token_type_ids


def test_without_a_source_everything_is_the_tokenizer_s(saved, tiny_tokenizer):
    ours = take(saved("bert"))
    assert ours.model_input_names == tiny_tokenizer("bert").model_input_names
    assert ours("a", "b").token_type_ids == tiny_tokenizer("bert")("a", "b").token_type_ids


def test_a_padding_token_where_the_source_s_positions_cannot_have_it(saved, tiny_tokenizer):
    folder = saved("bert")
    with pytest.raises(UnsupportedModelError, match=r"padding token at id 0, .* positions from 1"):
        take(folder, tiny_tokenizer("roberta"), pad_id=1)


def test_a_tokenizer_without_a_role_is_named(saved, tiny_tokenizer):
    folder = saved("bert")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (path := folder / name).is_file():
            settings = json.loads(path.read_text("utf-8"))
            settings.pop("mask_token", None)
            settings["tokenizer_class"] = "PreTrainedTokenizerFast"
            path.write_text(json.dumps(settings), "utf-8")
    with pytest.raises(UnsupportedModelError, match=rf"tokenizer '{folder}' has no mask_token"):
        take(folder, tiny_tokenizer("bert"))


def test_a_source_that_needs_sentinels(saved, tiny_tokenizer):
    with pytest.raises(UnsupportedModelError, match=r"lacks <extra_id_0>, .*the source needs"):
        take(saved("xlm-roberta"), tiny_tokenizer("t5"))


def test_sentinels_may_be_spelt_with_a_word_start(saved, tiny_tokenizer):
    assert take(saved("mt5"), tiny_tokenizer("t5")).get_vocab() == tiny_tokenizer("mt5").get_vocab()


def test_no_tokenizer_there(tmp_path):
    with pytest.raises(DataError, match="has no tokenizer"):
        take(tmp_path)
