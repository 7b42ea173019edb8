from __future__ import annotations

import gzip
import logging
import lzma

import pytest

from lingraft.corpus.pairs import Pair
from lingraft.embeddings.material import files, read_lexicons, read_pairs
from lingraft.errors import DataError, RecipeError
from lingraft.recipe import Resources


def test_a_lexicon_of_muse_has_two_words_a_line_with_space_or_a_tab_between(tmp_path):
    path = tmp_path / "ko-en.txt"
    path.write_text("집 house\n집\thome\n개  dog\n", encoding="utf-8")
    assert read_lexicons(Resources(lexicons=(str(path),)), "dictionary").translations == {
        "집": ["house", "home"],
        "개": ["dog"],
    }


def test_a_tab_parts_phrases(tmp_path):
    path = tmp_path / "ko-en.tsv"
    path.write_text("각막 수술\tcorneal surgery\n", encoding="utf-8")
    assert read_lexicons(Resources(lexicons=(str(path),)), "dictionary").pairs == [
        ("각막 수술", "corneal surgery")
    ]


def test_lines_that_are_no_pair_are_left_out_and_counted(tmp_path, caplog):
    path = tmp_path / "ko-en.txt"
    path.write_text("집\thouse\n집\n집 my house\n\n집\t\n집\ta\tb\n", encoding="utf-8")
    with caplog.at_level(logging.INFO, logger="lingraft"):
        assert read_pairs([path], key="resources.parallel") == [Pair("집", "house")]
    assert caplog.messages == ["ko-en.txt: 1 pairs, 4 lines that are none left out"]


@pytest.mark.parametrize(("suffix", "opened"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files_are_read(tmp_path, suffix, opened):
    path = tmp_path / f"pairs.tsv{suffix}"
    with opened(path, "wt", encoding="utf-8") as file:
        file.write("나는 간다\tI go\n")
    assert read_pairs([path], key="resources.parallel") == [Pair("나는 간다", "I go")]


def test_sentences_are_parted_by_tabs_only(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("안녕 hello\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"pairs\.tsv: no line of it has two columns"):
        read_pairs([path], key="resources.parallel")


def test_a_resource_that_is_not_given_is_named():
    with pytest.raises(RecipeError, match=r"^resources\.parallel: is empty, and .* 'ramen' needs"):
        files((), "resources.parallel", "ramen", "parallel text")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.tsv: no such file; resources\.lexicons must name"):
        read_lexicons(Resources(lexicons=(str(tmp_path / "none.tsv"),)), "dictionary")


def test_the_source_language_may_come_first(tmp_path):
    path = tmp_path / "en-ko.tsv"
    path.write_text("dog\t개\n", encoding="utf-8")
    given = Resources(lexicons=(str(path),), source_first=True)
    assert read_lexicons(given, "dictionary").translations == {"개": ["dog"]}
