"""What is published names one version everywhere.

The demo's data is built right from small pages laid out as the Debian packages lay them out.
FreeDict and StarDict dictionaries become the TSV that lexicons are read from.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from pathlib import Path
from typing import Any

import pytest
from script_modules import load

from lingraft.corpus import aligned

ROOT = Path(__file__).resolve().parents[2]
FILES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture(scope="module")
def release() -> Any:
    return load("check_release")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_repository_names_one_version_and_keeps_its_changelog(release: Any) -> None:
    assert release.problems() == []


def test_a_tag_needs_its_version_and_a_dated_heading(release: Any, copy: Path) -> None:
    told = "\n".join(release.problems(copy, "v9.0.0"))
    assert "tag v9.0.0: pyproject.toml has version" in told
    changes = copy / "CHANGELOG.md"
    version = told.split("version ")[1].split()[0]
    assert "heading" in "\n".join(release.problems(copy, f"v{version}"))
    text = changes.read_text("utf-8")
    dated = text.replace("### Added", f"## [{version}] - 2026-12-01\n\n### Added", 1)
    changes.write_text(dated, "utf-8")
    assert release.problems(copy, f"v{version}") == []


pages = load("documentation_pages")
demo = load("build_demo_data")


def help_page(body):
    return (
        '<html><head><title>No</title></head><body><aside>Menu</aside><div id="DisplayArea">'
        f'{body}</div><div id="SearchFrame"></div><footer><p id="par_id9">Debug</p></footer></body>'
    )


def write_help(folder, **bodies):
    for name, body in bodies.items():
        file = folder / "text" / "swriter" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(help_page(body), "utf-8")


def test_paragraphs_are_paired_by_id_whatever_their_order(tmp_path):
    english, korean = tmp_path / "en", tmp_path / "ko"
    write_help(english, a='<h1 id="hd_id1">Save</h1><p id="par_id2">Close it.</p>')
    write_help(korean, a='<p id="par_id2">닫습니다.</p><h1 id="hd_id1">저장</h1>')
    (row,) = demo.pair_rows(english, korean)
    assert row == {"id": "text/swriter/a", "text": "닫습니다.\n저장", "en": "Close it.\nSave"}


def test_the_committed_pages_are_aligned_sorted_and_korean():
    with gzip.open(demo.PAIRS_FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert [row["id"] for row in rows] == sorted({row["id"] for row in rows})
    for row in rows:
        pairs = zip(row["text"].split("\n"), row["en"].split("\n"), strict=True)
        assert all(demo.is_translated(*pair) for pair in pairs)


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
