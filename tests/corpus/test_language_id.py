import numpy as np
import pytest

from lingraft.corpus.cleaning.scripts import MIN_CHARACTERS, LanguageIdentifier
from lingraft.errors import RecipeError

pytest.importorskip("py3langid")

KOREAN = "고양이가 따뜻한 아랫목에서 하루 종일 자고 있었다."
ENGLISH = "The cat was sleeping on the warm stove all day long."
CHINESE = "那只猫整天都在温暖的炉子上睡觉，一直睡到晚上才醒来。"
CANTONESE = "隻貓成日都喺個暖爐上面瞓覺，一直瞓到夜晚先至醒。"
GERMAN = "Die Katze schlief den ganzen Tag auf dem warmen Ofen."


@pytest.mark.parametrize(
    ("language", "own"),
    [("ko", KOREAN), ("en", ENGLISH), ("zh-Hant", CHINESE), ("zh", CANTONESE), ("de-AT", GERMAN)],
)
def test_only_the_language_asked_for_is_not_foreign(language: str, own: str) -> None:
    texts = [KOREAN, ENGLISH, CHINESE, GERMAN, own]
    same = {own, CHINESE if own == CANTONESE else own}
    foreign = LanguageIdentifier(language).foreign(texts)
    assert foreign.tolist() == [text not in same for text in texts]


@pytest.mark.parametrize(
    ("language", "own"),
    [
        ("mk", "Градот има стар пазар."),
        ("sl", "Kupil sem nov klobuk."),
        ("xh", "Umama upheka ukutya."),
        ("ms", "Saya minum air sejuk."),
    ],
)
def test_a_sentence_stays_though_near_languages_have_most_of_the_probability(
    language: str, own: str
) -> None:
    assert LanguageIdentifier(language).foreign([own, ENGLISH]).tolist() == [False, True]


def test_the_rest_of_a_document_says_which_of_two_near_languages_a_sentence_is_in() -> None:
    either = "Книгата лежи на масата."
    macedonian = ["Јас ќе купам нова кошула.", "Децата спијат во собата.", either]
    bulgarian = ["Къде са новите обувки?", "Планината е покрита със сняг.", either]
    documents = np.array([0, 0, 0, 1, 1, 1])
    foreign = LanguageIdentifier("mk").foreign([*macedonian, *bulgarian], documents)
    assert foreign.tolist() == [False, False, False, True, True, True]


def test_short_texts_are_never_foreign() -> None:
    assert len("Good night!") < MIN_CHARACTERS
    assert not LanguageIdentifier("ko").foreign(["Good night!", ""]).any()


def test_a_language_that_the_model_does_not_know_is_refused() -> None:
    with pytest.raises(RecipeError, match="'tlh' is not among the"):
        LanguageIdentifier("tlh")
