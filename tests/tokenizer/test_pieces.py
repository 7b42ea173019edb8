"""What learnt pieces may be: of so many letters, without a space inside, with no text lost."""

from __future__ import annotations

import json
import shutil

import causal_tokenizers
import pytest
from tiny_tokenizers import TEXT, build
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from lingraft.errors import DataError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension
from lingraft.tokenizer.files import fast, state_of
from lingraft.tokenizer.state import BYTE_OF, dead_pattern
from lingraft.tokenizer.statistics import check_kept, statistics
from lingraft.tokenizer.vocabulary import Vocabulary
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


@pytest.mark.parametrize("limit", [16, 5])
@pytest.mark.parametrize(
    ("kind", "family"),
    [
        *((kind, None) for kind in ("unigram", "byte-bpe", "wordpiece")),
        *(
            (kind, family)
            for kind in ("extend", "append", "replace")
            for family in ("gpt2", "gemma")
        ),
    ],
)
def test_a_learnt_piece_has_no_more_letters_than_the_limit(kind, family, limit):
    """Lines without spaces that occur often would become pieces as a whole."""
    source = causal_tokenizers.build(family) if family else None
    found = {
        longest: texts_of(
            made(kind, source, UNSPACED, vocab_size=900, longest_piece=longest), source
        )
        for longest in (limit, 200)
    }
    assert 1 < max(map(letters, found[limit])) <= limit
    assert kind == "unigram" or max(map(letters, found[200])) > 16


def test_others_take_the_place_of_pieces_that_are_too_long():
    many = [f"{a}{b}" for a in UNSPACED[:3] for b in TEXT]
    tokenizer = made("byte-bpe", None, many * 3, vocab_size=480)
    assert len(tokenizer) == 480


@pytest.mark.parametrize("kind", ["extend", "append", "replace"])
def test_no_piece_runs_across_words_where_the_split_pattern_matches_nothing(kind, caplog):
    own = causal_tokenizers.build("qwen")
    state = state_of(own)
    split = next(s for s in state["pre_tokenizer"]["pretokenizers"] if s["type"] == "Split")
    assert dead_pattern(state) is None
    split["pattern"] = {"String": split["pattern"]["Regex"]}
    backend = Tokenizer.from_str(json.dumps(state))
    source = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    tokenizer = made(kind, source, TEXT * 9, vocab_size=900, new_pieces=500)
    assert not [text for text in texts_of(tokenizer, source) if b" " in text.lstrip()]
    assert "as a plain string, which no text matches" in caplog.text


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
        with pytest.raises(DataError, match="lacks bytes or letters"):
            check_kept("it", found["text_kept"])
    else:
        assert found["round_trip"] == found["text_kept"] == 1.0
        check_kept("it", found["text_kept"])


@pytest.mark.parametrize("name", ["evaluate", "adapt"])
def test_commands_refuse_to_lose_text(name, tiny_source, korean_text, command, tmp_path):
    folder = shutil.copytree(tiny_source("gpt2"), tmp_path / "source")
    without_bytes().save_pretrained(folder)
    run = ["--source", folder, "--method", "continued", "--budget", "2steps", "--lang", "ko"]
    more = [folder] if name == "evaluate" else [*run, "--out", tmp_path / "run"]
    ended = command(name, *more, "--text", korean_text)
    assert ended.status == 1
    assert "of the text comes back from its tokens, 98% must" in ended.err.splitlines()[-1]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "t5", "roberta"])
def test_what_a_normaliser_changes_and_what_is_unknown_is_not_lost(family):
    text = [*TEXT, "漢字 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁne １２３", "a  b\tc"]
    assert statistics(fast(build(family)), text)["text_kept"] > 0.99


@pytest.mark.parametrize(
    ("family", "as_kind"), [("gpt2", "extend"), ("gemma", "extend"), ("bert", "append")]
)
def test_pieces_are_added_by_the_source_s_merges_where_it_has_any(family, as_kind):
    source = fast(build(family) if family == "bert" else causal_tokenizers.build(family))
    sizes = {"vocab_size": 500, "new_pieces": 500}
    options = {"pad_id": None, "seed": 0, "causal": family != "bert"}
    made_by = {
        kind: extension.make(Section(**keys_of(kind), **sizes), source, lambda: TEXT, **options)
        for kind in ("add", as_kind)
    }
    assert made_by["add"][1] == made_by[as_kind][1]
    assert made_by["add"][0].get_vocab() == made_by[as_kind][0].get_vocab()
