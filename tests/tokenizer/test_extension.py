from __future__ import annotations

import copy
import functools

import pytest
from transformers import AutoTokenizer

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension
from lingraft.tokenizer import files as tokenizer_files
from tests.support.vocabulary_kinds import keys_of

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
# Words that the tiny sources have not seen, in letters that they have and in others.
NEW = ["хлеб и соль на столе, хлеб и вода", "Hovercraft overflowing hovercraft", "바다와 바람"] * 9
EVERYTHING = [
    *("The quick brown fox", "A café, nine; Coffee", "문서를 열고 형식을", "<mask> [SEP] </s>"),
    *("", " two  spaces", "\u1112\u1161\u11a8", "漢字 🙂 ñ"),
]
every_family = pytest.mark.parametrize("family", FAMILIES)


def make(kind, source, text=NEW, pad_id=None, **settings):
    section = Section(
        **keys_of(kind), **({"vocab_size": 420, "character_coverage": 1.0} | settings)
    )
    return extension.make(section, source, lambda: text, pad_id=pad_id, seed=0)


@pytest.fixture(scope="module")
def extended(tiny_tokenizer):
    """The tokenizer of a family with the pieces of `NEW` added, and its counts."""
    return functools.cache(lambda family: make("append", tiny_tokenizer(family)))


@every_family
def test_a_kept_tokenizer_reads_and_writes_as_the_source_s(family, tiny_tokenizer, tmp_path):
    source = tiny_tokenizer(family)
    ours, counts = make("keep", source)
    tokenizer_files.save(ours, tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == source.get_vocab()
    assert again.special_tokens_map == source.special_tokens_map
    assert again.model_input_names == source.model_input_names
    for text in EVERYTHING:
        rows = [t(text, text).input_ids for t in (source, ours, again)]
        assert rows[0] == rows[1] == rows[2]
        assert again.decode(rows[0]) == source.decode(rows[0])
    assert counts == {"source": len(source), "added": 0}


@every_family
def test_the_ids_of_the_source_stay_and_new_ones_stand_behind_them(
    family, extended, tiny_tokenizer
):
    source, (ours, counts) = tiny_tokenizer(family), extended(family)
    theirs, mine = source.get_vocab(), ours.get_vocab()
    assert {piece: mine[piece] for piece in theirs} == theirs
    added = sorted(mine[piece] for piece in mine if piece not in theirs)
    assert added == list(range(len(source), len(source) + counts["added"]))
    assert counts["source"] == len(source)
    assert counts["added"] > 10


@every_family
def test_the_source_s_tokenizer_is_left_as_it_was(family, tiny_tokenizer):
    source = tiny_tokenizer(family)
    before = source.backend_tokenizer.to_str()
    make("append", source)
    make("keep", source)
    assert source.backend_tokenizer.to_str() == before


@pytest.mark.parametrize("kind", ["keep", "extend"])
def test_a_padding_id_that_the_source_s_tokenizer_does_not_have_is_refused(kind, tiny_tokenizer):
    with pytest.raises(UnsupportedModelError, match="counts positions from 7"):
        make(kind, tiny_tokenizer("roberta"), pad_id=7)


@pytest.mark.parametrize("kind", ["keep", "source"])
def test_a_model_from_nothing_has_no_vocabulary_to_follow_or_keep(kind):
    with pytest.raises(RecipeError, match=r"needs a source model.* byte-bpe, wordpiece"):
        make(kind, None)


@pytest.mark.parametrize("kind", ["keep", "replace", "unigram"])
def test_the_sides_on_which_the_source_pads_and_cuts_stay(kind, tiny_tokenizer, tmp_path):
    """Texts in a batch that are to go on are padded before them."""
    source = copy.deepcopy(tiny_tokenizer("mistral"))
    source.padding_side = source.truncation_side = "left"
    section = Section(**keys_of(kind), vocab_size=420)
    made, _ = extension.make(section, source, lambda: NEW, pad_id=None, seed=0, causal=True)
    tokenizer_files.save(made, tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert [again.padding_side, again.truncation_side] == ["left", "left"]


def test_a_vocabulary_is_trimmed_by_all_of_a_text_however_few_sentences_others_learn_from(
    tiny_tokenizer,
):
    source = tiny_tokenizer("xlm-roberta")
    text = ["the dog sleeps in the sun", "문서를 열고 형식을 선택한 다음", "a café in the city"] * 3
    trimmed, counts = make("trim", source, text, max_train_sentences=2)
    assert counts["removed"] > 0
    assert [trimmed.tokenize(line) for line in text] == [source.tokenize(line) for line in text]
