import pytest

from lingraft.corpus.cleaning.words import ends, measured, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The CAT's 2nd nap.", ["the", "cat", "s", "2nd", "nap"]),
        ("고양이가, 잔다!", ["고양이가", "잔다"]),
        ("猫が寝る。", ["猫", "が", "寝", "る"]),
        ("Python で書く", ["python", "で", "書", "く"]),
        ("काम करना", ["काम", "करना"]),
        ("Cafe\u0301", ["cafe\u0301"]),
        ("… !", []),
    ],
)
def test_words_are_runs_of_letters_or_characters_of_scripts_without_spaces(
    text: str, expected: list[str]
) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("one two three four", 3, [3, 4]),
        ("猫が寝る", 3, [3, 4]),
        ("กขคงจฉชซฌ", 2, [8, 9]),
        ("ກຂຄງຈສຊ", 2, []),
        ("abc กขคง def", 2, [5, 6]),
    ],
)
def test_four_characters_of_scripts_that_spell_words_are_as_long_as_one(
    text: str, size: int, expected: list[int]
) -> None:
    assert list(ends(measured(words(text)), size)) == expected
