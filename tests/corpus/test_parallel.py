import gzip
import json
import random
from pathlib import Path

import pytest

from lingraft.corpus.readers import parallel
from lingraft.corpus.readers.lines import Reading
from lingraft.corpus.readers.parallel import Layout
from lingraft.errors import DataError

LAYOUT = Layout("en", "ko")
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


def read(*names: Path | str, layout: Layout = LAYOUT) -> tuple[list[tuple[str, str]], Reading]:
    reading = Reading()
    return [(p.source, p.target) for p in parallel.read(names, layout, reading)], reading


def test_tsv_gives_the_columns_that_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("x\tone\t하나\nx\n\nx\ttwo\t둘\n".encode()))
    found, reading = read(path, layout=Layout("en", "ko", columns=(1, 2)))
    assert found == [("one", "하나"), ("two", "둘")]
    assert reading.dropped == {parallel.FEW_COLUMNS: 1}


def test_json_lines_give_both_languages_nested_or_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"translation": {"en": "one", "ko": "하나"}},
        {"en": "two", "ko": "둘", "de": "zwei"},
        {"en": "three", "ko": None},
        [1],
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n")
    found, reading = read(path)
    assert found == [("one", "하나"), ("two", "둘")]
    assert reading.dropped == {parallel.MISSING_LANGUAGE: 2, parallel.BROKEN_JSON: 1}


@pytest.mark.parametrize("name", ["corpus", "corpus.en", "corpus.ko"])
def test_moses_files_are_found_by_either_name_and_by_the_common_one(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "corpus.en").write_text("one\ntwo\n")
    (tmp_path / "corpus.ko").write_text("하나\n둘\n")
    assert read(tmp_path / name)[0] == [("one", "하나"), ("two", "둘")]


def test_files_that_are_named_twice_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "a.ko").write_text("하나\n")
    (tmp_path / "b.tsv").write_text("two\t둘\n")
    names = [tmp_path / name for name in ("a.en", "a.ko", "b.tsv", "./b.tsv")]
    found, reading = read(*names)
    assert found == [("one", "하나"), ("two", "둘")]
    assert reading.documents == 2
    assert len(parallel.files(names, LAYOUT)) == 3


@pytest.mark.parametrize(("english", "longer"), [("a\nb\n", "corpus.en"), ("", "corpus.ko")])
def test_moses_files_of_different_length_are_refused(
    tmp_path: Path, english: str, longer: str
) -> None:
    (tmp_path / "corpus.en").write_text(english)
    (tmp_path / "corpus.ko").write_text("하나\n")
    with pytest.raises(DataError, match=rf"{longer}: goes on after line"):
        read(tmp_path / "corpus")


def test_a_line_that_is_not_utf8_is_dropped_from_both_moses_files(tmp_path: Path) -> None:
    (tmp_path / "corpus.en").write_bytes(b"one\ntwo\n")
    (tmp_path / "corpus.ko").write_bytes(b"\xff\n" + "둘\n".encode())
    assert read(tmp_path / "corpus")[0] == [("two", "둘")]


@pytest.mark.parametrize("name", ["missing", "a.doc"])
def test_a_file_that_is_missing_or_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(DataError, match=name):
        read(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_tmx_gives_the_pairs_of_two_languages_in_any_encoding(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.tmx"
    path.write_bytes(TMX.format(encoding).encode(encoding))
    found, reading = read(path)
    assert found == [("A bold word", "굵은 낱말"), ("Second", "둘째")]
    assert reading.dropped == {parallel.MISSING_LANGUAGE: 1}


@pytest.mark.parametrize("asked", ["ko", "ko-kr", "ko_KR"])
@pytest.mark.parametrize("written", ["ko-KR", "ko_KR"])
def test_a_language_of_tmx_may_be_spelled_with_either_sign(
    tmp_path: Path, written: str, asked: str
) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(TMX.format("utf-8").replace("ko-KR", written).replace("KO", written))
    found, _ = read(path, layout=Layout("en", asked))
    assert found == [("A bold word", "굵은 낱말"), ("Second", "둘째")]


def test_an_entity_bomb_in_tmx_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 11))
    bomb = f'<!DOCTYPE tmx [<!ENTITY a0 "{"ha" * 999}">{entities}]><tmx><body>&a10;</body></tmx>'
    path.write_text(bomb)
    with pytest.raises(DataError, match="amplification"):
        read(path)


def test_a_tmx_file_cut_short_gives_its_units_before_the_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(TMX.format("utf-8")[:-14])
    units = parallel.read([path], LAYOUT, Reading())
    assert [next(units).source, next(units).source] == ["A bold word", "Second"]
    with pytest.raises(DataError, match="cut short"):
        next(units)


def test_tmx_of_other_bytes_raises_nothing_but_a_data_error(tmp_path: Path) -> None:
    rng = random.Random(0)
    whole = TMX.format("utf-8").encode()
    path = tmp_path / "a.tmx"
    refusals = []
    for _ in range(200):
        data = bytearray(whole[: rng.randrange(1, len(whole))] if rng.random() < 0.3 else whole)
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            read(path)
        except DataError as error:
            refusals.append(str(error))
    assert 50 < len(refusals) < 200
    assert not any("\n" in message for message in refusals)
