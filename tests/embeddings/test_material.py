from __future__ import annotations

import pytest

from lingraft.embeddings.material import read_lexicons
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Embeddings


def test_a_lexicon_of_muse_has_two_words_a_line_with_space_or_a_tab_between(tmp_path):
    path = tmp_path / "ko-en.txt"
    path.write_text("집 house\n집\thome\n개  dog\n", encoding="utf-8")
    assert read_lexicons(Embeddings(lexicons=(str(path),)), "dictionary").translations == {
        "집": ["house", "home"],
        "개": ["dog"],
    }


def test_a_tab_parts_phrases(tmp_path):
    path = tmp_path / "ko-en.tsv"
    path.write_text("각막 수술\tcorneal surgery\n", encoding="utf-8")
    assert read_lexicons(Embeddings(lexicons=(str(path),)), "dictionary").pairs == [
        ("각막 수술", "corneal surgery")
    ]


def test_a_resource_that_is_not_given_is_named():
    with pytest.raises(RecipeError, match=r"^embeddings\.lexicons: is empty, .* 'wechsel' needs"):
        read_lexicons(Embeddings(), "wechsel")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.tsv: no such file; embeddings\.lexicons must name"):
        read_lexicons(Embeddings(lexicons=(str(tmp_path / "none.tsv"),)), "dictionary")


def test_the_source_language_may_come_first(tmp_path):
    path = tmp_path / "en-ko.tsv"
    path.write_text("dog\t개\n", encoding="utf-8")
    given = Embeddings(lexicons=(str(path),), source_first=True)
    assert read_lexicons(given, "dictionary").translations == {"개": ["dog"]}
