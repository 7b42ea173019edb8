"""The form of text, its sentences and scripts, and what of it an evaluation holds."""

import json
import logging
import random
import textwrap
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import regex

from lingraft.corpus.cleaning import clean, scripts
from lingraft.corpus.cleaning.clean import segment, splitter
from lingraft.corpus.cleaning.decontamination import Evaluations, texts_of
from lingraft.errors import RecipeError
from lingraft.recipe import Corpus


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
        # joiners that carry meaning are kept
        *((text, text) for text in ("می‌خواهم", "क्‍ष", "👩‍💻", "ᠬᠡᠯᠡ\u180eᠶᠢᠨ")),
    ],
)
def test_normalisation_of(raw: str, expected: str):
    assert clean.normalise(raw) == expected


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
    section = Corpus(text=("unused",), max_characters=40)
    codes = clean.reasons([sentence], section, ("Hang", "Hani"))
    assert clean.REASONS[codes[0]] == reason


def test_a_long_run_of_combining_marks_is_cut_to_what_a_script_can_need():
    begin = time.process_time()
    cut = clean.normalise("a" + "\u0301\u0323" * 100_000 + " b")
    assert time.process_time() - begin < 10  # minutes, when the normal form is made of all of them
    assert cut == clean.normalise("a" + "\u0301\u0323" * 15 + " b")
    assert clean.normalise(cut) == cut


def assert_cut(language: str, marked: str):
    """Of a text with a | wherever a sentence ends."""
    found = splitter(language, split_sentences=True)(marked.replace("|", ""))
    assert found == [piece.strip() for piece in marked.split("|")]


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        ("ko", "첫 줄이다|\n둘째 줄.| 셋째 문장!"),
        # languages have their own rules
        ("en", "Mr. Smith left.| He ran."),
        ("zh-Hant", "你好。|再見！"),
        ("km", "ខ្ញុំទៅផ្សារ។|យើងទិញត្រី ។ល។ និងផ្លែឈើ ។"),
        ("km", "«ខ្ញុំទៅ។»| គាត់និយាយ។"),
        ("bo", "ང་ཡིན། །|བཀྲ་ཤིས།།| བདེ་ལེགས།"),
        ("am", "ፍራፍሬ ገዛን፡፡| አንተስ፡፡"),
        # dotted names, addresses and dates stay whole, and the number of an item with it
        ("ko", "클래스 email.mime.base.MIMEBase 는 http://a.kr/b?V=C 에.| 다음.|그런데"),
        ("ko", "대법원 1976. 3. 9. 선고 75다1234 판결이 있다.| 다음.|그런데"),
        *(("ko", f"본다.| {number} 원고는 졌다.| 끝.") for number in ("1.", "가.", "(2)", "12.")),
        # a sentence goes on behind a quotation unless a space or a mark is between
        ("ko", '피고는 "빌려 달라."라고 말했다.| 끝.'),
        ("ko", "그는 ‘가자!’하고 “어서.”라며 뛰었다."),
        ("ko", "『간다.』고 말했다.| 끝."),
        ("ja", "彼は「行く。」と言った。|終わり。"),
        ("zh", "他说：“走吧。”然后走了。|完。"),
        ("en", 'He left.| "Go."| She went.'),
        ("en", 'She said "Stop!"| Then "Go."| Then left.'),
        ("ko", '"빌려 달라."| 피고는 거절했다.'),
        ("ja", "「行く。」|「待て。」"),
        ("ko", '그는 갔다.| "어서 가자."| 끝.'),
    ],
)
def test_a_line_is_cut_where_a_sentence_ends_and_nowhere_else(language: str, marked: str):
    assert_cut(language, marked)


def test_a_thai_line_of_any_length_is_cut_at_spaces():
    clause = "วันนี้ฉันไปตลาดกับแม่"
    assert segment("th", f"{clause} {clause}") == [f"{clause} {clause}"]
    pieces = segment("th", " ".join([clause] * 400))
    assert max(map(len, pieces)) < 600
    assert " ".join(pieces) == " ".join([clause] * 400)


def test_no_character_but_spaces_is_lost():
    generator = random.Random(0)
    for _ in range(300):
        line = "".join(generator.choices("가나 ab.?!\"'()1 。 나.", k=40)).strip()
        assert "".join(segment("ko", line)).replace(" ", "") == line.replace(" ", "")


@pytest.mark.timeout(120)  # quadratic time is many minutes
def test_a_line_of_300_000_dotted_names_is_one_sentence_in_linear_time():
    assert segment("ko", "a.B" * 300_000) == ["a.B" * 300_000]


def test_a_long_line_with_quotation_marks_takes_a_time_that_grows_with_its_length():
    quoted = "그는 '모른다'고 말했다. 그리고 \"안다\"고 했다. "
    begin = time.process_time()
    pieces = segment("ko", quoted * 8_000)
    assert time.process_time() - begin < 30  # 200 s when sentencex sees the line whole
    assert "".join(pieces).replace(" ", "") == (quoted * 8_000).replace(" ", "")
    assert pieces[-1] == '그리고 "안다"고 했다.'


@pytest.mark.parametrize("length", [3_000, 4_001, 9_999, 50_000])
def test_a_sentence_longer_than_a_window_stays_whole(length: int):
    assert_cut("ko", f"처음이다.| {'가' * length} 끝이다.| 다음이다.")


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("ko", ("Hang", "Hani")),
        ("kor", ("Hang", "Hani")),
        ("ja", ("Hira", "Kana", "Hani")),
        ("zh-Hant", ("Hani",)),
        ("sr", ("Cyrl",)),
        ("sr-Latn", ("Latn",)),
        ("ckb", ("Arab",)),
    ],
)
def test_the_scripts_of(language: str, expected: tuple[str, ...]):
    assert scripts.of_language(language) == expected


@pytest.mark.parametrize(
    ("language", "script", "says"),
    [
        *((one, "Hang", r'is not a BCP 47 code .*"ko"') for one in ("", "korean", "xx")),
        *(("ko", one, r'scripts: .*"Hang"') for one in ("Korean", "Hangul", "Zyyy", "", "a}]")),
    ],
)
def test_an_invalid_language_or_script_is_refused_with_an_example(language, script, says):
    with pytest.raises(RecipeError, match=says):
        scripts.of_language(language, [script])


def test_a_language_whose_script_is_unknown_switches_the_filter_off_and_warns(
    caplog: pytest.LogCaptureFixture,
):
    with caplog.at_level(logging.WARNING, logger="lingraft"):
        assert scripts.of_language("tlh") == ()
    assert "set corpus.scripts" in caplog.text


def test_shares_agree_with_a_regular_expression_on_mixed_text():
    sentences = ["हिन्दी में लिखा गया है।", "ラーメンを食べる", "Ünïcode ½ Ⅷ", "می‌خواهم", "x\u0301y"]
    letter_share, script_share = scripts.shares(sentences, ("Deva", "Kana"))
    for index, sentence in enumerate(sentences):
        visible = len(regex.findall(r"\S", sentence))
        letters = regex.findall(r"\p{L}", sentence)
        own = regex.findall(r"(?V1)[\p{L}&&[\p{scx=Deva}\p{scx=Kana}]]", sentence)
        marked = regex.findall(r"[\p{L}\p{M}]", sentence)
        assert letter_share[index] == pytest.approx(len(marked) / visible)
        assert script_share[index] == pytest.approx(len(own) / len(letters))


PASSAGE = (
    "One two three four five six seven eight nine ten eleven twelve thirteen fourteen. "
    "The cat sleeps on the stove. It does."
)


def split(text: str) -> list[str]:
    return [sentence.strip() for sentence in text.split(".") if sentence.strip()]


def contaminated(sentence: str, *texts: str) -> bool:
    return bool(Evaluations(texts or [PASSAGE], split).contaminated([sentence])[0])


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("And so: two THREE four, five six seven eight nine ten eleven twelve thirteen fourteen!",
         True),
        ("two three four five six seven eight nine ten eleven twelve thirteen", False),
        ("the cat sleeps on the stove", True),
        ("See, the cat sleeps on the stove", False),
        ("It does.", True),
        ("Itdoes", True),
        ("It", False),
        ("A sentence of its own that nobody has asked about.", False),
        ("", False),
    ],
)  # fmt: skip
def test_thirteen_words_in_a_row_or_a_whole_sentence_contaminate(
    sentence: str, expected: bool
) -> None:
    assert contaminated(sentence) is expected


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("이영화정말 재미있다", "이 영화 정말재미있다!!"),
        ("ＯＳＴ가 최고 ♥♥", "ost가최고"),
        ("ねこがねる", "ねこ が、ねる。"),
        ("कितना अच्छा", "कितनाअच्छा!"),
    ],
)
def test_letters_and_digits_alone_are_compared(sentence: str, text: str) -> None:
    assert contaminated(sentence, text)


def test_a_line_that_was_cut_into_sentences_is_found_whole() -> None:
    text = "재미있다 배우도 좋다 또 본다"
    found = Evaluations([text], split).contaminated(
        ["앞 문장이다.", "재미있다.", "배우도 좋다.", "또 본다!", "뒤 문장이다."]
    )
    assert found.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(
    "form",
    [
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: "\u00ad".join(text),
        lambda text: text.replace(" ", "\u200b "),
        lambda text: text.replace(" ", "\u3000"),
    ],
    ids=["NFD", "soft hyphens", "zero-width spaces", "wide spaces"],
)
def test_the_way_an_evaluation_is_encoded_makes_no_difference(form: Callable[[str], str]) -> None:
    passage = "가을 바람이 산들산들 부는 날에 나는 어머니와 함께 작은 시장에 가서 사과를 두 개 샀다"
    sentence = f"그는 말했다 {passage} 그리고 웃었다"
    assert contaminated(sentence, form(passage))
    assert not contaminated(sentence, form(passage.replace("함께", "")))


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json"])
def test_a_cell_of_many_lines_is_found_in_any_kind_of_file(tmp_path: Path, suffix: str) -> None:
    verses = ["The cat sleeps on the stove", "The dog does not", "Nobody has asked about it"]
    path = tmp_path / f"a{suffix}"
    cell = "\n".join(verses)
    path.write_text(
        {".csv": f'id,text\n1,"{cell}"\n', ".tsv": cell, ".json": json.dumps([cell])}[suffix]
    )
    found = Evaluations(texts_of([path]), str.splitlines)
    assert found.contaminated([*verses, "Something else here"]).tolist() == [True] * 3 + [False]


@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_a_sentence_is_found_in_tables_and_in_wrapped_text(comma: str, tmp_path: Path) -> None:
    long, *others = ["Es " + " ".join(f"w{n}{m}" for m in range(30)) + "." for n in range(15)]
    short = "Wer hat das Haus gebaut"
    (tmp_path / "a.csv").write_text(f"frage{comma}antwort\n{short}{comma}Der Maurer\n")
    (tmp_path / "c.csv").write_text('"Erst; dann; danach",1\nEin Satz ohne Kopf davor,2\n')
    (tmp_path / "b.txt").write_text("\n".join(textwrap.fill(one, 70) for one in (long, *others)))
    found = Evaluations(texts_of([tmp_path]), str.splitlines)
    asked = [short, long, "Ein Satz ohne Kopf davor", "Etwas ganz anderes"]
    assert found.contaminated(asked).tolist() == [True, True, True, False]


def test_words_in_a_row_go_on_over_the_ends_of_lines() -> None:
    lines = ["And so: two three four five", "six seven eight nine ten", "eleven twelve thirteen"]
    lines = ["먼저 온 줄", *lines, "fourteen ends here", "나중에 온 줄"]
    found = Evaluations([PASSAGE], split).contaminated(lines)
    assert found.tolist() == [False, True, True, True, True, False]


def test_thai_sentences_that_share_a_common_phrase_with_a_task_stay():
    evaluation = "เขาบอกว่าเพราะฉะนั้นเราจึงต้องกลับบ้านก่อนที่ฝนจะตกลงมาอย่างหนักในตอนเย็นของวันศุกร์นี้ด้วย"
    evaluations = Evaluations([evaluation], str.split)
    common = "แต่เพราะฉะนั้นเราจึงต้องรอให้ทุกคนเห็นด้วยกับแผนงานใหม่ของบริษัท"
    assert evaluations.contaminated([common, f"ข่าว{evaluation}จบ"]).tolist() == [False, True]
