"""What learnt pieces may be, what is measured of them on a text, their canonical forms."""

import copy
import itertools
import json
import re

import causal_tokenizers
import pytest
from tiny_tokenizers import TEXT, build
from tokenizers import AddedToken, Tokenizer, normalizers, processors
from transformers import PreTrainedTokenizerFast

from lingraft.errors import DataError, UnsupportedModelError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension, files
from lingraft.tokenizer.files import fast, state_of
from lingraft.tokenizer.frame import code_for
from lingraft.tokenizer.state import BYTE_OF
from lingraft.tokenizer.statistics import check_kept, statistics, warn, warn_of_bytes
from lingraft.tokenizer.trimming import without_unused
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary, canonical_form
from tests.support.vocabulary_kinds import keys_of

UNSPACED = [line.replace(" ", "").replace(".", "") for line in TEXT[3:6]] * 9
END = "<|endoftext|>"


def made(kind, source, text, **section):
    options = {"pad_id": None, "seed": 0, "causal": source is not None}
    return extension.make(Section(**keys_of(kind), **section), source, lambda: text, **options)[0]


def texts_of(tokenizer, source):
    """Of pieces that the source lacks, the text without the space before it."""
    old = {} if source is None else source.get_vocab()
    vocabulary = Vocabulary.of(tokenizer)
    pairs = zip(vocabulary.pieces, vocabulary.canonical, strict=True)
    return [form.text for piece, form in pairs if form is not None and piece not in old]


def letters(text):
    return sum(byte & 0xC0 != 0x80 for byte in text)


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        *itertools.product(("unigram", "byte-bpe", "wordpiece"), (None,)),
        *itertools.product(("extend", "append", "replace"), ("gpt2", "gemma")),
    ],
)
def test_a_learnt_piece_has_no_more_letters_than_sixteen(kind, family):
    """Lines without spaces that occur often would become pieces as a whole."""
    source = causal_tokenizers.build(family) if family else None
    found = texts_of(made(kind, source, UNSPACED, vocab_size=900), source)
    assert 1 < max(map(letters, found)) <= 16


def without_bytes():
    """GPT-2's kind with ASCII alone."""
    state = state_of(causal_tokenizers.build("gpt2"))
    model = state["model"]
    gone = {letter for letter, byte in BYTE_OF.items() if byte >= 0x80}
    special = {token["content"] for token in state["added_tokens"]}
    pieces = [p for p in model["vocab"] if p in special or not gone.intersection(p)]
    model["vocab"] = {piece: index for index, piece in enumerate(pieces)}
    model["merges"] = [m for m in model["merges"] if not gone.intersection("".join(m))]
    for token in state["added_tokens"]:
        token["id"] = model["vocab"].get(token["content"], len(pieces))
    backend = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=END, eos_token=END)


@pytest.mark.parametrize("kind", ["keep", "extend", "append", "replace"])
def test_missing_bytes_are_added_before_other_pieces_or_the_loss_is_refused(kind):
    source = without_bytes()
    tokenizer = made(kind, source, TEXT, vocab_size=500, new_pieces=300)
    found = statistics(tokenizer, TEXT)
    if kind == "keep":
        assert found["round_trip"] < 0.5
        assert found["character_coverage"] == 1.0
        assert 0.4 < found["text_kept"] < 0.8
        with pytest.raises(DataError, match="of the text comes back"):
            check_kept("it", found["text_kept"])
    else:
        assert found["round_trip"] == found["text_kept"] == 1.0
        check_kept("it", found["text_kept"])


def test_bytes_that_a_kept_vocabulary_lacks_are_told_with_the_characters_that_they_take(caplog):
    for kind in ("keep", "trim", "extend"):
        caplog.clear()
        with caplog.at_level("WARNING", logger="lingraft"):
            warn_of_bytes(made(kind, without_bytes(), TEXT, vocab_size=500), ["né é나", "on"])
        told = re.findall(r"115 bytes \(80 81 .*\), and loses 3 of 7 characters", caplog.text)
        assert bool(told) is (kind != "extend")


def test_pieces_of_unigram_cost_what_was_learnt_and_special_ones_are_never_drawn():
    state = state_of(made("unigram", None, TEXT, vocab_size=400, character_coverage=1.0))
    special = {token["content"] for token in state["added_tokens"]}
    scores = dict(state["model"]["vocab"])
    assert {scores.pop(token) for token in special} == {-1_000.0}
    assert -20 < min(scores.values()) < max(scores.values()) < -1
    assert state["model"]["vocab"][state["model"].pop("unk_id")][0] == "<unk>"
    assert without_unused(state, TEXT)["model"]["unk_id"] is None
    theirs = build("xlm-roberta")
    before, after = (
        dict(state_of(one)["model"]["vocab"])
        for one in (theirs, made("append", theirs, UNSPACED, vocab_size=900))
    )
    assert {piece: after[piece] for piece in before} == pytest.approx(before)
    assert after.keys() > before.keys()
    assert all(-30 < after[piece] < -1 for piece in after.keys() - before.keys())


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "t5", "roberta"])
def test_what_a_normaliser_changes_and_what_is_unknown_is_not_lost(family):
    text = [*TEXT, "漢字 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁne １２３", "a  b\tc"]
    assert statistics(fast(build(family)), text)["text_kept"] > 0.99


def test_statistics_count_words_characters_tokens_and_unknowns(tiny_text):
    ours = made("unigram", None, ["가 나 가나 다"] * 5, vocab_size=32, character_coverage=1.0)
    tokens = len(ours.tokenize("가 나")) + len(ours.tokenize("다 힣힣 나"))
    counts = {"sentences": 2, "words": 5, "characters": 9, "tokens": tokens}
    rates = {"tokens_per_word": tokens / 5, "characters_per_token": 9 / tokens}
    rates |= {"bytes_per_token": 21 / tokens, "unknown_rate": 1 / tokens}
    kept = {"character_coverage": 4 / 6, "round_trip": 0.5, "text_kept": 1.0, "marks_kept": None}
    assert statistics(ours, ["가 나", "다 힣힣 나"]) == counts | rates | kept


def test_statistics_take_special_tokens_spelt_out_as_text(tiny_text):
    ours = made("byte-bpe", None, tiny_text, vocab_size=400)
    found = statistics(ours, ["a <mask> b </s>"])
    assert found["tokens"] > 4 + 4
    assert found["round_trip"] == 1.0


@pytest.mark.parametrize(
    "text", ["Tiếng Việt có dấu", "हिन्दी में लिखा", "ภาษาที่เขียน", "من می\u200cخواهم بروم"]
)
def test_a_text_that_loses_its_marks_is_told(text, caplog):
    tokenizer = made("byte-bpe", None, [text] * 5, vocab_size=400)
    assert statistics(tokenizer, [text])["marks_kept"] == 1
    caplog.clear()
    warn("xx", statistics(tokenizer, [text]))
    assert not caplog.records
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    found = statistics(tokenizer, [text])
    assert found["marks_kept"] < 0.7
    warn("xx", found)
    (record,) = caplog.records
    assert "marks kept of the xx text" in record.getMessage()


def test_an_unknown_character_costs_what_it_did(tiny_tokenizer):
    before = state_of(tiny_tokenizer("xlm-roberta"))
    scores = dict(before["model"]["vocab"])
    made = without_unused(before, ["fox"])["model"]["vocab"]
    assert len(made) < len(scores)
    assert min(score for _, score in made) == min(scores.values())
    assert all(scores[piece] == score for piece, score in made)


def test_a_literal_special_token_is_text(tiny_tokenizer):
    before = state_of(tiny_tokenizer("modernbert"))
    kept = without_unused(before, ["a [MASK] b"])["model"]["vocab"]
    assert {"[", "M", "[MASK]", "[PAD]"} <= set(kept)


@pytest.mark.parametrize(
    ("piece", "kind", "expected"),
    [
        ("ĠcafÃ©", "byte-bpe", (True, "café")),
        ("Ġcafe", "byte-bpe", (True, "cafe")),
        ("▁café", "unigram", (True, "café")),
        ("▁New▁York", "sp-bpe", (True, "New York")),
        ("café", "unigram", (False, "café")),
        ("##é", "wordpiece", (False, "é")),
        ("café", "wordpiece", (True, "café")),
        ("##", "wordpiece", (True, "##")),
        ("Ã", "byte-bpe", (False, b"\xc3")),
        ("ĠÃ", "byte-bpe", (True, b"\xc3")),
        ("Ġ", "byte-bpe", (True, "")),
        ("ĠĠ", "byte-bpe", (True, " ")),
        ("▁", "unigram", (True, "")),
        ("▁▁", "unigram", (True, " ")),
        ("ìķĪ", "byte-bpe", (False, "안")),
        # bytes, placeholders and misspelt pieces never match
        ("<0xE2>", "unigram", None),
        ("madeupword0001", "byte-bpe", None),
        ("[unused12]", "wordpiece", None),
        ("日本", "byte-bpe", None),
    ],
)
def test_a_piece_has_this_canonical_form(piece, kind, expected):
    if expected is not None:
        start, text = expected
        expected = Canonical(start, text.encode() if isinstance(text, str) else text)
    assert canonical_form(piece, kind) == expected


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra", "modernbert"])
def test_a_vocabulary_knows_every_piece_and_the_roles(family, tiny_tokenizer):
    tokenizer = tiny_tokenizer(family)
    vocabulary = Vocabulary.of(tokenizer)
    assert vocabulary.size == len(tokenizer) == len(vocabulary.pieces) == len(vocabulary.canonical)
    assert vocabulary.pieces == tokenizer.convert_ids_to_tokens(range(vocabulary.size))
    roles = {role: role for role in ("cls", "sep", "pad", "unk", "mask")}
    assert vocabulary.specials == {
        role: getattr(tokenizer, f"{name}_token_id")
        for role, name in (roles | {"bos": "cls", "eos": "sep"}).items()
    }
    assert vocabulary.special_ids == set(tokenizer.all_special_ids)
    unmatched = {i for i, form in enumerate(vocabulary.canonical) if form is None}
    assert unmatched == vocabulary.special_ids


def test_tokens_added_to_a_byte_level_vocabulary_are_plain_text(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer("modernbert"))
    tokenizer.add_tokens([AddedToken("   ", normalized=False), AddedToken("é!")])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<extra>"]})
    vocabulary = Vocabulary.of(tokenizer)
    forms = [Canonical(True, b"  "), Canonical(False, "é!".encode()), None]
    assert vocabulary.canonical[-3:] == forms


def test_a_vocabulary_without_the_merges_that_make_its_pieces_is_refused(tiny_tokenizer, tmp_path):
    """It would cut all text into characters, and nothing would say so."""
    files.save(tiny_tokenizer("roberta"), tmp_path)
    assert len(files.load(tmp_path)) > 0
    path = tmp_path / "tokenizer.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    state["model"]["merges"] = []
    path.write_text(json.dumps(state), encoding="utf-8")
    with pytest.raises(UnsupportedModelError, match="lost its merges"):
        files.load(tmp_path)


@pytest.mark.parametrize(
    ("language", "codes", "expected"),
    [
        ("ko", ["eng_Latn", "kor_Hang"], "kor_Hang"),
        ("kor_Hang", ["eng_Latn", "kor_Hang"], "kor_Hang"),
        ("zh-Hant", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hant"),
        ("zh-TW", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hant"),
        ("zho", ["eng_Latn", "zho_Hans", "zho_Hant"], "zho_Hans"),
        ("zh_CN", ["en_XX", "zh_CN"], "zh_CN"),
        ("tha", ["en_XX", "th_TH"], "th_TH"),
        ("KO-kr", ["__en__", "__ko__"], "__ko__"),
    ],
)
def test_the_code_of_a_language_is_found_however_it_is_written(
    language, codes, expected, tiny_tokenizer
):
    source = copy.deepcopy(tiny_tokenizer("xlm-roberta"))
    backend = source.backend_tokenizer
    backend.add_special_tokens([AddedToken(code, special=True) for code in codes])
    first, end = codes[0], source.eos_token
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {end}:0",
        pair=f"{first}:0 $A:0 $B:0 {end}:0",
        special_tokens=[(token, backend.token_to_id(token)) for token in (first, end)],
    )
    assert code_for(source, None, language) == expected
