import gzip
import lzma
import random
import struct
from pathlib import Path

import pytest

from lingraft.corpus import lexicon
from lingraft.corpus.readers import freedict, stardict
from lingraft.errors import DataError

TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body>
<entry><form><orth>집</orth><orth>가옥</orth><pron>tɕip</pron></form>
<sense><cit type="trans"><quote>house</quote></cit>
<cit type="trans"><quote>home</quote></cit>
<cit type="example"><quote>큰 집</quote><cit type="trans"><quote>a big house</quote></cit></cit>
</sense></entry>
<entry><form><orth>빈말</orth></form><sense><def>empty words</def></sense></entry>
</body></text></TEI>
"""
ARTICLES = {
    "개": "/kɛ/ n.\n1. dog (animal); hound\n2. an explanation of far more than four words",
    "말": "horse, language",
    "빈말": "",
}


def write_stardict(
    folder: Path, *, types: str = "sametypesequence=m\n", wide: bool = False, packed: bool = False
) -> Path:
    data, index = b"", b""
    for word, text in ARTICLES.items():
        article = text.encode() if types else b"t" + b"kae\0" + b"m" + text.encode() + b"\0"
        index += (
            word.encode() + b"\0" + struct.pack(">QI" if wide else ">II", len(data), len(article))
        )
        data += article
    path = folder / "ko-en.ifo"
    bits = "idxoffsetbits=64\n" if wide else ""
    path.write_text(f"{stardict.MAGIC}\nversion=3.0.0\nwordcount=3\n{bits}{types}")
    (folder / "ko-en.idx").write_bytes(index)
    name = "ko-en.dict.dz" if packed else "ko-en.dict"
    (folder / name).write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.tsv.xz"])
@pytest.mark.parametrize("gap", [" ", "\t"])
def test_words_are_parted_by_a_space_or_a_tab(tmp_path: Path, name: str, gap: str) -> None:
    path = tmp_path / name
    data = f"개{gap}dog\n개{gap}hound\n개{gap}dog\n\n하나 둘 셋\n".encode()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    found = lexicon.read([path])
    assert found.pairs == [("개", "dog"), ("개", "hound")]
    assert found.translations == {"개": ["dog", "hound"]}
    assert found.dropped == {lexicon.DUPLICATE: 1, lexicon.NOT_TWO_COLUMNS: 1}


def test_translations_keep_the_order_of_the_files_each_once() -> None:
    found = lexicon.Lexicon.of([("a", "x"), ("b", "y"), ("a", "z"), ("a", "x")])
    assert found.translations == {"a": ["x", "z"], "b": ["y"]}
    assert found.dropped == {"duplicate": 1}


def test_a_tab_leaves_phrases_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("ice cream\t아이스 크림\n")
    assert lexicon.read([path], swap=True).pairs == [("아이스 크림", "ice cream")]


def test_columns_choose_among_several(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("n\t개\tdog\nn\t말\n")
    found = lexicon.read([path], columns=(1, 2))
    assert found.pairs == [("개", "dog")]
    assert found.dropped == {lexicon.NOT_TWO_COLUMNS: 1}


def test_empty_long_and_damaged_words_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"개\tdog\n말\t\u200b\n개\t{'x' * 101}\n말\thor\ufffde\n")
    found = lexicon.read([path])
    assert found.pairs == [("개", "dog")]
    assert found.dropped == {lexicon.EMPTY: 1, lexicon.TOO_LONG: 1, lexicon.DAMAGED: 1}


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("one two three\n")
    with pytest.raises(DataError, match="holds no pair of words"):
        lexicon.read([path])
    with pytest.raises(DataError, match="no such file"):
        lexicon.read([tmp_path / "b.tsv"])


def test_freedict_gives_translations_but_not_those_of_examples(tmp_path: Path) -> None:
    path = tmp_path / "kor-eng.tei"
    path.write_text(TEI)
    found = lexicon.read([path])
    assert found.translations == {"집": ["house", "home"], "가옥": ["house", "home"]}
    assert found.dropped == {freedict.NO_TRANSLATION: 1}


def test_an_entity_bomb_in_freedict_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tei"
    path.write_text('<!DOCTYPE TEI [<!ENTITY a "ha">]><TEI>&a;</TEI>')
    with pytest.raises(DataError, match="declares the XML entity"):
        lexicon.read([path])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("types", ["sametypesequence=m\n", ""])
def test_stardict_gives_the_translations_of_its_articles(
    tmp_path: Path, wide: bool, packed: bool, types: str
) -> None:
    path = write_stardict(tmp_path, types=types, wide=wide, packed=packed)
    found = lexicon.read([path])
    assert found.translations == {"개": ["dog", "hound"], "말": ["horse", "language"]}
    assert found.dropped == {stardict.NO_TRANSLATION: 1}


def test_stardict_html_loses_its_tags_and_grammar() -> None:
    text = "<k>Haus</k><br><i>n</i> <b>house</b>; home &amp; hearth<br>Haus"
    assert stardict.translations(text, "h", "Haus") == ["house", "home & hearth"]


def test_a_stardict_dictionary_without_its_index_is_refused(tmp_path: Path) -> None:
    path = write_stardict(tmp_path)
    path.with_suffix(".idx").unlink()
    with pytest.raises(DataError, match=r"ko-en\.idx: no such file"):
        lexicon.read([path])


def test_a_dictzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_stardict(tmp_path, packed=True)
    monkeypatch.setattr(stardict, "MAX_FILE_BYTES", 60)
    with pytest.raises(DataError, match="more than 60 bytes"):
        lexicon.read([path])


@pytest.mark.parametrize("kind", ["ko-en.idx", "ko-en.dict", "ko-en.dict.dz", "ko-en.ifo", "a.tei"])
def test_dictionaries_of_other_bytes_raise_nothing_but_a_data_error(
    tmp_path: Path, kind: str
) -> None:
    path = write_stardict(tmp_path, types="", packed=kind.endswith(".dz"))
    if kind == "a.tei":
        path = tmp_path / kind
        path.write_text(TEI)
    victim = tmp_path / kind
    whole = victim.read_bytes()
    rng = random.Random(0)
    refusals = []
    for _ in range(80):
        data = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.5 else whole)
        for _ in range(3):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        victim.write_bytes(data)
        try:
            lexicon.read([path])
        except DataError as error:
            refusals.append(str(error))
    assert refusals
    assert not any("\n" in message for message in refusals)
