import random
import time

import pytest

from lingraft.corpus.cleaning.clean import segment, splitter


def test_lines_are_cut_before_sentences():
    split = splitter("ko", split_sentences=True)
    assert split("첫 줄이다\n둘째 줄. 셋째 문장!") == ["첫 줄이다", "둘째 줄.", "셋째 문장!"]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Mr. Smith left. He ran.", ["Mr. Smith left.", "He ran."]),
        ("zh-Hant", "你好。再見！", ["你好。", "再見！"]),
        ("km", "ខ្ញុំទៅផ្សារ។យើងទិញត្រី ។ល។ និងផ្លែឈើ ។", ["ខ្ញុំទៅផ្សារ។", "យើងទិញត្រី ។ល។ និងផ្លែឈើ ។"]),
        ("km", "«ខ្ញុំទៅ។» គាត់និយាយ។", ["«ខ្ញុំទៅ។»", "គាត់និយាយ។"]),
        ("bo", "ང་ཡིན། །བཀྲ་ཤིས།། བདེ་ལེགས།", ["ང་ཡིན། །", "བཀྲ་ཤིས།།", "བདེ་ལེགས།"]),
        ("am", "ፍራፍሬ ገዛን፡፡ አንተስ፡፡", ["ፍራፍሬ ገዛን፡፡", "አንተስ፡፡"]),
    ],
)
def test_languages_have_their_own_rules(language: str, text: str, expected: list[str]):
    assert splitter(language, split_sentences=True)(text) == expected


def test_a_thai_line_of_any_length_is_cut_at_spaces():
    clause = "วันนี้ฉันไปตลาดกับแม่"
    assert segment("th", f"{clause} {clause}") == [f"{clause} {clause}"]
    pieces = segment("th", " ".join([clause] * 400))
    assert max(map(len, pieces)) < 600
    assert " ".join(pieces) == " ".join([clause] * 400)


@pytest.mark.parametrize(
    "text",
    [
        "클래스 email.mime.base.MIMEBase 는 http://a.kr/b?V=C 에.",
        "대법원 1976. 3. 9. 선고 75다1234 판결이 있다.",
    ],
)
def test_dotted_names_addresses_and_dates_stay_whole(text: str):
    assert segment("ko", f"{text} 다음.그런데") == [text, "다음.", "그런데"]


@pytest.mark.parametrize("number", ["1.", "가.", "(2)", "12."])
def test_the_number_of_an_item_stays_with_the_item(number: str):
    assert segment("ko", f"본다. {number} 원고는 졌다. 끝.") == [
        "본다.",
        f"{number} 원고는 졌다.",
        "끝.",
    ]


def test_no_character_but_spaces_is_lost():
    generator = random.Random(0)
    for _ in range(300):
        line = "".join(generator.choices("가나 ab.?!\"'()1 。 나.", k=40)).strip()
        assert "".join(segment("ko", line)).replace(" ", "") == line.replace(" ", "")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("ko", '피고는 "빌려 달라."라고 말했다. 끝.', ['피고는 "빌려 달라."라고 말했다.', "끝."]),
        ("ko", "그는 ‘가자!’하고 “어서.”라며 뛰었다.", ["그는 ‘가자!’하고 “어서.”라며 뛰었다."]),
        ("ko", "『간다.』고 말했다. 끝.", ["『간다.』고 말했다.", "끝."]),
        ("ja", "彼は「行く。」と言った。終わり。", ["彼は「行く。」と言った。", "終わり。"]),
        ("zh", "他说：“走吧。”然后走了。完。", ["他说：“走吧。”然后走了。", "完。"]),
        ("en", 'He left. "Go." She went.', ["He left.", '"Go."', "She went."]),
        ("en", 'She said "Stop!" Then "Go." Then left.',
         ['She said "Stop!"', 'Then "Go."', "Then left."]),
        ("ko", '"빌려 달라." 피고는 거절했다.', ['"빌려 달라."', "피고는 거절했다."]),
        ("ja", "「行く。」「待て。」", ["「行く。」", "「待て。」"]),
        ("ko", '그는 갔다. "어서 가자." 끝.', ["그는 갔다.", '"어서 가자."', "끝."]),
    ],
)  # fmt: skip
def test_a_sentence_goes_on_behind_a_quotation_unless_a_space_or_a_mark_is_between(
    language: str, text: str, expected: list[str]
):
    assert segment(language, text) == expected


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
    endless = "가" * length
    assert segment("ko", f"처음이다. {endless} 끝이다. 다음이다.") == [
        "처음이다.",
        f"{endless} 끝이다.",
        "다음이다.",
    ]
