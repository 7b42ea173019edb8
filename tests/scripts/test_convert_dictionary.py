"""FreeDict and StarDict dictionaries become the TSV that lexicons are read from."""

import lzma

import pytest
from script_modules import load

from lingraft.corpus import aligned

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


def converted(path):
    out = path.with_name("out.tsv")
    script.convert(path, out)
    return aligned.read_lexicon([out]).translations


@pytest.mark.parametrize("name", ["kor-eng.tei", "kor-eng.tei.xz"])
def test_freedict_gives_translations_but_not_those_of_examples(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(lzma.compress(TEI.encode()) if path.suffix == ".xz" else TEI.encode())
    assert converted(path) == {"집": ["house", "home"], "가옥": ["house", "home"], "개": ["dog"]}
