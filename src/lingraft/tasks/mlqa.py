"""MLQA's rules for comparing answers, a language each (Lewis et al. 2020; SPEC C.3)."""

from __future__ import annotations

import functools
import re
import string
import sys
import unicodedata

ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # the first branch never matches: ^ stands after a letter; so ال goes wherever it is
    "ar": r"\sال^|ال",
    "hi": None,
    "zh": None,
}
"""Language → its articles; None: none are taken away."""
LANGUAGES = tuple(ARTICLES)
CHARACTERS = ("zh",)
"""Languages in which a Han character counts as a word."""
HAN = re.compile("([\u4e00-\u9fa5])")


@functools.cache
def punctuation() -> dict[int, None]:
    """Every character of the Unicode classes P*, and ASCII's, for `str.translate`."""
    characters = (chr(code) for code in range(sys.maxunicode))
    marks = {character for character in characters if unicodedata.category(character)[0] == "P"}
    return dict.fromkeys(map(ord, marks | set(string.punctuation)))


def normalise_mlqa(answer: str, language: str) -> str:
    """Lower case, without punctuation, articles and repeated spaces; words joined by one space."""
    text = answer.lower().translate(punctuation())
    articles = ARTICLES[language]
    if articles is not None:
        text = re.sub(articles, " ", text)
    if language in CHARACTERS:
        text = HAN.sub(r" \1 ", text)
    return " ".join(text.split())
