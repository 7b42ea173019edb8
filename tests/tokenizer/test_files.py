import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import lingraft
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import files as tokenizer_files
from lingraft.tokenizer.merges import Sample
from tests.support.vocabulary_kinds import keys_of

KINDS = ("unigram", "byte-bpe", "wordpiece")
FAMILIES = ("bert", "roberta", "xlm-roberta", "electra", "modernbert")


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
def test_special_tokens_keep_strings_roles_and_order_and_move_to_the_front(
    family, trained, tiny_tokenizer
):
    source, ours = tiny_tokenizer(family), trained[family]
    assert ours.special_tokens_map == source.special_tokens_map
    order = sorted(set(source.special_tokens_map.values()), key=source.convert_tokens_to_ids)
    assert ours.convert_tokens_to_ids(order) == list(range(len(order)))


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
        assert shape(source, texts) == shape(ours, texts)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "modernbert"])
def test_the_mask_token_takes_the_space_before_it_where_the_source_s_does(family, trained):
    ours = trained[family]
    with_space = ours(f"나는 {ours.mask_token}", add_special_tokens=False)["input_ids"]
    without = ours(f"나는{ours.mask_token}", add_special_tokens=False)["input_ids"]
    assert with_space == without


@pytest.mark.parametrize("kind", ["unigram", "byte-bpe"])
def test_text_with_single_spaces_survives_the_round_trip_exactly(kind, tiny_text):
    ours = new(kind, tiny_text, character_coverage=1.0)
    odd = " , ".join(sorted(set("".join(tiny_text)) - {" "})) + " ;Open ,the"
    for text in [*tiny_text, odd]:
        assert ours.decode(ours(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("kind", KINDS)
def test_decomposed_hangul_is_composed_and_case_and_accents_are_kept(kind, tiny_text):
    ours = new(kind, tiny_text, character_coverage=1.0)
    assert ours.tokenize("\u1112\u1161\u11a8교") == ours.tokenize("학교")
    assert ours.decode(ours("café The", add_special_tokens=False)["input_ids"]) == "café The"


@pytest.mark.parametrize("kind", KINDS)
def test_invisible_characters_that_the_training_text_has_lost_change_no_token(kind, tiny_text):
    tokenizer = new(kind, [*tiny_text, "שלום עולם", "ខ្ញុំទៅផ្សារ"])
    assert tokenizer.encode("שלום \u200fעולם") == tokenizer.encode("שלום עולם")
    assert tokenizer.encode("ខ្ញុំ\u200bទៅ\u200bផ្សារ") == tokenizer.encode("ខ្ញុំទៅផ្សារ")


@pytest.mark.parametrize("word", ["می\u200cخواهم", "ශ්\u200dරී", "ᠬᠡᠯᠡ\u180eᠶᠢᠨ", "हिन्दी"])
def test_joiners_stay_in_the_word_in_byte_bpe(word):
    assert len(new("byte-bpe", [f"{word} {word}"] * 50).tokenize(word)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rare_characters_become_unknown_below_full_coverage(kind, tiny_text):
    text = [*tiny_text * 10, "힣"]
    ours = new(kind, text, character_coverage=0.999)
    unknown = ours.unk_token_id in ours("힣")["input_ids"]
    assert unknown == (kind != "byte-bpe")
    assert ours.unk_token_id not in new(kind, text, character_coverage=1.0)("힣")["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_too_small_for_the_characters_is_refused(kind, tiny_text):
    with pytest.raises((RecipeError, DataError), match="vocab_size"):
        new(kind, tiny_text, vocab_size=32, character_coverage=1.0)


@pytest.mark.parametrize("text", [[], [""]])
def test_no_text_is_an_error(text):
    with pytest.raises(DataError, match="no text"):
        new("unigram", text)


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
    env = os.environ | {"PYTHONPATH": str(Path(lingraft.__file__).parents[1])}
    run = functools.partial(subprocess.check_output, [sys.executable, "-c", SCRIPT, path])
    first, second = (run(env=env | {"PYTHONHASHSEED": seed}).splitlines() for seed in ("1", "2"))
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_model_from_nothing_has_no_token_behind_its_texts(kind, tiny_text):
    section = Section(**keys_of(kind), vocab_size=400, character_coverage=1.0)
    made = tokenizer_files.train(section, None, lambda: tiny_text, pad_id=None, seed=0, causal=True)
    text, other = (made.encode(part, add_special_tokens=False) for part in ("a", "b"))
    assert made("a").input_ids == [made.bos_token_id, *text]
    assert made("a", "b").input_ids == [made.bos_token_id, *text, *other]
    assert (made.mask_token, made.eos_token) == (None, "</s>")
