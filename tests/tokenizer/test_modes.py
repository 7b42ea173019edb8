"""Vocabularies made of a source's, by all modes, and tokenizers that are taken."""

import copy
import functools
import json
import re
from collections import Counter

import causal_tokenizers
import pytest
import tiny_tokenizers
from tiny_tokenizers import TEXT
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lingraft.errors import RecipeError, UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension, files as tokenizer_files
from lingraft.tokenizer.files import plain_backend
from lingraft.tokenizer.merges import Sample, continue_merges, cut
from lingraft.tokenizer.statistics import statistics
from tests.support.vocabulary_kinds import keys_of

KOREAN = [*TEXT[3:6], "2024년에 365일, 학교에서 문서를 저장한다.", "문서의 형식과 도구 모음"] * 9
CAUSAL = tuple(causal_tokenizers.BUILDERS)
ENCODERS = ("roberta", "modernbert")
MERGING = (*CAUSAL, *ENCODERS)
SENTENCEPIECE = ("llama-2", "gemma")
ALL = (*MERGING, "xlm-roberta", "bert")
ENGLISH = causal_tokenizers.ENGLISH[:4]
OTHERS = ["二つの文 🙂 ñ", " two  spaces", "aaaaaaa", "", "x=1234567"]


def source_of(family):
    return (causal_tokenizers if family in CAUSAL else tiny_tokenizers).build(family)


@functools.cache
def made(kind, family, **settings):
    section = Section(**(keys_of(kind) | {"vocab_size": 500, "new_pieces": 60} | settings))
    options = {"pad_id": None, "seed": 0, "causal": family in CAUSAL}
    return extension.make(section, source_of(family), lambda: KOREAN, **options)


def ids(tokenizer, text):
    return plain_backend(tokenizer).encode(text, add_special_tokens=False).ids


def tokens(tokenizer, text):
    return plain_backend(tokenizer).encode(text, add_special_tokens=False).tokens


def new_pieces(family, ours):
    return set(ours.get_vocab()) - set(source_of(family).get_vocab())


# -- extend: merges that go on -------------------------------------------------------------------


@pytest.mark.parametrize("family", MERGING)
def test_continued_merges_keep_all_ids_and_leave_no_new_piece_out_of_reach(family):
    ours, counts = made("extend", family)
    theirs, mine = source_of(family).get_vocab(), ours.get_vocab()
    assert {piece: mine[piece] for piece in theirs} == theirs
    added = sorted(mine[piece] for piece in new_pieces(family, ours))
    assert added == list(range(len(theirs), len(theirs) + 60))
    assert counts == {"source": len(theirs), "added": 60}


@pytest.mark.parametrize("family", MERGING)
def test_text_falls_into_the_source_s_tokens_or_whole_runs_of_them(family):
    ours, _ = made("extend", family)
    for text in [*ENGLISH, *KOREAN[:5], *OTHERS]:
        old = plain_backend(source_of(family)).encode(text, add_special_tokens=False)
        new = plain_backend(ours).encode(text, add_special_tokens=False)
        assert len(new) <= len(old)
        assert ours.decode(new.ids) == source_of(family).decode(old.ids)
        if family not in SENTENCEPIECE:  # there a character replaces its bytes
            runs = iter(old.tokens)
            for token in new.tokens:
                run = ""
                while len(run) < len(token):
                    run += next(runs)
                assert run == token


def test_going_on_gives_the_vocabulary_that_one_long_training_gives():
    """On words whose pairs never tie, stopping half-way and going on changes nothing."""
    words = Counter({"abcde": 50, "abcd": 30, "abc": 20, "cde": 7, "xy": 5, "de": 3})
    vocabulary = {letter: i for i, letter in enumerate("abcdexy")}
    merges = []

    def state(number):
        pieces = dict(vocabulary)
        for left, right in merges[:number]:
            pieces.setdefault(left + right, len(pieces))
        backend = Tokenizer(models.BPE(pieces, merges[:number]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return json.loads(backend.to_str())

    text = [word for word, count in words.items() for _ in range(count)]
    sample = Sample(lambda: text, 10**6, 0)
    merges += continue_merges(state(0), sample, 6)[1]
    assert ["".join(merge) for merge in merges[1:]] == ["abc", "abcd", "abcde", "de", "cde"]
    for number in (1, 3, 5):
        assert continue_merges(state(number), sample, 6 - number)[1] == merges[number:]


@pytest.mark.parametrize("family", SENTENCEPIECE)
def test_characters_become_pieces_and_nothing_is_merged_across_words_digits_or_signs(family):
    ours, _ = made("extend", family, new_pieces=400)
    fresh = new_pieces(family, ours)
    assert "문" in fresh
    assert not any(re.search(r"<0x|.▁|\d\d|[가-힣][.,\d]|[.,\d][가-힣]", piece) for piece in fresh)
    assert any(re.fullmatch("▁[가-힣]{2,}", piece) for piece in fresh)
    assert ours.decode(ids(ours, KOREAN[0])) == KOREAN[0]


def test_words_are_cut_at_digits_and_signs_and_bytes():
    assert list(cut(["▁문", "서", "2", "4", ".", "<0xEA>", "x"], digits=True)) == [
        ["▁문", "서"], ["2"], ["4"], ["."], ["<0xEA>"], ["x"],
    ]  # fmt: skip
    assert list(cut(["▁", "12", "3", "년"], digits=False)) == [["▁", "12", "3"], ["년"]]


# -- all modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("kind", ["keep", "extend", "append", "replace", "trim", "source"])
def test_roles_chat_and_frame_stay_and_the_files_load_again(kind, family, tmp_path):
    source, (ours, _) = source_of(family), made(kind, family)
    assert ours.special_tokens_map == source.special_tokens_map
    specials = {str(t) for t in source.added_tokens_decoder.values()}
    assert specials <= {str(t) for t in ours.added_tokens_decoder.values()}
    assert ours.chat_template == source.chat_template
    tokenizer_files.save(ours, tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*ENGLISH, *KOREAN[:6], *OTHERS, "a  b\tc\nd", "<|eot_id|> is text"]:
        assert again(text).input_ids == ours(text).input_ids
        empty = [t.convert_ids_to_tokens(t("").input_ids) for t in (ours, source)]
        assert empty[0] == empty[1]
        assert ours.decode(ids(ours, text)) == source.decode(ids(source, text))
    turn = [{"role": "user", "content": "문서"}]
    if source.chat_template:
        text = source.apply_chat_template(turn, tokenize=False)
        assert again.apply_chat_template(turn, tokenize=False) == text
        assert again.eos_token_id in again(text + str(again.eos_token)).input_ids


@pytest.mark.parametrize("family", ALL)
def test_a_replaced_vocabulary_reads_as_the_source_does_and_fits_the_text(family):
    source, (ours, counts) = source_of(family), made("replace", family)
    states = [tokenizer_files.state_of(tokenizer) for tokenizer in (source, ours)]
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        assert states[0][part] == states[1][part]
    learnt = ("vocab", "merges", "unk_id")
    settings = [{k: v for k, v in s["model"].items() if k not in learnt} for s in states]
    assert settings[0] == settings[1]
    assert counts is None
    assert len(ours) <= 500
    assert sorted(ours.get_vocab().values()) == list(range(len(ours)))
    if family in CAUSAL:  # the sources of the encoders have seen this text
        fits = [statistics(tokenizer, KOREAN) for tokenizer in (source, ours)]
        assert fits[1]["tokens"] < 0.5 * fits[0]["tokens"]
    before = [token for token, i in sorted(source.get_vocab().items(), key=lambda e: e[1])]
    if family != "modernbert":  # its special tokens stand behind the pieces, at other ids
        first = [token for token in source.all_special_tokens if source.get_vocab()[token] < 4]
        assert all(ours.get_vocab()[token] == before.index(token) for token in first)


@pytest.mark.parametrize("family", ALL)
def test_a_trimmed_vocabulary_cuts_the_text_as_before_with_far_fewer_pieces(family):
    source, (ours, counts) = source_of(family), made("trim", family)
    assert counts == {"source": len(source), "removed": len(source) - len(ours)}
    assert counts["removed"] > 10
    assert sorted(ours.get_vocab().values()) == list(range(len(ours)))
    assert set(ours.get_vocab()) < set(source.get_vocab())
    for text in KOREAN:
        assert tokens(ours, text) == tokens(source, text)
    if family in MERGING:  # every byte is there: nothing is unknown
        for text in [*ENGLISH, *OTHERS]:
            assert ours.decode(ids(ours, text)) == source.decode(ids(source, text))


# -- what does not go ----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_a_vocabulary_without_merges_cannot_go_on_and_is_told_what_to_use(family):
    with pytest.raises(UnsupportedModelError, match=r"extend.*use 'append'"):
        made("extend", family)


@pytest.mark.parametrize(("family", "size"), [("llama-3", 200), ("gemma", 265)])
def test_a_vocabulary_without_room_for_what_must_be_in_it_is_refused(family, size):
    with pytest.raises(RecipeError, match=f"vocab_size: {size} is too small"):
        made("replace", family, vocab_size=size)


@pytest.mark.parametrize("kind", ["replace", "trim"])
def test_sentinels_that_are_plain_pieces_stay_as_in_mt5(kind):
    """mT5 holds them in its vocabulary, not among the added tokens."""
    source = tiny_tokenizers.build("xlm-roberta")
    state = tokenizer_files.state_of(source)
    sentinels = ["▁<extra_id_1>", "▁<extra_id_0>"]
    pieces = [entry for entry in state["model"]["vocab"] if entry[0] != "<mask>"]
    state["model"]["vocab"] = [*pieces, *((piece, -2.0) for piece in sentinels)]
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] != "<mask>"]
    roles = {k: v for k, v in source.special_tokens_map.items() if k != "mask_token"}
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), **roles
    )
    section = Section(**keys_of(kind), vocab_size=300)
    ours, _ = extension.make(section, theirs, lambda: KOREAN, pad_id=None, seed=0)
    places = [ours.get_vocab()[piece] for piece in sentinels]
    assert places[1] == places[0] + 1
    assert kind == "trim" or places[1] == len(ours) - 1
    assert ours.get_vocab()["</s>"] == theirs.get_vocab()["</s>"]


FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")
# Words that the tiny sources have not seen, in letters that they have and in others.
NEW = ["хлеб и соль на столе, хлеб и вода", "Hovercraft overflowing hovercraft", "바다와 바람"] * 9
EVERYTHING = [
    *("The quick brown fox", "A café, nine; Coffee", "문서를 열고 형식을", "<mask> [SEP] </s>"),
    *("", " two  spaces", "\u1112\u1161\u11a8", "漢字 🙂 ñ"),
]
every_family = pytest.mark.parametrize("family", FAMILIES)


def written(source):
    source("a")  # forgets how the last call, another test's, cut its text
    return source.backend_tokenizer.to_str()


def make(kind, source, text=NEW, pad_id=None, **settings):
    settings = {"vocab_size": 420, "character_coverage": 1.0} | settings
    section = Section(**keys_of(kind), **settings)
    return extension.make(section, source, lambda: text, pad_id=pad_id, seed=0)


@every_family
def test_a_kept_tokenizer_reads_and_writes_as_the_source_s(family, tiny_tokenizer, tmp_path):
    source = tiny_tokenizer(family)
    before = written(source)
    ours, counts = make("keep", source)
    assert source.backend_tokenizer.to_str() == before
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
def test_the_ids_of_the_source_stay_and_new_ones_stand_behind_them(family, tiny_tokenizer):
    source = tiny_tokenizer(family)
    before = written(source)
    ours, counts = make("append", source)
    assert source.backend_tokenizer.to_str() == before
    theirs, mine = source.get_vocab(), ours.get_vocab()
    assert {piece: mine[piece] for piece in theirs} == theirs
    added = sorted(mine[piece] for piece in mine if piece not in theirs)
    assert added == list(range(len(source), len(source) + counts["added"]))
    assert counts["source"] == len(source)
    assert counts["added"] > 10


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


def take(folder, source):
    section, options = Section(action="use", model=str(folder)), {"pad_id": None, "seed": 0}
    made, counts = extension.make(section, source, lambda: pytest.fail("reads text"), **options)
    assert counts is None
    return made


@pytest.mark.parametrize("source", ["bert", "roberta"])
@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_ids_and_cuts_are_those_of_the_file(
    family, source, tiny_source, tiny_tokenizer, tmp_path
):
    theirs = tiny_tokenizer(family)
    ours = take(tiny_source(family), tiny_tokenizer(source))
    tokenizer_files.save(ours, tmp_path / "out")
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    for tokenizer in (ours, again):
        assert tokenizer.get_vocab() == theirs.get_vocab()
        assert tokenizer.special_tokens_map == theirs.special_tokens_map
        for text in EVERYTHING:
            assert tokenizer(text).input_ids == theirs(text).input_ids
            assert tokenizer(text, text).input_ids == theirs(text, text).input_ids


@pytest.mark.parametrize("family", ["bert", "electra"])
def test_a_source_without_types_of_tokens_gets_none(family, tiny_source, tiny_tokenizer):
    """A RoBERTa has one row of types: a second sentence of type 1 would stop fine-tuning."""
    source = tiny_tokenizer("roberta")
    ours = take(tiny_source(family), source)
    assert "token_type_ids" not in ours("a", "b")
    assert set(ours("a", "b", return_token_type_ids=True).token_type_ids) == {0}
    assert ours.model_input_names == source.model_input_names
