"""Tatoeba and BUCC: their files, and their scores by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lingraft.errors import DataError
from lingraft.tasks import RETRIEVALS, sentences

OFFICIAL = Path(__file__).parent / "official"


def test_mined_pairs_by_hand() -> None:
    gold = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    said = [("a", "1"), ("a", "1"), ("b", "3"), ("c", "3")]  # two of three are right
    scores = sentences.pair_f1(gold, said)
    assert scores == pytest.approx({"precision": 200 / 3, "recall": 50, "f1": 400 / 7})
    assert sentences.pair_f1(gold, []) == {"f1": 0, "precision": 0, "recall": 0}


def test_tatoeba_is_aligned_by_line() -> None:
    found = sentences.read(RETRIEVALS["tatoeba-de"], OFFICIAL)
    assert found.source["1"] == "Die Katze schläft."
    assert found.target["1"] == "The cat is asleep."
    assert found.gold == {(str(n), str(n)) for n in range(5)}


def test_a_table_has_english_first(tmp_path: Path) -> None:
    (tmp_path / "eng-kor.tsv").write_text("Yes.\t네.\nNo.\t아니요.\n", encoding="utf-8")
    found = sentences.read(RETRIEVALS["tatoeba-ko"], tmp_path)
    assert (found.source["0"], found.target["0"]) == ("네.", "Yes.")


def test_bucc_has_ids_and_gold_pairs() -> None:
    found = sentences.read(RETRIEVALS["bucc2018-de"], OFFICIAL, "dev")
    assert found.source["de-000000003"] == "Es regnet."
    assert found.gold == {("de-000000001", "en-000000002"), ("de-000000003", "en-000000001")}
    assert set(RETRIEVALS["bucc2018-de"].files) == {"dev", "test"}


@pytest.mark.parametrize(
    ("record", "files", "says"),
    [
        ("tatoeba-de", {}, "files of tatoeba-de are missing (test: eng-deu.tsv, "),
        ("tatoeba-de", {"tatoeba.deu-eng.deu": "Ja.\n", "tatoeba.deu-eng.eng": ""},
         "tatoeba.deu-eng.eng has 0; line n of one must translate line n of the other"),
        ("bucc2018-de", {"de-en.test.de": "1\tJa\n1\tJa\n", "de-en.test.en": "2\tYes\n"},
         "line 2: the id '1' stands there twice"),
        ("bucc2018-de", {"de-en.test.de": "1\tJa\n", "de-en.test.en": "2\tYes\n",
                         "de-en.test.gold": "1\t3\n"},
         "line 1: no sentences have the ids '1' and '3'"),
    ],
)  # fmt: skip
def test_broken_files_of_retrieval_are_one_line(
    record: str, files: dict[str, str], says: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(says)):
        sentences.read(RETRIEVALS[record], tmp_path)
