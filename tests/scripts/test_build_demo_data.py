"""The demo's data is built right from small pages laid out as the Debian packages lay them out."""

import bz2
import gzip
import json

import pytest
from script_modules import load

from lingraft.corpus.split import split_of

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


def test_code_listings_and_navigation_are_left_out():
    page = (
        "<nav>Next</nav><p>One.</p><pre>x = 1</pre><div class='toc x'><p>Two</p></div><p>Three.</p>"
    )
    assert texts(page) == ["One.", "Three."]


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


def test_the_committed_pages_are_aligned_sorted_and_korean():
    with gzip.open(demo.PAIRS_FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert [row["id"] for row in rows] == sorted({row["id"] for row in rows})
    for row in rows:
        pairs = zip(row["text"].split("\n"), row["en"].split("\n"), strict=True)
        assert all(demo.is_translated(*pair) for pair in pairs)
