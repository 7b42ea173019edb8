from __future__ import annotations

import copy
import json

import pytest
from tokenizers import AddedToken

from lingraft.errors import UnsupportedModelError
from lingraft.tokenizer import files
from lingraft.tokenizer.vocabulary import Canonical, Vocabulary, canonical_form


@pytest.mark.parametrize(
    ("piece", "kind", "expected"),
    [
        ("ĠcafÃ©", "byte-bpe", (True, "café".encode())),
        ("Ġcafe", "byte-bpe", (True, b"cafe")),
        ("▁café", "unigram", (True, "café".encode())),
        ("café", "unigram", (False, "café".encode())),
        ("##é", "wordpiece", (False, "é".encode())),
        ("café", "wordpiece", (True, "café".encode())),
        ("##", "wordpiece", (True, b"##")),
        ("Ã", "byte-bpe", (False, b"\xc3")),
        ("ĠÃ", "byte-bpe", (True, b"\xc3")),
        ("Ġ", "byte-bpe", (True, b"")),
        ("ĠĠ", "byte-bpe", (True, b" ")),
        ("▁", "unigram", (True, b"")),
        ("▁▁", "unigram", (True, b" ")),
        ("ìķĪ", "byte-bpe", (False, "안".encode())),
    ],
)
def test_a_piece_has_this_canonical_form(piece, kind, expected):
    assert canonical_form(piece, kind) == Canonical(*expected)


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        ("<0xE2>", "unigram"),
        ("madeupword0001", "byte-bpe"),
        ("[unused12]", "wordpiece"),
        ("日本", "byte-bpe"),
    ],
)
def test_bytes_placeholders_and_misspelt_pieces_never_match(piece, kind):
    assert canonical_form(piece, kind) is None


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra", "modernbert"])
def test_a_vocabulary_knows_every_piece_and_the_roles(family, tiny_tokenizer):
    tokenizer = tiny_tokenizer(family)
    vocabulary = Vocabulary.of(tokenizer)
    assert vocabulary.size == len(tokenizer) == len(vocabulary.pieces) == len(vocabulary.canonical)
    assert vocabulary.pieces == tokenizer.convert_ids_to_tokens(range(vocabulary.size))
    assert vocabulary.specials == {
        "cls": tokenizer.cls_token_id,
        "sep": tokenizer.sep_token_id,
        "bos": tokenizer.cls_token_id,
        "pad": tokenizer.pad_token_id,
        "eos": tokenizer.sep_token_id,
        "unk": tokenizer.unk_token_id,
        "mask": tokenizer.mask_token_id,
    }
    assert vocabulary.special_ids == set(tokenizer.all_special_ids)
    assert {i for i, form in enumerate(vocabulary.canonical) if form is None} == set(
        tokenizer.all_special_ids
    )


def test_tokens_added_to_a_byte_level_vocabulary_are_plain_text(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer("modernbert"))
    tokenizer.add_tokens([AddedToken("   ", normalized=False), AddedToken("é!")])
    tokenizer.add_special_tokens({"extra_special_tokens": ["<extra>"]})
    vocabulary = Vocabulary.of(tokenizer)
    assert vocabulary.canonical[-3:] == [
        Canonical(True, b"  "),
        Canonical(False, "é!".encode()),
        None,
    ]


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
