import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from lingraft.corpus.cleaning.decontamination import Evaluations, texts_of

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
