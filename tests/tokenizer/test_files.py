from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import lingraft
from lingraft.errors import DataError, RecipeError, UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.algorithms import Sample
from tests.support.vocabulary_kinds import keys_of

KIND_OF_FAMILY = {
    "bert": "wordpiece",
    "roberta": "byte-bpe",
    "xlm-roberta": "unigram",
    "electra": "wordpiece",
    "modernbert": "byte-bpe",
}
KINDS = ("unigram", "byte-bpe", "wordpiece")
FAMILIES = tuple(KIND_OF_FAMILY)


@pytest.fixture(scope="module")
def trained(tiny_tokenizer, tiny_text):
    """One tokenizer of each family, trained from the family's tiny source."""
    return {
        family: tokenizer_files.train(
            Section(vocab_size=400, character_coverage=1.0),
            tiny_tokenizer(family),
            lambda: tiny_text,
            pad_id=1 if "roberta" in family else None,
            seed=0,
        )
        for family in FAMILIES
    }


def new(kind: str, text, **settings) -> PreTrainedTokenizerFast:
    section = Section(**(keys_of(kind) | {"vocab_size": 400} | settings))
    return tokenizer_files.train(section, None, lambda: text, pad_id=None, seed=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kind_of_each_family_is_recognised(family, tiny_tokenizer):
    assert tokenizer_files.kind_of(tiny_tokenizer(family)) == KIND_OF_FAMILY[family]


def test_plain_bpe_is_refused_with_what_is_allowed():
    backend = Tokenizer(models.BPE({"a": 0}, []))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    with pytest.raises(UnsupportedModelError, match=r"BPE.*unigram, byte-bpe, sp-bpe, wordpiece"):
        tokenizer_files.kind_of(PreTrainedTokenizerFast(tokenizer_object=backend))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_new_tokenizer_has_the_source_s_kind(family, trained):
    assert tokenizer_files.kind_of(trained[family]) == KIND_OF_FAMILY[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_special_tokens_keep_strings_roles_and_order_and_move_to_the_front(
    family, trained, tiny_tokenizer
):
    source, ours = tiny_tokenizer(family), trained[family]
    assert ours.special_tokens_map == source.special_tokens_map
    order = sorted(set(source.special_tokens_map.values()), key=source.convert_tokens_to_ids)
    assert ours.convert_tokens_to_ids(order) == list(range(len(order)))


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_the_padding_token_has_id_one_where_positions_depend_on_it(family, trained):
    assert trained[family].convert_ids_to_tokens([0, 1, 2, 3, 4]) == [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
    ]


def test_the_padding_token_moves_to_the_id_that_is_asked_for(tiny_tokenizer, tiny_text):
    source = tiny_tokenizer("modernbert")
    section = Section(vocab_size=400)
    ours = tokenizer_files.train(section, source, lambda: tiny_text, pad_id=1, seed=0)
    assert ours.convert_ids_to_tokens(range(5)) == ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]


def test_a_padding_id_beyond_the_special_tokens_is_refused(tiny_tokenizer, tiny_text):
    source = tiny_tokenizer("roberta")
    with pytest.raises(UnsupportedModelError, match="padding token at id 7"):
        tokenizer_files.train(Section(), source, lambda: tiny_text, pad_id=7, seed=0)


def shape(tokenizer: PreTrainedTokenizerFast, texts: tuple[str, ...]) -> list[tuple[str, int]]:
    """Special tokens and stretches of text, each with its type id."""
    row = tokenizer(*texts, return_token_type_ids=True)
    found: list[tuple[str, int]] = []
    for token, type_id in zip(row["input_ids"], row["token_type_ids"], strict=True):
        special = token in tokenizer.all_special_ids
        part = (tokenizer.convert_ids_to_tokens(token) if special else "text", type_id)
        if special or part != found[-1]:
            found.append(part)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_sentences_and_pairs_are_framed_as_the_source_frames_them(family, trained, tiny_tokenizer):
    source, ours = tiny_tokenizer(family), trained[family]
    for texts in (("The dog",), ("The dog", "the sun")):
        shapes = [shape(tokenizer, texts) for tokenizer in (source, ours)]
        assert shapes[0] == shapes[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_model_inputs_and_maximal_length_are_the_source_s(family, trained, tiny_tokenizer):
    source, ours = tiny_tokenizer(family), trained[family]
    assert ours.model_input_names == source.model_input_names
    assert ours.model_max_length == source.model_max_length


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "modernbert"])
def test_the_mask_token_takes_the_space_before_it_where_the_source_s_does(family, trained):
    ours = trained[family]
    with_space = ours(f"나는 {ours.mask_token}", add_special_tokens=False)["input_ids"]
    without = ours(f"나는{ours.mask_token}", add_special_tokens=False)["input_ids"]
    assert with_space == without


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "xlm-roberta"])
def test_a_byte_level_mask_takes_the_space_though_the_source_s_need_not(
    family, tiny_tokenizer, tiny_text
):
    section = Section(algorithm="byte-bpe", vocab_size=420)
    made = tokenizer_files.train(
        section, tiny_tokenizer(family), lambda: tiny_text, pad_id=None, seed=0
    )
    hidden = made(f"나는 {made.mask_token} 가서").input_ids
    assert hidden[1 : hidden.index(made.mask_token_id)] == made("나는").input_ids[1:-1]


def test_a_piece_right_after_the_unigram_mask_is_no_word_start(trained):
    ours = trained["xlm-roberta"]
    row = ours("학교<mask>는", add_special_tokens=False)["input_ids"]
    assert not ours.convert_ids_to_tokens(row)[-1].startswith("▁")


@pytest.mark.parametrize("kind", ["unigram", "byte-bpe"])
def test_text_with_single_spaces_survives_the_round_trip_exactly(kind, tiny_text):
    ours = new(kind, tiny_text, character_coverage=1.0)
    odd = " , ".join(sorted(set("".join(tiny_text)) - {" "})) + " ;Open ,the"
    for text in [*tiny_text, odd]:
        assert ours.decode(ours(text, add_special_tokens=False)["input_ids"]) == text


def test_byte_bpe_gives_any_text_back(tiny_text):
    ours = new("byte-bpe", tiny_text)
    text = "हिन्दी ภาษาไทย 漢字  two  spaces\tand 🙂"
    assert ours.decode(ours(text, add_special_tokens=False)["input_ids"]) == text
    assert ours.unk_token_id not in ours(text)["input_ids"]


def test_vowel_signs_stay_in_the_word_in_byte_bpe(tiny_text):
    ours = new("byte-bpe", ["हिन्दी में हिन्दी"] * 10)
    assert len(ours.tokenize("हिन्दी")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_decomposed_hangul_is_composed_and_case_and_accents_are_kept(kind, tiny_text):
    ours = new(kind, tiny_text, character_coverage=1.0)
    assert ours.tokenize("\u1112\u1161\u11a8교") == ours.tokenize("학교")
    assert ours.decode(ours("café The", add_special_tokens=False)["input_ids"]) == "café The"


def test_wordpiece_keeps_zero_width_joiners(tiny_text):
    ours = new("wordpiece", [*tiny_text, "می\u200cخواهم می\u200cخواهم"], character_coverage=1.0)
    assert ours.decode(ours("می\u200cخواهم", add_special_tokens=False)["input_ids"]) == (
        "می\u200cخواهم"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_invisible_characters_that_the_training_text_has_lost_change_no_token(kind, tiny_text):
    tokenizer = new(kind, [*tiny_text, "שלום עולם", "ខ្ញុំទៅផ្សារ"])
    assert tokenizer.encode("שלום \u200fעולם") == tokenizer.encode("שלום עולם")
    assert tokenizer.encode("ខ្ញុំ\u200bទៅ\u200bផ្សារ") == tokenizer.encode("ខ្ញុំទៅផ្សារ")


@pytest.mark.parametrize("word", ["می\u200cخواهم", "ශ්\u200dරී", "ᠬᠡᠯᠡ\u180eᠶᠢᠨ"])
def test_joiners_stay_in_the_word_in_byte_bpe(word):
    assert len(new("byte-bpe", [f"{word} {word}"] * 50).tokenize(word)) == 1


def test_wordpiece_cuts_long_words_that_stock_bert_would_lose():
    ours = new("wordpiece", ["ก ข กขก"] * 3)
    assert "[UNK]" not in ours.tokenize("กข" * 100)


def test_wordpiece_splits_chinese_characters_as_bert_does():
    ours = new("wordpiece", ["漢字 漢字漢字"] * 3)
    assert ours.tokenize("漢字") == ["漢", "字"]


def test_a_lower_casing_source_is_named_in_the_log(tiny_tokenizer, tiny_text, caplog):
    with caplog.at_level(logging.INFO, logger="lingraft"):
        tokenizer_files.train(
            Section(vocab_size=400), tiny_tokenizer("bert"), lambda: tiny_text, pad_id=None, seed=0
        )
    assert "lower-cases" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_rare_characters_become_unknown_below_full_coverage(kind, tiny_text):
    text = [*tiny_text * 10, "힣"]
    ours = new(kind, text, character_coverage=0.999)
    unknown = ours.unk_token_id in ours("힣")["input_ids"]
    assert unknown == (kind != "byte-bpe")
    assert ours.unk_token_id not in new(kind, text, character_coverage=1.0)("힣")["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_the_text_cannot_fill_is_smaller_and_logged(kind, tiny_text, caplog):
    with caplog.at_level(logging.INFO, logger="lingraft"):
        ours = new(kind, tiny_text, vocab_size=20_000)
    assert len(ours) < 20_000
    assert f"the text gives {len(ours)} pieces; 20000 were asked for" in caplog.text


@pytest.mark.parametrize(
    ("kind", "size"), [("unigram", 100), ("byte-bpe", 300), ("wordpiece", 200)]
)
def test_the_vocabulary_has_the_size_that_is_asked_for(kind, size, tiny_text):
    assert len(new(kind, tiny_text, vocab_size=size)) == size


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_for_the_characters_says_what_is_needed(kind, tiny_text):
    with pytest.raises(
        RecipeError, match=r"vocab_size: 32 is too small.* alone are (\d+)"
    ) as error:
        new(kind, tiny_text, vocab_size=32, character_coverage=1.0)
    assert "\n" not in str(error.value)
    needed = int(str(error.value).split("alone are ")[1].split(";")[0])
    assert len(new(kind, tiny_text, vocab_size=needed, character_coverage=1.0)) == needed
    with pytest.raises(RecipeError):
        new(kind, tiny_text, vocab_size=needed - 1, character_coverage=1.0)


@pytest.mark.parametrize("text", [[], [""], ["", ""]])
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_an_error(kind, text):
    with pytest.raises(DataError, match="no text"):
        new(kind, text)


@pytest.mark.parametrize("kind", KINDS)
def test_one_short_sentence_is_enough_to_train_on(kind):
    ours = new(kind, ["가나"], character_coverage=1.0)
    assert ours.decode(ours("가나", add_special_tokens=False)["input_ids"]) == "가나"


def test_a_source_without_a_mask_token_is_refused(tiny_text):
    backend = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    source = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")
    with pytest.raises(UnsupportedModelError, match=r"has no .*mask_token"):
        tokenizer_files.train(Section(), source, lambda: tiny_text, pad_id=None, seed=0)


def test_a_subsample_has_the_size_asked_for_spreads_over_the_corpus_and_follows_the_seed():
    corpus = [str(number) for number in range(1_000)]
    first = [int(s) for s in Sample(lambda: corpus, 100, 0)]
    assert len(first) == 100
    assert [number // 10 for number in first] == list(range(100))
    assert [int(s) for s in Sample(lambda: corpus, 100, 0)] == first
    assert [int(s) for s in Sample(lambda: corpus, 100, 1)] != first
    assert list(Sample(lambda: corpus, 1_000, 0)) == corpus


SCRIPT = """
import hashlib, sys
from lingraft.recipe import Tokenizer
from lingraft.tokenizer import files
text = open(sys.argv[1], encoding="utf-8").read().split("\\n")
for kind in ("unigram", "byte-bpe", "wordpiece"):
    section = Tokenizer(algorithm=kind, vocab_size=420, max_train_sentences=20)
    made = files.train(section, None, lambda: text, pad_id=None, seed=3)
    print(kind, hashlib.sha256(made.backend_tokenizer.to_str().encode()).hexdigest())
"""


@pytest.mark.slow
def test_training_gives_the_same_tokenizer_in_another_process(tmp_path, tiny_text):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(tiny_text), encoding="utf-8")
    source = str(Path(lingraft.__file__).parents[1])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate(timeout=120)[0].splitlines() for process in running)
    assert len(first) == 3
    assert first == second


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_tokenizer_is_loaded_by_transformers_beside_a_model_s_config(
    family, trained, tmp_path, tiny_text
):
    ours = trained[family]
    tokenizer_files.save(ours, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    for loaded in (AutoTokenizer.from_pretrained(tmp_path), tokenizer_files.load(tmp_path)):
        for texts in (tiny_text[3:4], tiny_text[2:4], (f"나는 {ours.mask_token} 간다",)):
            assert dict(loaded(*texts)) == dict(ours(*texts))
        assert loaded.special_tokens_map == ours.special_tokens_map
        assert loaded.backend_tokenizer.to_str() == ours.backend_tokenizer.to_str()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_saved_class_name_is_one_that_older_transformers_know(family, trained, tmp_path):
    tokenizer_files.save(trained[family], tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["clean_up_tokenization_spaces"] is False
    assert {type(value) for value in config.values()} <= {str, int, bool, list}


def test_saving_twice_writes_the_same_bytes(trained, tmp_path):
    digests = []
    for name in ("a", "b"):
        tokenizer_files.save(trained["roberta"], tmp_path / name)
        files = sorted((tmp_path / name).iterdir())
        digests.append([(f.name, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files])
    assert digests[0] == digests[1]


def test_loading_a_missing_directory_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"nowhere': no such directory") as error:
        tokenizer_files.load(tmp_path / "nowhere")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["", "{}", '{"version": "1.0", "model": {"type": "Nothing"}}'])
def test_loading_a_broken_tokenizer_is_one_line(content, trained, tmp_path):
    tokenizer_files.save(trained["roberta"], tmp_path)
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DataError, match="cannot be loaded") as error:
        tokenizer_files.load(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_model_from_nothing_has_no_token_behind_its_texts(kind, tiny_text):
    section = Section(**keys_of(kind), vocab_size=400, character_coverage=1.0)
    made = tokenizer_files.train(section, None, lambda: tiny_text, pad_id=None, seed=0, causal=True)
    text, other = (made.encode(part, add_special_tokens=False) for part in ("a", "b"))
    assert made("a").input_ids == [made.bos_token_id, *text]
    assert made("a", "b").input_ids == [made.bos_token_id, *text, *other]
    assert (made.mask_token, made.eos_token) == (None, "</s>")


def test_a_long_line_without_spaces_takes_a_wordpiece_vocabulary_no_longer_than_short_ones():
    text = "".join(random.Random(0).choices("กาขาคำงูจะ", k=40_000)) + " ฬ"
    start = time.process_time()
    new("wordpiece", [text], vocab_size=100, character_coverage=0.999)
    assert time.process_time() - start < 4  # in a time that grows with its square: 9 s
