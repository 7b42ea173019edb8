"""The page of a corpus."""

import re
from pathlib import Path

from snapshots import check_page

from lingraft.report.pages import corpus as corpus_page

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
        "letters_by_script": {"Hang": 8000, "Latn": 90}, "parts": 3,
    }  # fmt: skip
    settings = {"near_duplicates": True, "scripts": None, "decontaminate": ["a", "b"]}
    return {"corpus": settings, "result": result | changes}


def test_the_page_of_a_corpus():
    text = corpus_page.render(made(), Path("my corpus"))
    check_page("corpus", re.sub(r"[\u00a0\u202f]", " ", text))
    assert "<script>" not in text
