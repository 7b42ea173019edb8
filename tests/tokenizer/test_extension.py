from __future__ import annotations

import copy
import functools

import pytest
from transformers import AutoTokenizer

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.files import plain_backend
from tests.support.vocabulary_kinds import keys_of

FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
BYTE_LEVEL = ("roberta", "modernbert")
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


def ids(tokenizer, text):
    return plain_backend(tokenizer).encode(text, add_special_tokens=False).ids


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
    assert counts == {"source": len(source), "added": 0, "unreachable": 0}


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
def test_special_tokens_and_frames_are_the_source_s(family, extended, tiny_tokenizer):
    source, (ours, _) = tiny_tokenizer(family), extended(family)
    assert ours.special_tokens_map == source.special_tokens_map
    assert sorted(ours.all_special_ids) == sorted(source.all_special_ids)
    assert tokenizer_files.kind_of(ours) == tokenizer_files.kind_of(source)
    assert ours("", "").input_ids == source("", "").input_ids
    mask = f"The {ours.mask_token}"
    assert ours(mask).input_ids.count(ours.mask_token_id) == 1


@every_family
def test_new_text_takes_fewer_tokens_and_uses_added_pieces(family, extended, tiny_tokenizer):
    source, (ours, counts) = tiny_tokenizer(family), extended(family)
    old, new = ([index for text in NEW[:3] for index in ids(t, text)] for t in (source, ours))
    used = {index for index in new if index >= len(source)}
    assert len(used) > 5
    assert max(new) < len(source) + counts["added"]
    unknown = source.unk_token_id
    assert len(new) < len(old) or old.count(unknown) > new.count(unknown) == 0


@pytest.mark.parametrize("family", [*BYTE_LEVEL, "xlm-roberta"])
def test_an_extended_tokenizer_gives_new_and_old_text_back(family, extended):
    ours, _ = extended(family)
    for text in (NEW[0], NEW[1], "The quick brown fox jumps"):
        assert ours.decode(ids(ours, text)) == text


@pytest.mark.parametrize("family", BYTE_LEVEL)
def test_byte_level_tokens_are_whole_runs_of_the_source_s(family, extended, tiny_tokenizer):
    source, (ours, _) = tiny_tokenizer(family), extended(family)
    for text in (*EVERYTHING, *NEW[:3], "overflow hover over the fox"):
        runs, pieces = iter(ids(source, text)), source.convert_ids_to_tokens
        for token in ours.convert_ids_to_tokens(ids(ours, text)):
            run = ""
            while len(run) < len(token):
                run += pieces([next(runs)])[0]
            assert run == token
        assert next(runs, None) is None


@every_family
def test_text_of_which_the_new_vocabulary_has_nothing_falls_as_before(
    family, extended, tiny_tokenizer
):
    source, (ours, _) = tiny_tokenizer(family), extended(family)
    for text in ("문서를 열고 형식을 선택한 다음 폴더에 저장합니다.", "zq xj 77"):
        assert ids(ours, text) == ids(source, text)


@every_family
def test_an_extended_tokenizer_survives_its_files(family, extended, tmp_path):
    ours, _ = extended(family)
    tokenizer_files.save(ours, tmp_path)
    again = tokenizer_files.load(tmp_path)
    assert again.get_vocab() == ours.get_vocab()
    for text in (*EVERYTHING, *NEW[:3]):
        assert again(text).input_ids == ours(text).input_ids


@every_family
def test_extending_twice_gives_the_same_tokenizer(family, extended, tiny_tokenizer):
    again, counts = make("append", tiny_tokenizer(family))
    assert again.backend_tokenizer.to_str() == extended(family)[0].backend_tokenizer.to_str()
    assert counts == extended(family)[1]


@every_family
def test_the_source_s_tokenizer_is_left_as_it_was(family, tiny_tokenizer):
    source = tiny_tokenizer(family)
    before = source.backend_tokenizer.to_str()
    make("append", source)
    make("keep", source)
    assert source.backend_tokenizer.to_str() == before


def test_a_piece_that_the_source_s_merges_forestall_is_counted_as_unreachable():
    model = {
        "type": "BPE",
        "vocab": {"a": 0, "b": 1, "c": 2, "bc": 3, "ab": 4, "abc": 5},
        "merges": [("b", "c"), ("a", "b"), ("ab", "c")],
    }
    assert extension._reached({"model": model}, ["ab", "abc"]) == [True, False]


def test_pieces_inside_words_are_tried_inside_words():
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "a": 1, "##bc": 2, "##d": 3, "ad": 4},
    }
    assert extension._reached({"model": model}, ["##bc", "##d"]) == [True, False]


def test_text_that_brings_nothing_new_adds_nothing(tiny_tokenizer):
    _, counts = make("append", tiny_tokenizer("bert"), ["the the"], vocab_size=40)
    assert counts["added"] == 0


@pytest.mark.parametrize("kind", ["keep", "extend"])
def test_a_padding_id_that_the_source_s_tokenizer_does_not_have_is_refused(kind, tiny_tokenizer):
    with pytest.raises(UnsupportedModelError, match="padding token at id 7, but its tokenizer"):
        make(kind, tiny_tokenizer("roberta"), pad_id=7)


@pytest.mark.parametrize("kind", ["keep", "extend", "source"])
def test_a_model_from_nothing_has_no_vocabulary_to_follow_or_keep(kind):
    with pytest.raises(RecipeError, match=f"'{kind}' needs a source model.* byte-bpe, wordpiece"):
        make(kind, None)


def test_any_other_kind_trains_a_vocabulary_of_its_own(tiny_tokenizer):
    ours, counts = make("source", tiny_tokenizer("roberta"), vocab_size=300)
    assert counts is None
    assert len(ours) == 300


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
