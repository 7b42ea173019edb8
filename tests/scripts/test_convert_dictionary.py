"""FreeDict and StarDict dictionaries become the TSV that lexicons are read from."""

import gzip
import lzma
import struct

import pytest
from script_modules import load

from lingraft.corpus import lexicon

script = load("convert_dictionary")

TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body>
<entry><form><orth>집</orth><orth>가옥</orth><pron>tɕip</pron></form>
<sense><cit type="trans"><quote>house</quote></cit>
<cit type="trans"><quote>home</quote></cit>
<cit type="example"><quote>큰 집</quote><cit type="trans"><quote>a big house</quote></cit></cit>
</sense></entry>
<entry><form><orth>빈말</orth></form><sense><def>empty words</def></sense></entry>
<entry><form><orth>개</orth></form><trans><tr>dog</tr></trans></entry>
</body></text></TEI>
"""
ARTICLES = {
    "개": "/kɛ/ n.\n1. dog (animal); hound\n2. an explanation of far more than four words",
    "말": "horse, language",
    "빈말": "",
}


def converted(path):
    out = path.with_name("out.tsv")
    script.convert(path, out)
    return lexicon.read([out]).translations


def write_stardict(folder, *, types="sametypesequence=m\n", wide=False, packed=False):
    data, index = b"", b""
    for word, text in ARTICLES.items():
        article = text.encode() if types else b"t" + b"kae\0" + b"m" + text.encode() + b"\0"
        index += (
            word.encode() + b"\0" + struct.pack(">QI" if wide else ">II", len(data), len(article))
        )
        data += article
    path = folder / "ko-en.ifo"
    bits = "idxoffsetbits=64\n" if wide else ""
    path.write_text(f"StarDict's dict ifo file\nversion=3.0.0\nwordcount=3\n{bits}{types}")
    (folder / "ko-en.idx").write_bytes(index)
    name = "ko-en.dict.dz" if packed else "ko-en.dict"
    (folder / name).write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("name", ["kor-eng.tei", "kor-eng.tei.xz"])
def test_freedict_gives_translations_but_not_those_of_examples(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(lzma.compress(TEI.encode()) if path.suffix == ".xz" else TEI.encode())
    assert converted(path) == {"집": ["house", "home"], "가옥": ["house", "home"], "개": ["dog"]}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("types", ["sametypesequence=m\n", ""])
def test_stardict_gives_the_translations_of_its_articles(tmp_path, wide, packed, types):
    path = write_stardict(tmp_path, types=types, wide=wide, packed=packed)
    assert converted(path) == {"개": ["dog", "hound"], "말": ["horse", "language"]}
