from __future__ import annotations

import pytest
import torch

from lingraft.embeddings import INITIALISERS
from lingraft.embeddings.material import Material
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Resources
from lingraft.tokenizer.vocabulary import Vocabulary, canonical_form


def vocabulary(kind: str, *pieces: str) -> Vocabulary:
    forms = [canonical_form(piece, kind) for piece in pieces]
    return Vocabulary(len(pieces), list(pieces), forms, {}, frozenset())


@pytest.fixture
def run(tmp_path, tiny_tokenizer):
    """Calls it with a source of three words and a lexicon: `run(lexicon, "▁집", …)`."""

    def call(lexicon, *pieces, source=("Ġhouse", "Ġdog", "Ġcaf"), **options):
        path = tmp_path / "lexicon.txt"
        path.write_text(lexicon, encoding="utf-8")
        tokenizer = tiny_tokenizer("roberta")
        named = (str(path),) if lexicon else ()
        material = Material(tokenizer, tokenizer, tuple, Resources(lexicons=named), 0)
        source_VD = torch.arange(640.0).reshape(320, 2)
        known = Vocabulary.of(tokenizer) if source is None else vocabulary("byte-bpe", *source)
        return INITIALISERS["dictionary"].function(
            source_VD,
            known,
            vocabulary("unigram", *pieces),
            generator=torch.Generator().manual_seed(0),
            material=material,
            **options,
        )

    return call


def test_a_case_of_four_pieces_by_hand(run):
    made = run("집 house\n개 hound\n개 dog\n새 bird\n", "▁집", "▁개", "▁새", "집")
    assert made.provenance.rules == ("dictionary", "dictionary", "fresh", "fresh")
    assert made.provenance.source_ids.tolist() == [0, 1, -1, -1]
    assert made.target_UD[:2].tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_matching_by_spelling_goes_before_the_lexicon(run):
    made = run("dog house\n집 house\n", "▁dog", "▁집")
    assert made.provenance.rules == ("exact", "dictionary")
    assert made.provenance.source_ids.tolist() == [1, 0]


def test_translations_and_words_match_in_the_cascade_of_match(run):
    made = run("집 HOUSE\nжурнал dog\n", "▁집", "▁Журнал")
    assert made.provenance.source_ids.tolist() == [0, 1]


def test_only_pieces_that_start_a_word_are_looked_up(run):
    made = run("집 house\n", "▁집", "집", "▁집집")
    assert made.provenance.rules == ("dictionary", "fresh", "fresh")


def test_the_pieces_of_a_translation_are_averaged_only_when_asked_for(run, tiny_tokenizer):
    options = {"source": None, "average_pieces": True}
    assert run("새 bird\n", "▁새", source=None).provenance.rules == ("fresh",)
    made = run("새 bird\n", "▁새", **options)
    ids = tiny_tokenizer("roberta")(" bird", add_special_tokens=False)["input_ids"]
    assert len(ids) > 1
    assert made.provenance.rules == ("combined",)
    expected = torch.arange(640.0).reshape(320, 2)[ids].mean(dim=0)
    assert torch.allclose(made.target_UD[0], expected)


def test_a_lexicon_with_its_columns_swapped_is_refused(run):
    with pytest.raises(DataError, match=r"none of their 2 words .*; set resources.source_first ="):
        run("house 집\ndog 개\n", "▁집", "▁개")


def test_no_lexicon_is_refused(run):
    with pytest.raises(RecipeError, match=r"^resources\.lexicons: is empty"):
        run("", "▁집")
