import lzma
from pathlib import Path

import pytest

from lingraft.corpus import aligned
from lingraft.errors import DataError


@pytest.mark.parametrize("name", ["a.txt", "a.tsv.xz"])
@pytest.mark.parametrize("gap", [" ", "\t"])
def test_words_are_parted_by_a_space_or_a_tab(tmp_path: Path, name: str, gap: str) -> None:
    path = tmp_path / name
    data = f"개{gap}dog\n개{gap}hound\n개{gap}dog\n\n하나 둘 셋\n".encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    found = aligned.read_lexicon([path])
    assert found.pairs == [("개", "dog"), ("개", "hound")]
    assert found.translations == {"개": ["dog", "hound"]}
    assert found.dropped == {aligned.DUPLICATE: 1, aligned.NOT_TWO_COLUMNS: 1}


def test_empty_long_and_damaged_words_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"개\tdog\n말\t\u200b\n개\t{'x' * 101}\n말\thor\ufffde\n")
    found = aligned.read_lexicon([path])
    assert found.pairs == [("개", "dog")]
    assert found.dropped == {aligned.EMPTY: 1, aligned.TOO_LONG: 1, aligned.DAMAGED: 1}


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("one two three\n")
    with pytest.raises(DataError, match="holds no pair of words"):
        aligned.read_lexicon([path])
    with pytest.raises(DataError, match="cannot be read"):
        aligned.read_lexicon([tmp_path / "b.tsv"])
