"""The demo's data is built right from small pages laid out as the Debian packages lay them out."""

import bz2
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from script_modules import load

from lingraft.corpus.split import split_of
from lingraft.errors import DataError

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


pages = load("documentation_pages")
demo = load("build_demo_data")


def texts(page, **options):
    return [block.text for block in pages.read_blocks(page, **options)]


def help_page(body):
    return (
        '<html><head><title>No</title></head><body><aside>Menu</aside><div id="DisplayArea">'
        f'{body}</div><div id="SearchFrame"></div><footer><p id="par_id9">Debug</p></footer></body>'
    )


def write_help(folder, **bodies):
    for name, body in bodies.items():
        file = folder / "text" / "swriter" / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(help_page(body), encoding="utf-8")


def test_inline_tags_are_kept_as_text_and_entities_decoded():
    page = "<p>Choose\n <b>File &gt; Save</b>, then <a href=x>&quot;OK&quot;</a>.</p>"
    assert texts(page) == ['Choose File > Save, then "OK".']


def test_code_listings_and_navigation_are_left_out():
    page = (
        "<nav>Next</nav><p>One.</p><pre>x = 1</pre><div class='toc x'><p>Two</p></div><p>Three.</p>"
    )
    assert texts(page) == ["One.", "Three."]


def test_a_line_break_is_a_space_and_unclosed_paragraphs_are_apart():
    assert texts("<p>One<br>two<p>three") == ["One two", "three"]


def test_an_icon_or_an_index_entry_inside_a_paragraph_does_not_split_it():
    assert texts("<p>Click <img src=x> to close.</p>") == ["Click to close."]
    page = "<para>Click<indexterm><primary>no</primary></indexterm> to close.</para>"
    assert texts(page, xml=True) == ["Click to close."]


def test_text_after_a_skipped_element_with_a_void_tag_inside_is_read():
    assert texts("<header><img src=x><p>Logo</p></header><p>Text</p>") == ["Text"]


def test_the_default_wording_of_a_switch_is_read():
    page = (
        "<p>Press <span class='switchinline' id='s'><span class='MAC' id='m'>Command</span>"
        "<span id='d'>Ctrl</span></span>+P now.</p>"
    )
    assert texts(page) == ["Press Ctrl+P now."]


def test_the_first_wording_of_a_switch_without_default_is_read():
    page = (
        "<p>Choose <span class='switchinline'><span class='WRITER'><b>Format</b></span>"
        "<span class='CALC'>View</span></span>.</p>"
    )
    assert texts(page) == ["Choose Format."]


def test_mallard_menus_and_keys_are_separated():
    page = (
        "<page><info><desc>no</desc></info><p>Use <guiseq><gui>Edit</gui> <gui>Copy</gui></guiseq>"
        " or <keyseq><key>Ctrl</key><key>C</key></keyseq>.</p></page>"
    )
    assert texts(page, xml=True) == ["Use Edit - Copy or Ctrl+C."]


def test_docbook_entities_of_the_page_are_filled_in():
    page = '<!DOCTYPE a [<!ENTITY app "Gnumeric">]><para>Start &app; with <link>this</link>.</para>'
    assert texts(page, xml=True) == ["Start Gnumeric with this."]


def test_paragraphs_are_paired_by_id_whatever_their_order(tmp_path):
    english, korean = tmp_path / "en", tmp_path / "ko"
    write_help(english, a='<h1 id="hd_id1">Save</h1><p id="par_id2">Close it.</p>')
    write_help(korean, a='<p id="par_id2">닫습니다.</p><h1 id="hd_id1">저장</h1>')
    (row,) = demo.pair_rows(english, korean)
    assert row == {"id": "text/swriter/a", "text": "닫습니다.\n저장", "en": "Close it.\nSave"}


def test_ids_that_repeat_are_paired_only_where_both_pages_have_the_same_order(tmp_path):
    english, korean = tmp_path / "en", tmp_path / "ko"
    first, second = '<p id="par_id1">{}</p>', '<p id="par_id1">{}</p><p id="par_id2">{}</p>'
    write_help(english, a=(first + second).format("One", "Two", "Three"))
    write_help(korean, a=(first + second).format("하나", "둘", "셋"))
    write_help(english, b=(second + first).format("Two", "Three", "One"))
    write_help(korean, b=(first + second).format("하나", "둘", "셋"))
    rows = {row["id"][-1]: row["en"].split("\n") for row in demo.pair_rows(english, korean)}
    assert rows == {"a": ["One", "Two", "Three"], "b": ["Three"]}


def test_code_and_text_outside_the_page_body_are_not_paired(tmp_path):
    body = '<p id="par_id1" class="code">{}</p><p id="par_id2">{}</p><p>{}</p>'
    write_help(tmp_path / "en", a=body.format("x", "Text", "No id"))
    write_help(tmp_path / "ko", a=body.format("엑스", "본문", "없음"))
    (row,) = demo.pair_rows(tmp_path / "en", tmp_path / "ko")
    assert row["text"] == "본문"


def test_a_paragraph_stands_once_in_a_page_and_again_in_another(tmp_path):
    body = '<p id="par_id1">{0}</p><p id="par_id2">{0}</p>'
    for name in "ab":
        write_help(tmp_path / "en", **{name: body.format("Text")})
        write_help(tmp_path / "ko", **{name: body.format("본문")})
    assert [row["text"] for row in demo.pair_rows(tmp_path / "en", tmp_path / "ko")] == ["본문"] * 2


@pytest.mark.parametrize(
    ("korean", "english", "kept"),
    [
        ("파일을 저장합니다.", "Saves the file.", True),
        ("LibreOffice Math 예", "LibreOffice Math Examples", True),
        ("Saves the file.", "Saves the file.", False),
        ("= A1 + B1", "=A1+B1", False),
        ("Shows facts about the current document. 기본입니다.", "Shows …", False),
        (
            "<SDFIELD TYPE=DOCINFO>설명</SDFIELD>",
            "<SDFIELD TYPE=DOCINFO>Description</SDFIELD>",
            False,
        ),
    ],
)
def test_only_translated_paragraphs_are_kept(korean, english, kept):
    assert demo.is_translated(korean, english) is kept


def test_the_same_rows_give_the_same_bytes(tmp_path, monkeypatch):
    rows = [{"id": "a", "text": "본문", "en": "Text"}]
    demo.write_pairs(rows, tmp_path / "one.gz")
    monkeypatch.setattr("time.time", lambda: 1e9)
    demo.write_pairs(rows, tmp_path / "two.gz")
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mail Merge", None),
        ("You can restart the service and force it to read its configuration file again.", None),
        ("Options", "length"),
        ("3.14 2.71 1.41 1.73 = 4 5", "symbols"),
        ("$ apt-get update", "symbols"),
        ("static struct foo_bar get_value(void)", "code"),
        ("Install &kate; with care", "entity"),
        ("저장합니다 그리고 닫습니다", "not English"),
        ("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo", "no sentence"),
    ],
)
def test_paragraphs_that_are_not_prose_are_dropped_with_a_reason(text, reason):
    assert pages.drop_reason(text) == reason


def help_ids(side, count):
    names = (f"p{number}" for number in range(10_000))
    chosen = (name for name in names if split_of(f"text/swriter/{name}", 0, 0.05, 0.1) == side)
    return [next(chosen) for _ in range(count)]


def english_sources(tmp_path):
    help_root, other_root = tmp_path / "help", tmp_path / "other"
    (train,), (test,), (valid,) = (help_ids(side, 1) for side in ("train", "test", "valid"))
    body = '<p id="par_id1">{}</p><p id="par_id2">{}</p>'
    bodies = {
        train: body.format("Shared by two pages.", "Only in the train page."),
        test: body.format("Shared by two pages.", "Only in the test page."),
        valid: body.format("Only in the valid page.", "More of the valid page."),
    }
    write_help(help_root / "en", **bodies)
    other_root.mkdir()
    page = (
        "<p>ONLY IN the test page.</p><p>The other package has this.</p>"
        "<p>Only in the train page.</p>"
    )
    (other_root / "a.cache.bz2").write_bytes(bz2.compress(f"<FILENAME filename=i>{page}".encode()))
    sources = [
        demo.Source("libreoffice-help-en-us", "help", "MPL-2.0", ["en"]),
        demo.Source("other", "kde", "GPL-2", ["*.bz2"]),
    ]
    return [
        (source, demo.Package(source.name, "1", root))
        for source, root in zip(sources, (help_root, other_root), strict=True)
    ]


def test_held_out_pages_and_their_paragraphs_stay_out_of_the_english_text(tmp_path):
    demo.write_english(english_sources(tmp_path), tmp_path / "out")
    lines = (tmp_path / "out/english.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [text for line in lines for text in json.loads(line)["text"].split("\n")]
    assert kept == ["Only in the train page.", "The other package has this."]


def test_what_is_dropped_from_the_english_text_is_counted_by_package(tmp_path):
    tallies = demo.write_english(english_sources(tmp_path), tmp_path / "out")
    assert tallies["other"].dropped == {"held-out paragraph": 1, "duplicate": 1}
    assert tallies["libreoffice-help-en-us"].dropped == {
        "held-out page": 4,
        "held-out paragraph": 1,
    }
    assert (tallies["other"].paragraphs, tallies["other"].words) == (1, 5)


def test_a_package_none_of_whose_files_match_is_an_error(tmp_path):
    source = demo.Source("other", "html", "GPL-2", ["*.html"])
    with pytest.raises(DataError, match=r"^other: no file matches \*\.html; .*$"):
        list(demo.source_pages(source, tmp_path))


def test_a_package_without_help_pages_is_an_error(tmp_path):
    with pytest.raises(DataError, match="has no help pages"):
        list(demo.help_pages(tmp_path))


def test_a_missing_tool_is_one_line_and_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "build_demo_data.py"), "--debs", str(tmp_path)],
        env={"PATH": str(tmp_path), "PYTHONPATH": str(SCRIPTS.parent / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: apt-get: is not installed; run this script on Debian or Ubuntu\n"


def test_the_committed_pages_are_aligned_sorted_and_korean():
    with gzip.open(demo.PAIRS_FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert [row["id"] for row in rows] == sorted({row["id"] for row in rows})
    for row in rows:
        pairs = zip(row["text"].split("\n"), row["en"].split("\n"), strict=True)
        assert all(demo.is_translated(*pair) for pair in pairs)


def test_every_english_source_is_described_in_full_and_stands_once():
    listed = demo.tomllib.loads(demo.SOURCES_FILE.read_text(encoding="utf-8"))["package"]
    sources = [demo.Source(**entry) for entry in listed]
    assert len({source.name for source in sources}) == len(sources)
    assert {source.form for source in sources} == {"help", "html", "xml", "kde"}
    assert all(source.licence and source.files for source in sources)
