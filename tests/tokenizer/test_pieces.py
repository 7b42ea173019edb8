"""What learnt pieces may be: of so many letters, without a space inside, with no text lost."""

from __future__ import annotations

import json

import causal_tokenizers
import pytest
from tiny_tokenizers import TEXT, build
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from lingraft.errors import DataError
from lingraft.recipe import Tokenizer as Section
from lingraft.tokenizer import extension
from lingraft.tokenizer.files import fast, state_of
from lingraft.tokenizer.state import BYTE_OF
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


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "t5", "roberta"])
def test_what_a_normaliser_changes_and_what_is_unknown_is_not_lost(family):
    text = [*TEXT, "漢字 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬁne １２３", "a  b\tc"]
    assert statistics(fast(build(family)), text)["text_kept"] > 0.99
