"""The page of a corpus."""

import re
from pathlib import Path

from outlines import outline
from snapshots import check_page

from lingraft.report.pages import corpus as corpus_page
from lingraft.report.pages import sections

EVIL = "<script>alert(1)</script>"


def made(**changes):
    """What corpus.json holds, with something in every table."""
    result = {
        "language": "ko", "scripts": ["Hang"], "documents": 100, "sentences_in": 1000,
        "sources": [{"name": f"{EVIL[:-9]}.xml", "bytes": 5_000_000, "documents": 100}],
        "dropped": {"duplicate": 30, "redirect": 40, "near duplicate": 5, "wrong script": 70},
        "changed": {"e-mail address": 3}, "subset": {"not in the subset": 400},
        "widened": ["valid"], "notices": ["77% of the lines begin with a number"],
        "splits": {
            "train": {"documents": 40, "sentences": 450, "characters": 9000},
            "valid": {"documents": 5, "sentences": 30, "characters": 700},
            "test": {"documents": 4, "sentences": 20, "characters": 400},
        },
        # few letters: of a near-duplicate, which went as a whole
        "samples": {"duplicate": ["가나다"], "wrong script": [EVIL], "few letters": ["123"]},
        "languages": {"ko": 900, "en": 90} | {f"y{n}": 1 for n in range(30)},
        "lengths": {"1": 2, "16": 300, "32": 198}, "documents_by_sentences": {"8": 49},
        "letters_by_script": {"Hang": 8000, "Latn": 90}, "domains": {"a.kr": 7}, "parts": 3,
    }  # fmt: skip
    settings = {"near_duplicates": True, "scripts": None, "decontaminate": ["a", "b"]}
    return {"corpus": settings, "result": result | changes}


def test_the_page_of_a_corpus():
    text = corpus_page.render(made(), Path("my corpus"))
    check_page("corpus", re.sub(r"[\u00a0\u202f]", " ", text))
    assert "<script>" not in text


def test_the_funnels_lead_from_all_that_went_in_to_what_was_kept():
    for funnel in (sections.document_drops, sections.drops):
        rows = funnel(made()["result"]).rows
        first, *counts = (int(row.cells[1].text.replace(",", "")) for row in rows)
        assert first == sum(counts)


def test_what_was_not_looked_for_is_said():
    empty = made(languages={}, domains={}, changed={}, samples={}, dropped={}, widened=[])
    text = corpus_page.render(empty, Path("c"))
    outline(text)
    assert "Languages were not identified" in text
    for lacking in ("What was changed", "Hosts", "more held out"):
        assert lacking not in text
