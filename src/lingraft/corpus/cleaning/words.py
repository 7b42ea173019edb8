"""Words of a text in any script, for what compares texts word by word."""

from __future__ import annotations

import unicodedata

import regex

# Scripts that put no spaces between words: a character counts as a word.
WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|"
    r"[\p{L}\p{N}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]"
    r"[\p{L}\p{N}\p{M}--[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]]*",
    regex.VERSION1,
)


NO_LETTER = regex.compile(r"[^\p{L}\p{N}\p{M}]+")


def letters(text: str) -> str:
    """The letters (with their marks) and digits of a text, of one case and width (NFKC).

    White space and punctuation go: what is left is the same however somebody spaced the text.
    """
    characters: str = NO_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold())
    return characters


def words(text: str) -> list[str]:
    """The words of a text, case folded, without punctuation.

    A word is a run of letters, marks and digits between other characters (in Korean an eojeol
    without its punctuation); in scripts that do not part words (Chinese, Japanese, Thai, Lao,
    Khmer, Burmese) it is a character with its marks.
    """
    matches: list[str] = WORD.findall(text.casefold())
    return matches
