from __future__ import annotations

import pytest
import torch

from lingraft.errors import DataError
from lingraft.models.embeddings import INITIALIZERS
from lingraft.models.embeddings.common import Material
from lingraft.recipe import Embeddings
from lingraft.tokenizer.vocabulary import Vocabulary, canonical_form


def vocabulary(kind: str, *pieces: str) -> Vocabulary:
    forms = [canonical_form(piece, kind) for piece in pieces]
    return Vocabulary(len(pieces), list(pieces), forms, {}, frozenset())


@pytest.fixture
def run(tmp_path, tiny_tokenizer):
    """Calls it with a source of three words and a lexicon: `run(lexicon, "▁집", …)`."""

    def call(lexicon, *pieces):
        path = tmp_path / "lexicon.txt"
        path.write_text(lexicon, encoding="utf-8")
        tokenizer = tiny_tokenizer("roberta")
        named = (str(path),) if lexicon else ()
        material = Material(tokenizer, tokenizer, tuple, Embeddings(lexicons=named), 0)
        source_VD = torch.arange(640.0).reshape(320, 2)
        return INITIALIZERS["dictionary"].function(
            source_VD,
            vocabulary("byte-bpe", "Ġhouse", "Ġdog", "Ġcaf"),
            vocabulary("unigram", *pieces),
            generator=torch.Generator().manual_seed(0),
            material=material,
        )

    return call


def test_a_case_of_four_pieces_by_hand(run):
    made = run("집 house\n개 hound\n개 dog\n새 bird\n", "▁집", "▁개", "▁새", "집")
    assert made.provenance.rules == ("dictionary", "dictionary", "fresh", "fresh")
    assert made.provenance.source_ids.tolist() == [0, 1, -1, -1]
    assert made.target_UD[:2].tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_translations_and_words_match_in_the_cascade_of_match(run):
    made = run("집 HOUSE\nжурнал dog\n", "▁집", "▁Журнал")
    assert made.provenance.source_ids.tolist() == [0, 1]


def test_a_lexicon_with_its_columns_swapped_is_refused(run):
    with pytest.raises(DataError, match="0 words that are new to the source stand first and 3 sec"):
        run("house 집\ndog 개\ncat 집\n", "▁집", "▁개")


def test_a_word_that_both_languages_have_does_not_turn_a_lexicon_round(run):
    made = run("집 house\n개 dog\ndog 개\n", "▁집", "▁개")
    assert made.provenance.source_ids.tolist() == [0, 1]


@pytest.mark.parametrize("lexicon", ["새 bird\n", "집 maison\n개 chien\n"])
def test_a_lexicon_that_gives_no_row_is_refused(lexicon, run):
    with pytest.raises(DataError, match=r"translate no word .*; .*embeddings.source_first ="):
        run(lexicon, "▁집", "▁개")


def test_of_several_dictionaries_the_first_with_a_known_translation_wins(tmp_path, tiny_tokenizer):
    (tmp_path / "ko").mkdir()
    (tmp_path / "ru").mkdir()
    (tmp_path / "ko/full.txt").write_text("집 HOUSE\n개 hound\n새 bird\n", encoding="utf-8")
    (tmp_path / "ru/full.txt").write_text("개 dog\nдом house\n집 dog\n", encoding="utf-8")
    named = tuple(str(tmp_path / name / "full.txt") for name in ("ko", "ru"))
    tokenizer = tiny_tokenizer("roberta")
    made = INITIALIZERS["dictionary"].function(
        torch.arange(640.0).reshape(320, 2),
        vocabulary("byte-bpe", "Ġhouse", "Ġdog"),
        vocabulary("unigram", "▁집", "▁개", "▁дом", "▁새", "▁кот"),
        generator=torch.Generator().manual_seed(0),
        material=Material(tokenizer, tokenizer, tuple, Embeddings(lexicons=named), 0),
    )
    assert made.provenance.source_ids.tolist() == [0, 1, 0, -1, -1]
