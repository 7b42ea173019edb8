"""Files of the Tatoeba test sets, in their forms."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING

import pytest
import real_data

from lingraft.crosslingual import pairs
from lingraft.errors import DataError, RecipeError

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [("A cat.", "고양이."), ("Two dogs.", "개 두 마리.")]
TATOEBA = real_data.folder("par_tatoeba")


def table(path: Path, rows: list[tuple[str, ...]] = PAIRS) -> Path:
    text = "".join("\t".join(cells) + "\n" for cells in rows)
    data = text.encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return path


def sides(folder: Path, stem: str, first: str, second: str) -> None:
    for at, code in enumerate((first, second)):
        lines = [row[at] for row in PAIRS]
        (folder / f"{stem}.{code}").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.parametrize("name", ["eng-kor.tsv", "eng-kor.tsv.xz", "help.en-ko.tsv"])
def test_a_table_holds_english_first_where_its_name_says_so(tmp_path: Path, name: str) -> None:
    file = table(tmp_path / name)
    for given in (str(file), str(tmp_path)):
        (found,) = pairs.read([given], ["ko"])
        assert (found.language, found.english, found.other) == ("ko", *zip(*PAIRS, strict=True))


def test_a_table_named_the_other_way_round_is_turned(tmp_path: Path) -> None:
    table(tmp_path / "kor-eng.tsv", [row[::-1] for row in PAIRS])
    (found,) = pairs.read([str(tmp_path)])
    assert (found.language, found.english) == ("kor", tuple(row[0] for row in PAIRS))


def test_both_files_of_a_laser_pair_are_one_test_set(tmp_path: Path) -> None:
    sides(tmp_path, "tatoeba.kor-eng", "eng", "kor")
    for given in (".", "tatoeba.kor-eng.kor", "tatoeba.kor-eng.eng"):
        (found,) = pairs.read([str(tmp_path / given)])
        assert (found.language, found.english, found.other) == ("kor", *zip(*PAIRS, strict=True))


def test_any_file_is_read_under_the_language_that_it_is_given(tmp_path: Path) -> None:
    (found,) = pairs.read([f"ko={table(tmp_path / 'made.txt')}"])
    assert found.language == "ko"
    assert found.english[0] == "A cat."


@pytest.mark.parametrize(
    ("asked", "file"), [("ko", "kor"), ("zh", "cmn"), ("fa", "pes"), ("tl", "tgl"), ("ar", "ara")]
)
def test_a_language_is_found_under_its_other_codes(tmp_path: Path, asked: str, file: str) -> None:
    for code in (file, "deu", "arz", "yue"):
        table(tmp_path / f"eng-{code}.tsv", [("e", f"in {code}")])
    (found,) = pairs.read([str(tmp_path)], [asked])
    assert (found.language, found.other) == (asked, (f"in {file}",))


def test_an_english_side_in_alphabetical_order_is_noticed() -> None:
    english = tuple(f"{number:03}" for number in range(30))
    assert pairs.Pairs("ko", english, english).english_is_sorted
    assert not pairs.Pairs("ko", english[::-1], english).english_is_sorted


def test_other_files_in_a_directory_are_left_alone(tmp_path: Path) -> None:
    table(tmp_path / "eng-kor.tsv")
    for name in ("SOURCE.md", "de-fr.tsv", "read-me.txt"):
        (tmp_path / name).write_text("x", "utf-8")
    assert [found.language for found in pairs.read([str(tmp_path)])] == ["kor"]
    with pytest.raises(DataError, match=r"there are: kor"):
        pairs.read([str(tmp_path)], ["fr"])


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="shared/data/par_tatoeba is not here")
def test_all_languages_of_xtreme_are_found_in_the_test_sets_of_laser() -> None:
    found = pairs.read([str(TATOEBA)], ["xtreme"])
    assert len(found) == 36
    counts = {one.language: len(one) for one in found}
    assert (counts["ko"], counts["sw"], counts["tl"]) == (1000, 390, 1000)
    assert not any(one.english_is_sorted for one in found)


def test_a_language_under_two_codes_is_not_counted_twice(tmp_path: Path) -> None:
    file = table(tmp_path / "eng-kor.tsv")
    with pytest.raises(RecipeError, match="'ko' and 'kor' are one language"):
        pairs.read([str(file)], ["ko", "kor"])
