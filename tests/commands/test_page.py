import re
from pathlib import Path

from outlines import outline

from lingraft.report.pages import corpus as corpus_page
from lingraft.report.pages import sections

EVIL = "<script>alert(1)</script>"


def made(**changes):
    """What corpus.json holds, with something in every table."""
    result = {
        "language": "ko", "scripts": ["Hang"], "documents": 100, "sentences_in": 1000,
        "sources": [{"name": f"{EVIL}.xml", "bytes": 5_000_000, "documents": 100}],
        "dropped": {"duplicate": 30, "redirect": 40, "near duplicate": 5, "wrong script": 70},
        "changed": {"e-mail address": 3}, "subset": {"not in the subset": 400},
        "widened": ["valid"],
        "splits": {
            "train": {"documents": 40, "sentences": 450, "characters": 9000},
            "valid": {"documents": 5, "sentences": 30, "characters": 700},
            "test": {"documents": 4, "sentences": 20, "characters": 400},
        },
        "samples": {"duplicate": ["가나다"], "wrong script": [EVIL, "English"]},
        "languages": {"ko": 900, "en": 90} | {f"y{n}": 1 for n in range(30)},
        "lengths": {"1": 2, "16": 300, "32": 198}, "documents_by_sentences": {"8": 49},
        "letters_by_script": {"Hang": 8000, "Latn": 90}, "domains": {"a.kr": 7}, "parts": 3,
    }  # fmt: skip
    settings = {"near_duplicates": True, "scripts": None, "decontaminate": ["a", "b"]}
    return {"corpus": settings, "result": result | changes}


def plain(text):
    """With ordinary spaces between numbers and units."""
    return re.sub(r"[\u00a0\u202f]", " ", text)


def page_of(result):
    return corpus_page.render(result, Path("my corpus"))


def test_the_page_nests_asks_for_nothing_from_outside_and_runs_nothing():
    text = page_of(made())
    found = outline(text)
    assert not found.tags & {"script", "link", "iframe", "img"}
    assert not re.search(r"url\(|@import|https?://", text)
    assert EVIL not in text
    assert text.count("&lt;script&gt;") == 2


def texts(row):
    return tuple(cell.text for cell in row.cells)


def test_the_funnels_lead_from_all_that_went_in_to_what_was_kept():
    documents = sections.document_drops(made()["result"])
    assert [(*texts(row)[:2], row.cells[-1].width) for row in documents.rows] == [
        ("went in", "100", 100.0), ("redirect", "40", 40.0), ("no sentence was left", "6", 6.0),
        ("near duplicate", "5", 5.0), ("kept", "49", 49.0),
    ]  # fmt: skip
    sentences = sections.drops(made()["result"])
    assert [texts(row)[:2] for row in sentences.rows] == [
        ("went in", "1,000"), ("not in the subset", "400"), ("wrong script", "70"),
        ("duplicate", "30"), ("kept", "500"),
    ]  # fmt: skip


def test_what_is_noticed_of_the_text_stands_on_the_page():
    assert "77% of the lines" in page_of(made(notices=["77% of the lines begin with a number"]))


def test_samples_stand_under_their_reason_the_most_frequent_first():
    assert [(sample.reason, sample.count) for sample in corpus_page.samples(made()["result"])] == [
        ("wrong script", "70 sentences"), ("duplicate", "30 sentences"),
    ]  # fmt: skip
    assert "Counted, but not shown: redirect, near duplicate." in page_of(made())


def test_what_was_found_in_documents_that_went_as_a_whole_is_no_sample():
    data = made()
    data["result"]["samples"]["few letters"] = ["123"]  # of a near-duplicate
    assert [sample.reason for sample in corpus_page.samples(data["result"])] == [
        "wrong script",
        "duplicate",
    ]


def test_tables_show_sources_hosts_languages_lengths_scripts_and_settings():
    rows = [row[:2] for row in outline(plain(page_of(made()))).rows]
    for row in (
        [f"{EVIL}.xml", "5 MB"], ["a.kr", "7"], ["ko", "900"], ["16 – 31", "300"],
        ["1", "2"], ["Latn", "90"], ["near_duplicates", "yes"], ["scripts", "–"],
        ["decontaminate", "a, b"], ["e-mail address", "3"],
    ):  # fmt: skip
        assert row in rows, row
    assert "12 more languages" in page_of(made())


def test_the_page_says_where_more_is_held_out_than_the_shares_give():
    said = "more held out than the shares give"
    assert said in page_of(made())
    assert said not in page_of(made(widened=[]))


def test_what_was_not_looked_for_is_said():
    text = page_of(made(languages={}, domains={}, changed={}, samples={}, dropped={}))
    outline(text)
    assert "Languages were not identified" in text
    assert "What was changed" not in text
    assert "Hosts" not in text
