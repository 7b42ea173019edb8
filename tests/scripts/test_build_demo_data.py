"""The demo's data is built right from small pages laid out as the Debian packages lay them out."""

import gzip
import json

from script_modules import load

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
        file.write_text(help_page(body), encoding="utf-8")


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
