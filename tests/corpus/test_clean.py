import time
import unicodedata

import numpy as np
import pytest

from lingraft.corpus.cleaning import clean
from lingraft.recipe import Corpus


def section(**changes: object) -> Corpus:
    return Corpus(text=("unused",), **changes)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  두   칸\t띄움　끝 ", "두 칸 띄움 끝"),
        ("널\x00 문자\x07", "널 문자"),
        ("soft\u00adhyphen", "softhyphen"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("\u202eright to left\u202c", "right to left"),
        (unicodedata.normalize("NFD", "한국어"), "한국어"),
        ("이름\u3164빈칸", "이름 빈칸"),
        ("half \ud83d surrogate", "half surrogate"),
        ("non\u00a0breaking", "non breaking"),
    ],
)
def test_normalisation_of(raw: str, expected: str):
    assert clean.normalise(raw) == expected


@pytest.mark.parametrize("text", ["می‌خواهم", "क्‍ष", "👩‍💻", "ᠬᠡᠯᠡ\u180eᠶᠢᠨ"])
def test_joiners_that_carry_meaning_are_kept(text: str):
    assert clean.normalise(text) == text


def test_normalising_twice_changes_nothing():
    generator = np.random.default_rng(0)
    pools = [range(0x500), range(0x1100, 0x1200), range(0x2000, 0x2100), range(0xD7B0, 0xE000)]
    pool = [chr(code) for codes in pools for code in codes]
    for _ in range(300):
        once = clean.normalise("".join(generator.choice(pool, 30)))
        assert clean.normalise(once) == once


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("굿", clean.TOO_SHORT),
        ("긴" * 41, clean.TOO_LONG),
        ("긴" * 40, clean.KEPT),
        ("깨진 \ufffd 글자", clean.DAMAGED),
        ("12345 67890 --", clean.FEW_LETTERS),
        ("An English sentence.", clean.WRONG_SCRIPT),
        ("한국어 문장입니다.", clean.KEPT),
        ("大韓民國", clean.KEPT),
        ("TYPE_COMMENT, COLONEQUAL이 추가되었습니다.", clean.KEPT),
    ],
)
def test_a_sentence_is_dropped_for_exactly(sentence: str, reason: str):
    codes = clean.reasons([sentence], section(max_characters=40), ("Hang", "Hani"))
    assert clean.REASONS[codes[0]] == reason


def test_a_long_run_of_combining_marks_is_cut_to_what_a_script_can_need():
    begin = time.process_time()
    cut = clean.normalise("a" + "\u0301\u0323" * 100_000 + " b")
    assert time.process_time() - begin < 10  # minutes, when the normal form is made of all of them
    assert cut == clean.normalise("a" + "\u0301\u0323" * 15 + " b")
    assert clean.normalise(cut) == cut
