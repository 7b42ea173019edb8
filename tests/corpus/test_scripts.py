import logging

import pytest
import regex

from lingraft.corpus.cleaning import scripts
from lingraft.errors import RecipeError


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


@pytest.mark.parametrize("language", ["", "korean", "xx"])
def test_an_invalid_language_is_a_recipe_error_with_an_example(language: str):
    with pytest.raises(RecipeError, match=r'is not a BCP 47 code .*"ko"') as caught:
        scripts.of_language(language)
    assert "\n" not in str(caught.value)


def test_a_language_whose_script_is_unknown_switches_the_filter_off_and_warns(
    caplog: pytest.LogCaptureFixture,
):
    with caplog.at_level(logging.WARNING, logger="lingraft"):
        assert scripts.of_language("tlh") == ()
    assert "set corpus.scripts" in caplog.text


@pytest.mark.parametrize("script", ["Korean", "Hangul", "Zyyy", "", "a}]"])
def test_an_unknown_script_is_a_recipe_error_with_an_example(script: str):
    with pytest.raises(RecipeError, match=r'corpus.scripts: .*"Hang"'):
        scripts.of_language("ko", [script])


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
