"""The text of the MetaXLM demo is built right from small pages laid out as the packages do it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from script_modules import load

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


build = load("build_multilingual_data")


def write_page(folder, name, **paragraphs):
    file = folder / "text" / f"{name}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(f'<p id="{key}">{text}</p>' for key, text in paragraphs.items())
    file.write_text(
        f'<html><body><div id="DisplayArea">{body}</div><div id="SearchFrame"></div></body></html>',
        encoding="utf-8",
    )


def test_translated_paragraphs_of_the_chosen_pages_are_taken(tmp_path):
    english, german = tmp_path / "en", tmp_path / "de"
    for name in ("one", "two"):
        write_page(english, name, par_1="Opens the file.", par_2="OK", par_3="A name.")
        write_page(german, name, par_1="Öffnet die Datei.", par_2="OK", par_4="Nur deutsch.")
    rows = list(build.rows(english, german, "de", {"text/one"}))
    assert rows == [{"id": "text/one", "lang": "de", "text": "Öffnet die Datei."}]


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ("Öffnet die Datei. Das dauert.", True),
        ("Opens the file that you name. It takes a while.", False),
        ("Öffnet die Datei. It takes a little while.", False),
        ("Öffnet die Datei. OK.", True),
        ("Öffnet </EMPH> die Datei.", False),
    ],
)
def test_a_paragraph_with_an_english_sentence_left_in_it_is_no_translation(text, is_good):
    english = "Opens the file that you name. It takes a little while. OK."
    assert build.is_translated(text, english) is is_good


def test_the_file_that_ships_holds_pages_of_the_korean_demo_in_three_languages():
    with gzip.open(build.SEVERAL_FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    assert {row["lang"] for row in rows} == set(build.LANGUAGES)
    assert {row["id"] for row in rows} == build.chosen_pages()
    assert len({(row["id"], row["lang"]) for row in rows}) == len(rows) > 3_000
