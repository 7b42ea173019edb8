import pytest

from lingraft.corpus.cleaning.words import words


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
