import random

import pytest

from lingraft.corpus.cleaning import repetition
from lingraft.recipe import Repetition

rng = random.Random(0)
VOCABULARY = ["".join(rng.choices("가나다라마바사아자차카타파하", k=3)) for _ in range(3_000)]


def sentence(length: int = 12) -> str:
    return " ".join(rng.choices(VOCABULARY, k=length)) + "."


def reason(document: str, **limits: float) -> str:
    return repetition.reason(document, Repetition(**limits))  # type: ignore[arg-type]


PROSE = "\n".join(sentence() for _ in range(40))
PHRASES = [sentence(6).rstrip(".") for _ in range(5)]
SAME = sentence()


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (PROSE, ""),
        ("\n".join([PROSE] + [SAME] * 30), repetition.REPEATED_LINES),
        (f"{PROSE}\n\n{PROSE}", repetition.REPEATED_LINES),
        ("\n".join(f"• {line}" for line in PROSE.splitlines()), repetition.LIST),
        ("\n".join(f"{line[:-1]}…" for line in PROSE.splitlines()), repetition.TEASERS),
        (" ".join(f"{sentence(4)} 꼭 사세요" for _ in range(60)), repetition.FREQUENT_PHRASE),
        (
            " ".join(f"{sentence(12)} {PHRASES[n % 5]}" for n in range(20)),
            repetition.REPEATED_PHRASES,
        ),
        ("짧은 글\n짧은 글\n짧은 글", ""),
        ("", ""),
    ],
)
def test_a_document_is_dropped_for_the_first_reason_that_applies(
    document: str, expected: str
) -> None:
    assert reason(document) == expected


def test_repeated_paragraphs_count_even_where_their_lines_do_not() -> None:
    # 6 of 46 lines repeat, but 6 of 16 paragraphs do.
    block = "\n".join(sentence() for _ in range(30))
    document = "\n\n".join([block, *(sentence(2) for _ in range(9)), *["끝 문단이다."] * 7])
    assert reason(document) == repetition.REPEATED_PARAGRAPHS
    assert reason(document.replace("\n", "\r\n")) == repetition.REPEATED_PARAGRAPHS


def test_one_in_three_repeated_lines_is_the_limit() -> None:
    lines = [sentence(3) for _ in range(70)]
    # Long lines make the repeated ones a small share of the characters.
    lines[:5] = [sentence(200) for _ in range(5)]
    assert reason("\n".join(lines + ["끝 줄."] * 30)) == ""
    assert reason("\n".join(lines + ["끝 줄."] * 33)) == repetition.REPEATED_LINES


def test_a_long_document_without_repetition_is_kept() -> None:
    long = "\n".join(sentence() for _ in range(4_000))
    assert reason(long) == ""


THAI = (
    "การ ความ ประเทศ โรงเรียน นักเรียน รัฐบาล ประชาชน วันนี้ ตลาด มะม่วง มังคุด กลับบ้าน โรงพยาบาล จังหวัด "
    "น้องชาย หนังสือ มหาวิทยาลัย แม่น้ำ สะพาน ชาวบ้าน ทุ่งนา ประกาศ รถไฟ กรุงเทพ ภาคเหนือ ต้อนรับ ฝนตก เดินทาง"
)


def test_thai_prose_does_not_repeat_itself_because_its_words_are_of_several_characters() -> None:
    words = THAI.split()
    line = "".join(rng.choices(words, k=6))
    prose = "\n".join("".join(rng.choices(words, k=12)) for _ in range(12))
    assert reason(prose) == ""
    assert reason(" ".join([prose] + [line] * 6)) == repetition.REPEATED_PHRASES
