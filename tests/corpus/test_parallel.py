import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from lingraft.corpus import aligned, pairs
from lingraft.corpus.pairs import Checker, Pair
from lingraft.corpus.readers import parallel
from lingraft.corpus.readers.lines import BROKEN_JSON, Counts
from lingraft.errors import DataError

TMX = """<?xml version="1.0" encoding="{0}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu tuid="1"><tuv xml:lang="en-US">
<seg>A <bpt i="1">&lt;b></bpt>bold<ept i="1">&lt;/b></ept> word</seg></tuv>
<tuv xml:lang="KO"><seg>굵은 낱말</seg></tuv></tu>
<tu><tuv lang="en"><seg>Only &amp; English</seg></tuv></tu>
<tu><tuv xml:lang="ko-KR"><seg>둘째</seg></tuv><tuv xml:lang="en"><seg>Second</seg></tuv></tu>
</body></tmx>
"""
TWO = [("one", "하나"), ("two", "둘")]


def read(
    *names: Path | str, target: str = "ko", columns: tuple[int, int] = (0, 1)
) -> tuple[list[tuple[str, str]], Counts]:
    reading = Counts()
    found = parallel.read(names, ("en", target), reading, columns)
    return [(pair.source, pair.target) for pair in found], reading


def test_tsv_gives_the_columns_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("x\tone\t하나\nx\n\nx\ttwo\t둘\n".encode()))
    found, reading = read(path, columns=(1, 2))
    assert found == TWO
    assert reading.dropped == {parallel.FEW_COLUMNS: 1}


def test_json_lines_give_both_languages_nested_or_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"translation": {"en": "one", "ko": "하나"}}, {"en": "two", "ko": "둘", "de": "zwei"}]
    broken = ['{"en": "three", "ko": null}', "[1]", "{"]
    path.write_text("\n".join([*map(json.dumps, rows), *broken]))
    found, reading = read(path)
    assert found == TWO
    assert reading.dropped == {parallel.MISSING_LANGUAGE: 2, BROKEN_JSON: 1}


def test_moses_files_are_found_by_any_of_their_names_and_read_once(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_text("one\nbad\ntwo\n")
    (tmp_path / "corpus.ko").write_bytes("하나\n".encode() + b"\xff\n" + "둘\n".encode())
    names = [tmp_path / name for name in ("corpus", "corpus.en", "./corpus.ko")]
    for name in names:
        assert read(name)[0] == TWO
    assert read(*names)[0] == TWO
    assert len(parallel.files(names, ("en", "ko"))) == 2
    (tmp_path / "corpus.en").write_text("one\n")
    with pytest.raises(DataError, match=r"corpus\.en, corpus\.ko: one ends after line 1"):
        read(tmp_path / "corpus")


@pytest.mark.parametrize("name", ["missing", "a.doc"])
def test_a_file_that_is_missing_or_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(DataError, match=name):
        read(tmp_path / name)


@pytest.mark.parametrize(("encoding", "asked"), [("utf-8", "ko_KR"), ("utf-16", "ko")])
def test_tmx_gives_the_pairs_of_two_languages_in_any_encoding_and_form(
    tmp_path: Path, encoding: str, asked: str
) -> None:
    text = TMX.format(encoding).replace('"KO"', f'"{asked}"')
    (tmp_path / "a.tmx").write_bytes(text.encode(encoding))
    found, reading = read(tmp_path / "a.tmx", target=asked)
    assert found == [("A bold word", "굵은 낱말"), ("Second", "둘째")]
    assert reading.dropped == {parallel.MISSING_LANGUAGE: 1}


def test_an_entity_bomb_in_tmx_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11))
    bomb = f'<!DOCTYPE tmx [<!ENTITY a0 "{"ha" * 999}">{entities}]><tmx><body>&a10;</body></tmx>'
    path.write_text(bomb)
    with pytest.raises(DataError, match="amplification"):
        read(path)


GOOD = Pair("고양이가 잔다.", "The cat sleeps.")
LONG = "The cat sleeps on the warm stove in the old kitchen of the house all day."


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("The cat.", "\u200b ", pairs.EMPTY),
        ("File", "file", pairs.IDENTICAL),
        ("The cat sleeps." * 400, "고양이가 잔다." * 400, pairs.TOO_LONG),
        (LONG, "응", pairs.LENGTH_RATIO),
        ("고양이", "고양이가 잔다.", pairs.WRONG_SCRIPT_SOURCE),
        ("The cat", "The dog", pairs.WRONG_SCRIPT_TARGET),
        ("le chat", "고양이", pairs.FOREIGN_SOURCE),
        ("The  cat sleeps. ", "고양이가 잔다.", pairs.DUPLICATE),
        ("Good morning, sir.", "안녕", None),
        ("The cat sleeps.", "괭이가 잔다.", None),
    ],
)
def test_a_bad_pair_is_dropped_with_its_reason(source, target, reason) -> None:
    checker = Checker(("Latn",), ("Hang",))
    checker.source_foreign = lambda texts: np.array([text.startswith("le") for text in texts])
    found = list(checker.check([GOOD, Pair(target, source)]))
    assert found == [GOOD] + [Pair(target, source)] * (reason is None)
    assert checker.dropped == ({} if reason is None else {reason: 1})


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    assert pairs.write_tsv([GOOD, Pair("가\n나", "a\tb")], path) == 2
    assert read(path, columns=(1, 0))[0] == [(GOOD.source, GOOD.target), ("a b", "가 나")]
    with pytest.raises(DataError, match="no pair is left"):
        pairs.write_tsv([], path)
    assert [file.name for file in tmp_path.iterdir()] == ["a.tsv"]
    assert path.read_text()


@pytest.mark.parametrize(("name", "gap"), [("a.txt", " "), ("a.tsv.xz", "\t")])
def test_words_are_parted_by_a_space_or_a_tab(tmp_path: Path, name: str, gap: str) -> None:
    path = tmp_path / name
    rows = ["개|dog", "개|hound", "개|dog", "", "하나|둘|셋"]
    rows += ["말|\u200b", f"개|{'x' * 101}", "말|hor\ufffde"]
    data = "\n".join(rows).replace("|", gap).encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    found = aligned.read_lexicon([path])
    assert found.pairs == [("개", "dog"), ("개", "hound")]
    assert found.translations == {"개": ["dog", "hound"]}
    reasons = (aligned.DUPLICATE, aligned.NOT_TWO_COLUMNS, aligned.EMPTY)
    assert found.dropped == dict.fromkeys((*reasons, aligned.TOO_LONG, aligned.DAMAGED), 1)


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("one two three\n")
    with pytest.raises(DataError, match="holds no pair of words"):
        aligned.read_lexicon([path])
